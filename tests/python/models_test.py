"""polyhead.load on a model whose heads are known: it runs, is examined, pruned and saved."""

import collections
import contextlib
import doctest
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

import numpy as np

import polyhead
from polyhead import _model, _text


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = cls._folder.name
        subprocess.run([os.environ["POLYHEAD_INDUCTION"], cls.folder], check=True)
        cls.model = polyhead.load(cls.folder)
        rng = np.random.default_rng(0)
        cls.tokens = np.stack([np.tile(rng.permutation(16), 2) for _ in range(4)])
        targets = np.roll(cls.tokens, -1, 1)
        targets[:, :16] = -1
        cls.examples = polyhead.Examples(cls.tokens, targets)

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def test_fetched_models_have_names(self):
        with tempfile.TemporaryDirectory() as cache, unittest.mock.patch.dict(os.environ, POLYHEAD_CACHE=cache):
            for name in ("smollm2", "hf:some/model"):
                for load in (polyhead.load, polyhead.Tokenizer.load):
                    with self.assertRaisesRegex(polyhead.InputError, f"nothing is at {name}.*'polyhead get {name}' fetches it"):
                        load(name)
            for load in (polyhead.load, polyhead.Tokenizer.load):
                with self.assertRaisesRegex(polyhead.InputError, "nothing is at smolm2.*did you mean 'smollm2'"):
                    load("smolm2")
            for name in ("minilm", "hf/some/model"):
                shutil.copytree(self.folder, os.path.join(cache, name))
            for name in ("minilm", "hf:some/model"):
                self.assertEqual(polyhead.load(name).heads, self.model.heads)
                self.assertEqual(polyhead.Tokenizer.load(name).encode("d b e"), [3, 1, 4])

    def test_it_says_what_it_is(self):
        self.assertEqual(self.model.heads, [(0, 0), (0, 1), (1, 0), (1, 1)])
        self.assertEqual((self.model.vocabulary, self.model.context_length), (16, 32))
        self.assertIn("2 layers, 4 heads", repr(self.model))

    def test_it_runs_and_goes_on(self):
        logits = self.model(self.tokens)
        self.assertEqual(logits.shape, (4, 32, 16))
        found = logits[:, 17:-1].argmax(-1)
        self.assertGreater((found == self.tokens[:, 18:]).mean(), 0.9)
        without = self.model(self.tokens, knocked_out=[(1, 0)])
        self.assertLess((without[:, 17:-1].argmax(-1) == self.tokens[:, 18:]).mean(), 0.3)
        self.assertEqual(self.model.generate([[0, 1, 2, 3, 4, 1], [9, 8, 9]], 3), [[2, 3, 4], [8, 9, 8]])
        drawn = [self.model.generate([[0, 1]], 8, temperature=2.0, seed=seed)[0] for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_results_outlive_the_call(self):
        logits = self.model(self.tokens)
        again = self.model(self.tokens)
        np.testing.assert_array_equal(logits, again)

    def test_heads_are_examined_and_pruned(self):
        table = self.model.survey(self.tokens)
        self.assertEqual([head.role for head in table][::2], ["previous token", "induction"])
        self.assertIn("induction", str(table))
        self.assertIn("<td>induction</td>", table._repr_html_())
        self.assertEqual(table._repr_html_().count("linear-gradient"), 4 + sum(head.role is not None for head in table))
        cells = re.findall("<td[^>]*>([^<]*)</td>", table._repr_html_())
        for n, head in enumerate(table):
            mean = {name: f"{head.sums[name] / head.sums['rows']:.3f}" for name in ("entropy", "first_weight", "previous_weight")}
            self.assertNotEqual(mean["first_weight"], mean["previous_weight"])
            score = f"{head.role_score:.3f}" if head.role else ""
            self.assertEqual(cells[4 * n : 4 * n + 4], [head.role or "", score, mean["entropy"], mean["first_weight"]])
        importance = self.model.importance(self.examples)
        self.assertGreater(importance[2].zero.mean, 1)
        self.assertAlmostEqual(importance[3].zero.mean, 0, places=5)
        bars = [float(share) for share in re.findall(r"transparent ([0-9.]+)%", importance._repr_html_())]
        self.assertEqual(len(bars), 16)
        most = max(head.gradient for head in importance)
        np.testing.assert_allclose(bars[::4], [100 * head.gradient / most for head in importance], atol=0.06)
        self.assertGreater(self.model.score(self.examples)[1], 0.95)
        self.assertLess(self.model.score([self.examples], knocked_out=[(1, 0)])[1], 0.3)
        curve = self.model.prune(self.examples, self.examples)
        self.assertEqual(sorted(curve.removed), [(0, 1), (1, 1)])
        smaller = self.model.without(curve.removed)
        self.assertLess(smaller.parameter_count, self.model.parameter_count)
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "small er")
            smaller.save(target)
            self.assertEqual(polyhead.load(target).heads, [(0, 0), (1, 0)])

    def test_texts_are_tokens(self):
        tokenizer = self.model.tokenizer
        self.assertEqual((tokenizer.encode("d b e"), len(tokenizer)), ([3, 1, 4], 16))
        self.assertEqual(tokenizer(["d  b", "e"], return_offsets_mapping=True), {
            "input_ids": [[3, 1], [4]], "attention_mask": [[1, 1], [1]], "offset_mapping": [[(0, 1), (3, 4)], [(0, 1)]]})
        self.assertEqual(tokenizer.decode([3, 1], return_offsets_mapping=True), ("d b", [(0, 1), (1, 3)]))
        self.assertEqual(tokenizer.decode(np.int64(3)), "d")
        self.assertEqual(tokenizer.pieces([3, 1]), ["d", "b"])
        self.assertEqual(polyhead.Tokenizer.load(self.folder).encode("d b e"), [3, 1, 4])
        np.testing.assert_array_equal(self.model("a b c"), self.model([[0, 1, 2]]))
        padded = self.model(["a b c", "d"])
        np.testing.assert_allclose(padded[1, 0], self.model([[3]])[0, 0], atol=1e-6)
        np.testing.assert_array_equal(self.model.weights("a b c")[1], self.model.weights([[0, 1, 2]])[1])
        self.assertEqual(list(self.model.without([(0, 0), (0, 1)]).weights("a b c")), [1], "layers with heads")
        self.assertEqual(self.model(" ".join("a" * 32)).shape, (1, 32, 16), "as many tokens as there is room for")

    def test_texts_come_in_arrays_too(self):
        """And in columns of tables, which are sequences of another kind."""
        texts = ["a b c a b", "k l k"]
        for given in (np.array(texts), np.array(texts, object), collections.UserList(texts)):
            with self.subTest(type(given)):
                self.assertEqual(self.model.generate(given, 2), self.model.generate(texts, 2))
                np.testing.assert_array_equal(self.model(given), self.model(texts))
                self.assertEqual(self.model.score(given), self.model.score(texts))
                self.assertEqual(self.model.survey(given), self.model.survey(texts))
                self.assertEqual(self.model.tokenizer(given), self.model.tokenizer(texts))

    def test_texts_are_continued(self):
        prompts, tokens = ["a b c d e b", "j i j"], [[0, 1, 2, 3, 4, 1], [9, 8, 9]]
        for options in ({}, {"temperature": 1.5, "seed": 3}):
            expected = self.model.generate(tokens, 6, **options)
            found = self.model.generate(prompts, 6, **options)
            self.assertEqual(found, [" " + self.model.tokenizer.decode(one) for one in expected])
            streamed = ["", ""]
            for n, piece in self.model.generate(prompts, 6, stream=True, **options):
                streamed[n] += piece
            self.assertEqual(streamed, found)
            self.assertEqual(list(self.model.generate(tokens[:1], 6, stream=True, **options)), expected[0])
        self.assertEqual("".join(self.model.generate(prompts[0], max_new_tokens=6, stream=True)), self.model.generate(prompts, 6)[0])
        self.assertEqual(self.model.generate(prompts[0], 6, stop_strings=["e b"]), " c d ")
        self.assertEqual(self.model.generate(tokens, 6, eos_token_id=4)[0], [2, 3])
        self.assertEqual(self.model.generate(prompts[0], 0), "")

    def test_conversations_are_answered(self):
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(folder)
            with self.assertRaisesRegex(polyhead.InputError, "no chat template"):
                polyhead.load(folder).generate("a b", chat=True)
            marks = [{"id": 13, "content": "<|im_start|>", "special": True}, {"id": 14, "content": "<|im_end|>", "special": True}]
            words = {"a": 0, "b": 1, "c": 2, "system": 9, "user": 10, "assistant": 11}
            Path(folder, "tokenizer.json").write_text(json.dumps({
                "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": marks, "model": {"type": "WordLevel", "vocab": words}}))
            Path(folder, "chat_template.jinja").write_text("'<|im_start|>' '<|im_end|>\\n'")
            model = polyhead.load(folder)
            talk = [{"role": "system", "content": "b"}, {"role": "user", "content": "a c"}]
            tokenizer = model.tokenizer
            self.assertEqual(tokenizer.apply_chat_template(talk, add_generation_prompt=True), [13, 9, 1, 14, 13, 10, 0, 2, 14, 13, 11])
            self.assertEqual(tokenizer.apply_chat_template(talk[1:], tokenize=False), "<|im_start|>user\na c<|im_end|>\n")
            self.assertEqual((tokenizer.eos_token_ids, tokenizer.all_special_ids), ([14], [13, 14]))
            self.assertEqual(tokenizer.decode([13, 0, 14], skip_special_tokens=True), "a")
            answer = model.generate(talk, 5, temperature=1.0)
            tokens = model.generate([tokenizer.apply_chat_template(talk, add_generation_prompt=True)], 5, temperature=1.0)[0]
            self.assertEqual(answer.split(), tokenizer.decode(tokens, skip_special_tokens=True).split())
            self.assertEqual(model.generate([talk], 5, temperature=1.0), [answer])
            self.assertEqual("".join(model.generate(talk, 5, temperature=1.0, stream=True)), answer)
            self.assertEqual(model.generate("a c", 5, chat=True), model.generate(talk[1:], 5))
            self.assertEqual(model.generate(["a c", "b"], 5, chat=True)[0], model.generate(talk[1:], 5))
            for error, words, call in (
                (polyhead.InvalidValueError, '"tool"; .*into a user message', lambda: model.generate([{"role": "tool", "content": "a"}])),
                (polyhead.DTypeError, "content", lambda: model.generate([{"role": "user"}])),
                (polyhead.UnsupportedError, "'tool_calls'.*apply_chat_template",
                 lambda: model.generate([{"role": "assistant", "content": "", "tool_calls": []}])),
                (polyhead.DTypeError, "conversations", lambda: model.generate([[1, 2]], chat=True)),
                (polyhead.DTypeError, "conversation", lambda: tokenizer.apply_chat_template("a")),
            ):
                with self.subTest(words), self.assertRaisesRegex(error, words):
                    call()

    def test_a_stream_goes_on_in_another_thread(self):
        stream = self.model.generate("a b c d e b", 4, stream=True)
        said = [next(stream)]
        worker = threading.Thread(target=lambda: said.extend(stream))
        worker.start()
        self.model(self.tokens)
        worker.join()
        self.assertEqual("".join(said), " c d e b")

    def test_texts_are_scored_and_surveyed(self):
        texts = ["a b c d e f a b c d e f", "k l m k l"]
        tokens = np.array([[0, 1, 2, 3, 4, 5] * 2, [10, 11, 12, 10, 11] + [0] * 7])
        targets = np.roll(tokens, -1, 1)
        targets[0, 11:] = targets[1, 4:] = -1
        examples = polyhead.Examples(tokens, targets, [12, 5])
        self.assertEqual(self.model.score(texts), self.model.score(examples))
        self.assertEqual(self.model.importance(texts), self.model.importance(examples))
        self.assertEqual(self.model.prune(texts, texts).steps, self.model.prune(examples, examples).steps)
        self.assertEqual(self.model.survey(texts), self.model.survey(tokens, [12, 5]))
        long = " ".join(["a b c d"] * 20)  # 80 tokens, in three rows of the model's 32
        self.assertEqual([batch.tokens.shape for batch in self.model.examples(long)], [(3, 32)])
        self.assertGreater(self.model.score(long)[1], 0.8)
        with unittest.mock.patch.object(_model, "_BATCH_TOKENS", 8):
            batches = self.model.examples(["a b c d", "e f", "g h i"])
        self.assertEqual([batch.tokens.tolist() for batch in batches], [[[0, 1, 2, 3], [4, 5, 0, 0]], [[6, 7, 8, 0]]])
        self.assertEqual([batch.lengths.tolist() for batch in batches], [[4, 2], [3]])
        self.assertEqual([batch.targets.tolist() for batch in batches], [[[1, 2, 3, -1], [5, -1, -1, -1]], [[7, 8, -1, -1]]])

    def test_pages_have_so_many_weights(self):
        with unittest.mock.patch.object(_model, "_MOST_PAGE_BYTES", 4 * 5 * 5):
            page = self.model.page("a b c a b")
            self.assertIn('"tokens": ["a", "b", "c", "a", "b"]', page.html)
            with self.assertRaisesRegex(polyhead.InvalidValueError, "up to 100 weights, found 4 heads of 6 × 6"):
                self.model.page("a b c a b c")

    def test_heads_are_patched(self):
        found = self.model.patch("c a b a", "c a d a")
        self.assertEqual((found.answer, found.instead), (1, 3))
        self.assertEqual(found, self.model.patch([2, 0, 1, 0], np.array([2, 0, 3, 0]), answer="b", instead=3))
        self.assertGreater(found.clean, 0)
        self.assertLess(found.corrupted, 0)
        self.assertGreater(found.heads[2].restored, 0.9)  # induction
        self.assertAlmostEqual(found.heads[3].restored, 0, places=5)
        self.assertIn("1.0   ", str(found))
        self.assertIn("<th>1.0</th>", found._repr_html_())
        for error, words, call in (
            (polyhead.ShapeError, "4, found 3\n  'c' 'a' 'b' 'a'", lambda: self.model.patch("c a b a", "c a d")),
            (polyhead.InvalidValueError, "answer: expected a text of one token", lambda: self.model.patch("a b", "a c", answer="a b")),
            (polyhead.InvalidValueError, "after both", lambda: self.model.patch("a b", "a b")),
            (polyhead.InvalidValueError, "instead", lambda: self.model.patch("a b", "a c", instead=16)),
            (polyhead.InvalidValueError, "expected an encoder", lambda: self.model.embed("a b")),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()

    def test_an_encoder_sees_no_padding_of_its_texts(self):
        with tempfile.TemporaryDirectory() as folder:
            bert = Path(__file__).resolve().parents[1] / "fixtures/models/bert"
            for file in (bert / "config.json", bert / "model.safetensors", Path(self.folder) / "tokenizer.json"):
                shutil.copy(file, folder)
            model = polyhead.load(folder)
            texts, padded = ["a b c d", "c"], [[0, 1, 2, 3], [2, 0, 0, 0]]
            for run in (model.forward, model.embed):
                np.testing.assert_array_equal(run(texts), run(padded, [4, 1]))
                self.assertFalse(np.array_equal(run(texts), run(padded)))
            many = model.embed(["a b c d"] * 32 + ["c"])  # in two passes
            self.assertEqual(many.shape[0], 33)
            np.testing.assert_array_equal(many[32:], model.embed("c"))

    def test_what_stands_around_an_encoders_texts_is_no_separator(self):
        with tempfile.TemporaryDirectory() as folder:
            bert = Path(__file__).resolve().parents[1] / "fixtures/models/bert"
            for file in (bert / "config.json", bert / "model.safetensors"):
                shutil.copy(file, folder)
            tokenizer = json.loads((Path(self.folder) / "tokenizer.json").read_text())
            tokenizer["post_processor"] = {"type": "BertProcessing", "cls": ["o", 14], "sep": ["p", 15]}
            (Path(folder) / "tokenizer.json").write_text(json.dumps(tokenizer))
            model = polyhead.load(folder)
            tokens, marked = [[14, 0, 1, 2, 15]], lambda *given: [head.sums["marked_weight"] for head in model.survey(*given)]
            self.assertEqual(marked("a b c"), [0.0] * len(model.heads))
            self.assertEqual(marked("a b c", None, [1, 15]), marked(tokens, None, [1]))
            self.assertNotEqual(marked("a b c", None, [1, 15]), marked(tokens, None, [1, 15]))

    def test_a_model_without_a_tokenizer(self):
        with tempfile.TemporaryDirectory() as folder:
            self.model.without([(0, 1)]).save(folder)
            self.assertEqual(polyhead.load(folder).generate("c a b a", 1), " b")  # saved with the model
            os.remove(os.path.join(folder, "tokenizer.json"))
            model = polyhead.load(folder)
            self.assertEqual(model.generate([[2, 0, 1, 0]], 1), [[1]])
            for call in (lambda: model.tokenizer, lambda: model.generate("a", 1), lambda: model("a"), lambda: model.score("a b")):
                with self.assertRaisesRegex(polyhead.InputError, "no tokenizer: expected tokenizer.json"):
                    call()

    def test_what_the_documents_show_runs(self):
        page = (Path(__file__).resolve().parents[2] / "docs/python-which-heads.md").read_text()
        block = re.search(r"```python\n(model = polyhead.load.*?)```", page, re.DOTALL)[1]
        shown = {"polyhead": polyhead, "tokens": self.tokens, "targets": self.examples.targets, "others": self.examples}
        printed, before = io.StringIO(), os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
            os.symlink(self.folder, os.path.join(folder, "run"))
            os.chdir(folder)
            try:
                exec(block, shown)
                self.assertEqual(len(polyhead.load("small").heads), 2)
            finally:
                os.chdir(before)
        self.assertIn("induction", printed.getvalue())

    def test_what_cannot_be_is_said(self):
        for error, words, call in (
            (polyhead.InputError, "/nonexistent", lambda: polyhead.load("/nonexistent")),
            (polyhead.DTypeError, "tokens: expected whole numbers", lambda: self.model(np.zeros((1, 2)))),
            (polyhead.ShapeError, "tokens: expected 2 axes, .* put a single row into a list", lambda: self.model([1, 2])),
            (polyhead.DTypeError, "found None among texts", lambda: self.model(["a", None])),
            (polyhead.DTypeError, "found a dict of input_ids, attention_mask; give its \"input_ids\"",
             lambda: self.model(self.model.tokenizer(["a b", "c"]))),
            (polyhead.DTypeError, "prompts: .* a single list of tokens; put it into a list", lambda: self.model.generate([1, 2], 1)),
            (polyhead.DTypeError, "prompts: .* texts and others", lambda: self.model.generate(["a", [1]], 1)),
            (polyhead.DTypeError, "prompts: .* found bytes", lambda: self.model.generate(b"a", 1)),
            (polyhead.DTypeError, "prompts: .* found dict", lambda: self.model.generate({"role": "user", "content": "a"}, 1)),
            (polyhead.DTypeError, "prompts: .* found ndarray", lambda: self.model.generate(np.array(3), 1)),
            (polyhead.InvalidValueError, "32 bits", lambda: self.model([[2**40]])),
            (polyhead.Error, "99", lambda: self.model([[99]])),
            (polyhead.InvalidValueError, "7.0", lambda: self.model.without([(7, 0)])),
            (polyhead.ShapeError, "pairs", lambda: self.model.without((1, 0))),
            (polyhead.ShapeError, "pairs", lambda: self.model(self.tokens, knocked_out=[(0.9, 1)])),
            (polyhead.DTypeError, "examples", lambda: self.model.score([])),
            (polyhead.InvalidValueError, "seed", lambda: self.model.generate([[1]], 1, seed=-1)),
            (polyhead.InvalidValueError, "zero bytes", lambda: polyhead.load("a\0b")),
            (polyhead.InvalidValueError, "temperature", lambda: self.model.generate([[1]], 1, temperature=-1)),
            (polyhead.InvalidValueError, "max_new_tokens", lambda: self.model.generate([[1]], -1)),
            (polyhead.Error, '"q" at byte 2', lambda: self.model.generate("a q", 1)),
            (polyhead.InvalidValueError, "surrogate pair at place 1", lambda: self.model("a\ud800")),
            (polyhead.InvalidValueError, "1 to 32 tokens, .* found 33 in text 0", lambda: self.model(" ".join("a" * 33))),
            (polyhead.InvalidValueError, "two tokens", lambda: self.model.score(["a b", "c"])),
            (polyhead.DTypeError, "stop_strings", lambda: self.model.generate("a", 1, stop_strings="x")),
            (polyhead.InvalidValueError, "stop_strings", lambda: self.model.generate("a", 1, stop_strings=[""])),
            (polyhead.InvalidValueError, "stop_strings: .* zero bytes", lambda: self.model.generate("a", 1, stop_strings=["b\0c"])),
            (polyhead.InvalidValueError, "top_p: expected more than 0", lambda: self.model.generate("a", 1, temperature=1, top_p=0)),
            (polyhead.InvalidValueError, "stop_texts", lambda: self.model.generate([[0]], 1, stop_strings=["x"])),
            (polyhead.DTypeError, "text", lambda: self.model.tokenizer(3)),
            (polyhead.Error, "at least one token", lambda: self.model.generate([[]], 1)),
            (polyhead.InvalidValueError, "order", lambda: self.model.prune(self.examples, self.examples, order="best")),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()
        model = polyhead.load(self.folder)
        worker = threading.Thread(target=lambda: model(np.tile(self.tokens, (500, 1))))
        worker.start()
        time.sleep(0.01)
        model.close()  # while a call runs
        worker.join()
        with self.assertRaisesRegex(ValueError, r"close\(\)"):
            model(self.tokens)


def load_tests(_, tests, __):
    """And the examples of docstrings, which find a model in the folder "run"."""
    folders, before = [], os.getcwd()

    def enter(_):
        folders.append(tempfile.TemporaryDirectory())
        os.chdir(folders[-1].name)
        os.mkdir("run")
        subprocess.run([os.environ["POLYHEAD_INDUCTION"], "run"], check=True)

    def leave(_):
        os.chdir(before)
        folders.pop().cleanup()

    for module in (_model, _text):
        tests.addTests(doctest.DocTestSuite(module, setUp=enter, tearDown=leave))
    return tests


if __name__ == "__main__":
    unittest.main()
