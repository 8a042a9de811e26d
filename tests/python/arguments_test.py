"""Arguments that are wrong, to every function that attention's own tests leave out: what is raised is ours and names one of them."""

import os
import random
import re
import subprocess
import tempfile
import unittest

import numpy as np

import polyhead

class Named(np.ndarray):
    """A user's own, as memmap is NumPy's."""


X = np.random.default_rng(1).standard_normal((1, 2, 4, 8)).astype(np.float32)
ARRAYS = [None, 3, "q", [1.0], np.float32(1), np.zeros((0, 2, 4, 8), np.float32), X, X[:, :, :0], X[..., :0], X[0],
          X.astype(np.float16), X.astype(float), X.astype(np.int32), X.astype(object), np.ones(2, np.float32), np.ones((1, 2), np.float32),
          np.array([3], np.int32), np.array([[2]], np.int64), np.ones(4, bool), np.ones((4, 4), bool), np.full((4, 4), np.nan, np.float32),
          X.view(Named), np.ma.masked_array(X, X > 0), np.array([0, 2, 4], np.int32), X[:, ::-1], X[..., ::-1], np.ones((1,) * 8, np.float32), np.array([0, 2**60])]
NUMBERS = [0, 1, -1, 0.5, float("nan"), float("inf"), 2**70, 10**400, None, "x", True, (2, 1), (2.0, 1), {}]
OPTIONS = polyhead._attention.Options._fields


class Random(unittest.TestCase):
    def run_with(self, draw, function, required, names, values):
        """Once, with some of the arguments drawn; those that are required are as they should be unless they are drawn."""
        every = [*required, *names]
        drawn = {name: draw.choice(values) for name in draw.sample(every, draw.randrange(min(4, len(every) + 1)))}
        try:
            function(**{**required, **drawn})
        except polyhead.Error as error:
            self.assertNotIsInstance(error, polyhead.InternalError)
            given = {*required, *drawn, "align"}  # which may be asked for
            if any(isinstance(value, polyhead.Examples) for value in required.values()) or "examples" in drawn:
                given |= {"tokens", "targets", "lengths"}
            self.assertTrue(re.search(rf"\b({'|'.join(given)})\b", str(error)), error)

    def check(self, function, required, names, values, count):
        draw = random.Random(7)
        for _ in range(count):
            self.run_with(draw, function, required, names, values)

    def test_backward(self):
        self.check(polyhead.attention_backward, {"q": X, "k": X, "v": X, "doutput": X},
                   ["output", "lse", "dlse", "dweights", *OPTIONS], ARRAYS + NUMBERS, 2000)

    def test_explain(self):
        wants = ["lse", "weights", "weights_f32", "heads", "rows", "logits", "statistics", "row_statistics"]
        self.check(polyhead.explain, {"q": X, "k": X, "v": X}, [*wants, *OPTIONS], ARRAYS + NUMBERS + ["light", "scaled", [1]], 2000)

    def test_statistics(self):
        self.check(polyhead.statistics, {"q": X, "k": X}, ["v", "full", "rows", "marked_keys", "target_keys", *OPTIONS],
                   ARRAYS + NUMBERS, 2000)


