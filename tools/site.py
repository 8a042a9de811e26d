"""What the site of mkdocs.yml has beside docs/: the pages at the root of the repository, the examples, and the reference, made of
the public headers and of the docstrings of the Python package.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
HEADERS = ("tensor", "context", "attention", "cache", "rotary", "linear", "layer", "text", "model", "heads", "info", "error", "polyhead_c")
MODULES = ("polyhead", "polyhead.torch", "polyhead.transformers")
LANGUAGES = {".cpp": "cpp", ".c": "c"}


def from_the_root(text):
    """A page of the root, its links as seen from docs/."""
    text = re.sub(r'(\]\(|src="|srcset=")docs/', r"\1", text)
    return text.replace("](README.md", "](index.md").replace("](examples)", "](examples/index.md)")


def headers():
    yield "# C++ and C\n\nThe public headers as they are; `polyhead/polyhead.h` includes all but the last, which is C's."
    for name in HEADERS:
        yield f"## polyhead/{name}.h\n\n```cpp\n{(ROOT / f'include/polyhead/{name}.h').read_text()}```"


def modules():
    yield "# Python\n\nWhat [Python](../python.md) explains, name by name."
    for name in MODULES:
        yield f"## {name}\n\n::: {name}\n    options:\n      show_root_heading: false\n      show_root_toc_entry: false"


def examples(sources):
    yield "# Examples\n\nShort programs against the public headers; the tests build and run them."
    for source in sources:
        if source.suffix in LANGUAGES:
            yield f"## {source.name}\n\n```{LANGUAGES[source.suffix]}\n{source.read_text()}```"


def on_files(files, config):
    def add(uri, content):
        files.append(File.generated(config, uri, content=content))

    for page in PAGES:
        add("index.md" if page == "README.md" else page, from_the_root((ROOT / page).read_text()))
    sources = sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (*LANGUAGES, ".ipynb"))
    for source in [*sources, ROOT / "LICENSE"]:
        add(source.relative_to(ROOT).as_posix(), source.read_text())
    add("examples/index.md", "\n\n".join(examples(sources)))
    add("api/cpp.md", "\n\n".join(headers()))
    add("api/python.md", "\n\n".join(modules()))
    dark = "[data-bs-theme=dark]"
    add("highlight.css", HtmlFormatter().get_style_defs(".highlight") + "\n"
        + HtmlFormatter(style="github-dark").get_style_defs(f"{dark} .highlight"))  # fmt: skip
    return files


def on_page_markdown(markdown, page, **_):
    """Of docs/, links to what lies beside it."""
    up = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"]({up}../README.md", f"]({up}index.md").replace(f"]({up}../", f"]({up}")
