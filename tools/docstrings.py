"""Docstrings of the Python package as the site shows them: examples as code, "name    what it is" as a list."""

import re

import griffe

ROW = re.compile(r"(\S.*?) {2,}(\S.*)")


def rows_of(lines):
    """[name, what it is] of a paragraph that is a table, whose rows may go on further in; else nothing."""
    rows = []
    for line in lines:
        row = ROW.fullmatch(line)
        if row and not line.startswith(" "):
            rows.append(list(row.groups()))
        elif rows and line.startswith("    "):
            rows[-1][1] += " " + line.strip()
        else:
            return []
    return rows


def shown(paragraph):
    lines = paragraph.splitlines()
    example = next((n for n, line in enumerate(lines) if line.startswith(">>> ")), len(lines))
    words, code = lines[:example], "\n".join(lines[example:])
    parts = [f"- `{name}`: {what}" for name, what in rows_of(words)] or words
    return "\n".join(parts) + (f"\n\n```pycon\n{code}\n```" if code else "")


class Docstrings(griffe.Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = "\n\n".join(map(shown, obj.docstring.value.split("\n\n")))