class Attention(unittest.TestCase):
    def refused(self, error, words, function, *arrays, **options):
        with self.assertRaisesRegex(error, words):
            function(*arrays, **options)

    def test_numbers_beyond_any_float(self):
        for name in ("scale", "softcap", "dropout"):
            for value in (10**400, -(10**400)):
                self.refused(polyhead.InvalidValueError, name, polyhead.attention, X, X, X, **{name: value})
        self.refused(polyhead.InvalidValueError, "output_dropout", polyhead.MultiHeadAttention(8, 2), X[0], output_dropout=10**400)

    def test_numbers_where_arrays_belong(self):
        for name in ("bias", "sink_logit", "gates"):
            for value in (np.float32(1), 1.0):
                self.refused(polyhead.DTypeError, f"{name}: expected an array", polyhead.attention_backward, X, X, X, X, **{name: value})
        self.refused(polyhead.DTypeError, "doutput: expected an array", polyhead.attention_backward, X, X, X, 1.0)

    def test_what_is_refused_once_is_always_refused(self):
        """Calls of one kind are packed once, and to a dictionary 1, 1.0 and True are the same."""
        for right, wrong in (({"softcap": 1.0}, {"softcap": True}), ({"window": (2, 1)}, {"window": (2.0, 1.0)}),
                             ({"scale": 1.0}, {"scale": True}), ({"causal": True}, {"causal": 1})):
            for function, arrays in ((polyhead.attention, (X, X, X)), (polyhead.attention_backward, (X, X, X, X))):
                function(*arrays, **right, align="top_left")
                self.refused(polyhead.DTypeError, next(iter(wrong)), function, *arrays, **wrong, align="top_left")
        self.refused(polyhead.DTypeError, "softcap", polyhead.attention, X, X, X, softcap=False)
        self.refused(polyhead.DTypeError, "seed", polyhead.attention, X, X, X, seed="x")

    def test_names_are_those_of_the_arguments(self):
        backward = polyhead.attention_backward
        self.refused(polyhead.ShapeError, r"doutput: expected \[1,2,4,8\]", backward, X, X, X, X[:, :, :2])
        self.refused(polyhead.ShapeError, "dlse: expected", backward, X, X, X, X, dlse=np.ones((1, 2), np.float32))
        self.refused(polyhead.DTypeError, "dweights: expected", backward, X, X, X, X, dweights=np.ones((1, 2, 4, 4), bool))
        self.refused(polyhead.DTypeError, "rows: expected True or False", polyhead.statistics, X, X, rows=1)
        self.refused(polyhead.DTypeError, "full: expected True or False", polyhead.statistics, X, X, full="x")
        layer = polyhead.MultiHeadAttention(8, 2)
        self.refused(polyhead.DTypeError, "query: expected f32 as the parameters are, found f64", layer, X[0].astype(float))
        self.refused(polyhead.ShapeError, "doutput", layer(X[0], training=True).backward, X[0, :, :2])
        self.refused(polyhead.DTypeError, "state: expected arrays by their names", layer.load_state_dict, None)
        for function, arrays in ((backward, (X,) * 4), (polyhead.explain, (X,) * 3), (layer, (X[0],))):
            self.refused(TypeError, r"\(\) got an unexpected keyword argument 'attn_mask'", function, *arrays, attn_mask=None)

    def test_offsets_beyond_the_keys(self):
        offsets = np.array([0, 2**60])
        self.refused(polyhead.InvalidValueError, "cu_k", polyhead.attention, X, X, X, cu_q=np.array([0, 4]), cu_k=offsets, weights=True,
                     align="top_left")
        self.refused(polyhead.DTypeError, "cu_k", polyhead.attention, X, X, X, cu_k=np.ones(3, bool), weights=True)


