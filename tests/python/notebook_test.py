"""examples/heads.ipynb runs, and its cells show tables, figures and the page; what the page holds, and what it keeps out."""

import ast
import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom
from pathlib import Path

import numpy as np

import polyhead
from polyhead import _figures

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/viewer"))
import browser  # noqa: E402


def shown(cell, names):
    """Runs a cell; what a notebook would show of its last expression, as HTML."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


def data_of(page):
    """What the page reads."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html, re.DOTALL)[1])


class Notebook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls._before = os.getcwd()
        os.chdir(cls._folder.name)
        os.mkdir("run")
        subprocess.run([os.environ["POLYHEAD_INDUCTION"], "run"], check=True)
        book = json.loads((ROOT / "examples/heads.ipynb").read_text())
        cls.names, printed = {}, io.StringIO()
        cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
        with contextlib.redirect_stdout(printed):
            cls.shown = {cell: shown(cell, cls.names) for cell in cells}
        cls.printed = printed.getvalue()
        cls.outputs = [cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code"]

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls._before)
        cls._folder.cleanup()

    def cell(self, words):
        return next(found for cell, found in self.shown.items() if words in cell)

    def test_the_layer_learns(self):
        self.assertLess(np.mean(self.names["losses"][-20:]), 0.1 * self.names["losses"][0])
        self.assertEqual(len(self.printed.splitlines()), 4)

    def test_cells_show_tables_and_figures(self):
        for words, heads in (("statistics=\"light\", weights=True)", 4), ("the line below the diagonal", 2)):
            found = self.cell(words)
            self.assertEqual(found.count("<tr>"), heads + 1)
            self.assertIn(f"head {heads - 1}</text>", found)
            drawing = xml.dom.minidom.parseString(re.search(r"<svg.*</svg>", found, re.DOTALL)[0])
            self.assertGreater(len(drawing.getElementsByTagName("path")), heads)
        self.assertIn("<td>induction</td>", self.cell("model.survey"))
        self.assertIn("damage (zero)", self.cell("model.importance"))
        curve = self.cell("model.prune")
        self.assertEqual(curve.count("<circle"), len(self.names["curve"].steps) + 1)
        self.assertEqual(curve.count("<td>yes</td>"), self.names["curve"].within_budget + 1)
        self.assertFalse(any(self.outputs))  # the notebook is kept without them

    def test_the_page_is_whole(self):
        self.assertIn('sandbox="allow-scripts"', self.cell("model.page"))
        model, texts = self.names["model"], self.names["texts"]
        page = model.page(texts[0], words=["<b>", "</script>", "a\u202eb"] + ["x"] * 29, examples=self.names["examples"], title="A & B")
        self.assertNotIn("{{", page.html)
        self.assertEqual(page.html.count("</script>"), 2)
        self.assertIn("<title>A &amp; B</title>", page.html)
        self.assertNotRegex(page.html, r"(src|href)=\"?https?:")
        found = data_of(page)["models"][0]
        self.assertEqual(found["samples"][0]["tokens"][:3], ["<b>", "</script>", "a‹U+202E›b"])
        self.assertEqual([(head["layer"], head["head"]) for head in found["heads"]], model.heads)
        self.assertEqual(found["heads"][2]["role"], "induction")
        self.assertGreater(found["heads"][2]["damage"], found["heads"][3]["damage"])
        stored = np.frombuffer(base64.b64decode(found["samples"][0]["weights"]), np.uint8).reshape(4, 32, 32)
        weights = model.weights(texts[:1])
        np.testing.assert_allclose((stored / 255.0) ** 2, np.concatenate([weights[0][0], weights[1][0]]), atol=0.004)
        self.assertTrue((weights[1][0, 0, 17:].argmax(1) == np.arange(17, 32) - 15).all())  # the token after its last occurrence
        with tempfile.TemporaryDirectory() as folder:
            page.save(os.path.join(folder, "heads.html"))
            self.assertEqual(Path(folder, "heads.html").read_text(), page.html)

    def test_the_page_comes_up_in_a_cell(self):
        Path("cell.html").write_text(f"<!doctype html><body>{self.cell('model.page')}</body>")
        running = browser.Browser(os.environ["CHROMIUM"])
        try:
            tab = browser.Tab(running, 1000, 700, "light")
            tab.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)
            tab.open(Path("cell.html").resolve().as_uri())
            running.wait_for("Target.attachedToTarget")
            frame = next(event["params"]["sessionId"] for event in running.events if event.get("method") == "Target.attachedToTarget")
            run = lambda script: running.call("Runtime.evaluate", session=frame, expression=script, awaitPromise=True)["result"]  # noqa: E731
            run("new Promise((done) => document.readyState == 'complete' ? done() : addEventListener('load', done)).then(() => 0)")
            self.assertEqual(run("document.querySelectorAll('.card').length").get("value"), 4)
            run("document.querySelector('.card').click()")
            self.assertTrue(run("document.querySelector('#head').open").get("value"))
            self.assertIn("head=0.0", run("location.hash").get("value"))  # the address keeps the state
            self.assertEqual(tab.complaints(), [])
        finally:
            running.close()

    def test_what_does_not_fit_is_said(self):
        model, texts = self.names["model"], self.names["texts"]
        for error, words, call in (
            (polyhead.ShapeError, "words: expected one for each of 32", lambda: model.page(texts[0], words=["a"])),
            (polyhead.ShapeError, "words: expected one for each of 32.*found 33", lambda: model.page(texts[0], words=["a"] * 33)),
            (polyhead.ShapeError, "tokens", lambda: model.page(texts)),
            (polyhead.InvalidValueError, "shorter", lambda: model.page(np.zeros(10_000, int))),
            (polyhead.InvalidValueError, "with heads", lambda: model.without(model.heads).page(texts[0])),
        ):
            with self.assertRaisesRegex(error, words):
                call()


class Figures(unittest.TestCase):
    def test_shades_are_the_roots_of_weights(self):
        drawing = xml.dom.minidom.parseString(_figures.heat_maps(np.array([[[1.0, 0.0], [0.25, 0.001]]]), ["one"], ["<a>", "b"]))
        shades = [path.getAttribute("fill-opacity") for path in drawing.getElementsByTagName("path")]
        self.assertEqual(shades, ["0.50", "1.00"])
        texts = [text.firstChild.data for text in drawing.getElementsByTagName("text")]
        self.assertEqual(texts, ["one", "<a>", "b", "<a>", "b"])

    def test_too_much_is_said(self):
        self.assertIn("too many", _figures.heat_maps(np.zeros((2, 500, 500)), ["a", "b"]))
        self.assertIn("<svg", _figures.heat_maps(np.zeros((0, 2, 2)), []))


if __name__ == "__main__":
    unittest.main()
