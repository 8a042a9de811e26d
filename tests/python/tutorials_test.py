"""The tutorials of docs/tutorials say what happens: their commands and their Python are run, and print what is shown.

    python3 tutorials_test.py POLYHEAD [--models]     --models: those with models that `polyhead get` has fetched, and README.md

Blocks of `console` are commands, each after "$ ", and what they print; a block of `text` is what the Python before it prints. A line
"..." stands for any number of lines, "…" within a line for what differs from machine to machine. Blocks of `sh` need a network or
a browser. The pages on C++ are those of tests/house/consumer.cmake, that on PyTorch of tests/parity/torch_parity.py.
"""
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
POLYHEAD = Path(sys.argv[1]).resolve()
MODELS = "--models" in sys.argv
ELSEWHERE = {"embed.md"}
OF_FETCHED_MODELS = {"own-checkpoint.md"}


def same(shown, printed):
    pattern = ".*".join(map(re.escape, shown.split("…")))
    return re.fullmatch(pattern, printed.rstrip()) is not None


def matches(shown, printed):
    """Whether the lines are those that are shown."""
    if not shown:
        return not printed
    if shown[0] != "...":
        return bool(printed) and same(shown[0].rstrip(), printed[0]) and matches(shown[1:], printed[1:])
    return any(matches(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1))


class Tutorials(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        shutil.copy(ROOT / "docs/semantics.md", "book.txt")
        self.around = {**os.environ, "PATH": f"{POLYHEAD.parent}:{os.environ['PATH']}"}

    def follow(self, page):
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        self.assertTrue(any(language in ("console", "python") for language, _ in blocks), f"{page} has nothing to run")
        names, printed = {}, None
        for language, block in blocks:
            if language == "console":
                self.type_all(page, block)
            elif language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    exec(compile(block, str(page), "exec"), names)
                printed = output.getvalue()
            elif language == "text":
                self.expect(page, block, printed)
        return names

    def type_all(self, page, block):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            ran = subprocess.run(command, shell=True, env=self.around, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(ran.returncode, 0, f"{page.name}: {command}\n{ran.stderr}")
            self.expect(page, shown, ran.stdout, command)

    def expect(self, page, shown, printed, command="its Python"):
        self.assertTrue(matches(shown.splitlines(), printed.splitlines()), f"{page.name}: {command} prints\n{printed}")

    @unittest.skipIf(MODELS, "those of fetched models")
    def test_one_after_the_other(self):
        # In one folder: the second prunes what the first trains.
        pages = {page.name: page for page in (ROOT / "docs/tutorials").glob("*.md")}
        accuracy = self.follow(pages.pop("induction.md"))["accuracy"]
        self.assertGreater(min(accuracy((1, 1)), accuracy((0, 2), (0, 3))), 0.95)
        self.assertLess(accuracy((1, 0), (1, 1), (1, 2), (1, 3)), 0.1)
        self.assertLess(accuracy((0, 0), (0, 1)), accuracy((0, 1)) - 0.2)
        smaller = self.follow(pages.pop("prune-and-measure.md"))["smaller"]
        self.assertLess(len(smaller.heads), 8)
        self.assertEqual(set(pages), ELSEWHERE | OF_FETCHED_MODELS, "a page that no test follows")

    @unittest.skipUnless(MODELS, "needs models")
    def test_of_fetched_models(self):
        for name in OF_FETCHED_MODELS:
            self.follow(ROOT / "docs/tutorials" / name)
        readme = re.search(r"```python\n(import polyhead\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(readme, {})
        self.assertRegex(output.getvalue(), r"\Aorbit(?s:.*)\Z")
        self.assertEqual(output.getvalue().count("orbit"), 1)

    def test_dots_stand_for_anything(self):
        printed = ["a", "b 12 c", "c  ", "d"]
        for shown in (["a", "b 12 c", "c", "d"], ["a", "...", "d"], ["...", "c", "..."], ["a", "b … c", "..."], ["a", "b…", "..."]):
            self.assertTrue(matches(shown, printed), shown)
        for shown in (["a", "b … d", "..."], ["a", "…x", "..."], ["a", "...", "c"], ["a", "c", "..."], []):
            self.assertFalse(matches(shown, printed), shown)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