class Other:
    """An array of somebody else's, who knows DLPack."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    def __dlpack__(self, **_):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Dlpack(unittest.TestCase):
    def test_options_and_gradients_from_above(self):
        gates, bias = np.array([1, 0.5], np.float32), np.ones((4, 4), np.float32)
        expected = polyhead.attention(X, X, X, bias=bias, gates=gates, lse=True)
        found = polyhead.attention(Other(X), Other(X), X, bias=Other(bias), gates=Other(gates), lse=True)
        np.testing.assert_array_equal(found.output, expected.output)
        expected = polyhead.attention_backward(X, X, X, X, bias=bias, gates=gates)
        found = polyhead.attention_backward(X, Other(X), X, Other(X), bias=Other(bias), gates=Other(gates))
        for name in ("dq", "dbias", "dgates"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        layer = polyhead.MultiHeadAttention(8, 2)
        np.testing.assert_array_equal(layer(Other(X[0]), gates=Other(gates)), layer(X[0], gates=gates))
        lengths = np.array([3])
        targets = np.zeros((1, 4, 4), np.int32)
        expected = polyhead.statistics(X, X, key_lengths=lengths, align="top_left", full=True, target_keys=targets)
        found = polyhead.statistics(Other(X), X, key_lengths=Other(lengths), align="top_left", full=True, target_keys=Other(targets))
        np.testing.assert_array_equal(found.sums, expected.sums)
        self.assertIn("cpu", polyhead.explain(Other(X), X, X, gates=Other(gates)))

    def test_what_exports_nothing_is_named(self):
        class Broken(Other):
            def __dlpack__(self, **_):
                raise BufferError("not today")

        for name in ("q", "gates"):
            with self.assertRaisesRegex(polyhead.Error, rf"{name}: expected .*, found Broken: .*"):
                polyhead.attention(**{"q": X, "k": X, "v": X, name: Broken(X)})


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder, cls._before = tempfile.TemporaryDirectory(), os.getcwd()
        os.chdir(cls._folder.name)  # where a model may be saved by any name
        os.mkdir("run")
        subprocess.run([os.environ["POLYHEAD_INDUCTION"], "run"], check=True)
        cls.model = polyhead.load("run")
        cls.tokens = np.tile(np.arange(16), 2)[None, :12]
        cls.examples = polyhead.Examples(cls.tokens, cls.tokens)

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls._before)
        cls._folder.cleanup()

    def test_random_arguments(self):
        tokens, examples = self.tokens, self.examples
        values = ARRAYS + NUMBERS + [
            [], [[]], [[1, 2], [3]], [[1, 2, 3]], [(1, 0)], {(0, 1)}, (0, 1.5), [(0, 1.5)], [(9, 0)], [(-1, 0)], tokens, -tokens,
            99 * tokens, tokens[0], tokens.astype(float), [7], [99], "damage", "a\0b", "\ud800", 2**62, 2.5, [5], [None], examples,
            [examples, examples], [examples, 5], polyhead.Examples(tokens, tokens[:, 0]), polyhead.Examples(tokens, 99 * tokens),
            polyhead.Examples(None, "x"), polyhead.Examples(tokens, tokens, [3, 4]), polyhead.Examples(tokens, tokens, [99])]
        model, random_ = self.model, Random()
        for function, required, names in (
            (model.forward, {"tokens": tokens}, ["lengths", "knocked_out"]),
            (model.weights, {"tokens": tokens}, ["lengths", "knocked_out"]),
            (model.page, {"tokens": tokens[0]}, ["words", "examples"]),
            (model.generate, {"prompts": tokens, "max_new_tokens": 1},
             ["temperature", "seed", "top_k", "top_p", "stop_strings", "eos_token_id"]),
            (model.score, {"examples": examples}, ["knocked_out"]),
            (model.survey, {"tokens": tokens}, ["lengths", "separators", "seed"]),
            (model.importance, {"examples": examples}, []),
            (model.prune, {"ranking": examples, "judging": examples}, ["budget", "order", "seed"]),
            (model.examples, {"texts": "a b"}, ["length"]),
            (model.patch, {"clean": "c a b a", "corrupted": "c a d a"}, ["answer", "instead"]),
            (model.tokenizer.encode, {"text": "a"}, []),
            (model.tokenizer.decode, {"token_ids": [1]}, []),
            (model.without, {"heads": [(1, 0)]}, []),
            (model.save, {"folder": "saved"}, []),
            (polyhead.load, {"path": "run"}, []),
        ):
            with self.subTest(function.__name__):
                random_.check(function, required, names, values, 150)

    def test_what_is_wrong_is_named(self):
        model, tokens = self.model, self.tokens
        closed = polyhead.load("run")
        closed.close()
        for error, words, call in (
            (polyhead.DTypeError, "max_new_tokens: expected a whole number, found str", lambda: model.generate([[1]], "x")),
            (polyhead.DTypeError, "max_new_tokens: expected a whole number, found float", lambda: model.generate([[1]], 2.5)),
            (polyhead.DTypeError, "max_new_tokens", lambda: model.generate([[1]], None)),
            (polyhead.InvalidValueError, "max_new_tokens", lambda: model.generate([[1]], 2**62)),
            (polyhead.DTypeError, "top_p", lambda: model.generate([[1]], 1, top_p="x")),
            (polyhead.DTypeError, "prompts: expected texts or lists of tokens, found int", lambda: model.generate(5, 1)),
            (polyhead.ShapeError, "tokens: .* in rows of one length, found rows of 2 and 1; fill .* lengths=", lambda: model([[1, 2], [3]])),
            (polyhead.ShapeError, "knocked_out: expected pairs .*found 5", lambda: model(tokens, knocked_out=5)),
            (polyhead.ShapeError, "knocked_out: expected pairs", lambda: model(tokens, knocked_out=[(0, 1), (1,)])),
            (polyhead.DTypeError, "examples: expected texts, polyhead.Examples.*found 5", lambda: model.score(5)),
            (polyhead.DTypeError, "judging: expected texts, polyhead.Examples", lambda: model.prune(self.examples, [])),
            (polyhead.DTypeError, "path: expected a path, found 5", lambda: polyhead.load(5)),
            (polyhead.DTypeError, "folder: expected a path", lambda: model.save(None)),
            (polyhead.IOError, "folder: cannot make /dev/null/x", lambda: model.save("/dev/null/x")),
            (polyhead.ShapeError, r"targets: expected i32 \[1,12\], found i32 \[1\]; a language model takes the token",
             lambda: model.score(polyhead.Examples(tokens, tokens[:, 0]))),
            (polyhead.InvalidValueError, "score: expected an open model.*close", lambda: closed.score(self.examples)),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()


if __name__ == "__main__":
    unittest.main()
