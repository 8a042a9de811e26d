"""polyhead.MultiHeadAttention against the formula in plain NumPy; its gradients by differences; bad arguments."""

import copy
import doctest
import inspect
import pickle
import random
import re
import unittest
from pathlib import Path

import numpy as np

import polyhead
from polyhead import _layer


def made(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def rotated(x, positions, dim, base, factors):
    """x [..,T,D]: columns c and c + dim/2 as complex numbers, turned by their position."""
    half = dim // 2
    angle = positions[:, None] * base ** (-2 * np.arange(half) / dim) / factors
    turned = (x[..., :half] + 1j * x[..., half:dim]) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag, x[..., dim:]], -1)


def formula(layer, query, key, value, causal=False, gates=None, rotate=lambda x: x):
    """(heads [B,T,H*D], weights [B,H,T,S], output [B,T,C]) as the paper has it, in double."""
    p = {name: x.astype(float) for name, x in layer.parameters.items()}
    H, G, D = layer.heads, layer.kv_heads, layer.head_dim
    if "in_proj_weight" in p:
        projections = np.split(p["in_proj_weight"], [H * D, (H + G) * D])
    else:
        projections = [p[f"{name}_proj_weight"] for name in "qkv"]
    biases = np.split(p["in_proj_bias"], [H * D, (H + G) * D]) if "in_proj_bias" in p else [0] * 3
    q, k, v = (x @ weight.T + bias for x, weight, bias in zip((query, key, value), projections, biases))
    split = lambda x, heads: x.reshape(*x.shape[:2], heads, D).transpose(0, 2, 1, 3)  # noqa: E731
    q, k, v = split(q, H), np.repeat(split(k, G), H // G, 1), np.repeat(split(v, G), H // G, 1)
    if "q_norm.weight" in p:
        q, k = (x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * p[f"{name}_norm.weight"] for x, name in ((q, "q"), (k, "k")))
    s = rotate(q) @ rotate(k).transpose(0, 1, 3, 2) / D**0.5
    if causal:
        s = np.where(np.tri(*s.shape[2:], dtype=bool), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    heads = weights @ v * (1 if gates is None else gates[:, None, None])
    heads = heads.transpose(0, 2, 1, 3).reshape(*query.shape[:2], H * D)
    return heads, weights, heads @ p["out_proj.weight"].T + p.get("out_proj.bias", 0)


class Values(unittest.TestCase):
    def test_every_shape_is_the_formula(self):
        for sizes in (
            dict(width=12, heads=3),
            dict(width=12, heads=4, kv_heads=2),
            dict(width=10, heads=2, head_dim=7, bias=False),
            dict(width=12, heads=2, key_width=5, value_width=9),
        ):
            for dtype, tolerance in ((np.float64, 1e-13), (np.float32, 3e-6)):
                layer = polyhead.MultiHeadAttention(**sizes, dtype=dtype, seed=3)
                query, key, value = made(1, 2, 6, layer.width), made(2, 2, 9, layer.key_width), made(3, 2, 9, layer.value_width)
                gates = np.linspace(0, 2, layer.heads)
                expected = formula(layer, query, key, value, gates=gates)
                found = layer(*(x.astype(dtype) for x in (query, key, value)), gates=gates.astype(dtype), align="top_left",
                              weights=True, statistics="full", training=True)
                with self.subTest(sizes, dtype=dtype):
                    for mine, reference in zip((found.heads, found.weights, found.output), expected):
                        self.assertEqual(mine.dtype, dtype)
                        np.testing.assert_allclose(mine, reference, atol=tolerance)
                    np.testing.assert_allclose(found.statistics.max_weight, expected[1].max(-1).mean((0, 2)), atol=tolerance)

    def test_heads_that_are_normalised_and_rotated(self):
        layer = polyhead.MultiHeadAttention(24, 3, qk_norm=True, dtype="float64", seed=2)
        for name in ("q_norm.weight", "k_norm.weight"):
            layer.parameters[name][:] = made(5, 8)
        x, positions, factors = made(1, 2, 5, 24), np.array([0, 2, 3, 7, 11], np.int32), np.array([1, 1.5, 4], np.float32)
        expected = formula(layer, x, x, x, rotate=lambda y: rotated(y, positions, 6, 500.0, factors))
        found = layer(x, rotary=polyhead.Rotary(dim=6, base=500.0, factors=factors), query_positions=positions, weights=True, heads=True,
                      lse=True, logits="scaled", statistics="light", row_statistics=True)
        for mine, reference in zip((found.heads, found.weights, found.output), expected):
            np.testing.assert_allclose(mine, reference, atol=1e-12)
        np.testing.assert_allclose(np.exp(found.logits - found.lse[..., None]), expected[1], atol=1e-12)
        np.testing.assert_allclose(found.row_statistics.max_weight, expected[1].max(-1), atol=1e-12)
        one = layer(x, rotary=polyhead.Rotary(6, 500.0, factors=factors), query_positions=positions, weights=True, weight_heads=[2],
                    weight_rows=[4, 0])
        np.testing.assert_array_equal(one.weights, found.weights[:, [2]][:, :, [4, 0]])
        self.assertEqual(set(pickle.loads(pickle.dumps(layer)).parameters), set(layer.parameters))
        with self.assertRaisesRegex(polyhead.DTypeError, "rotary: expected polyhead.Rotary, found tuple"):
            layer(x, rotary=(6, 500.0))
        with self.assertRaisesRegex(polyhead.Error, "factors"):
            layer(x, rotary=polyhead.Rotary(6, factors=factors[:2]))

    def test_self_attention(self):
        layer = polyhead.MultiHeadAttention(8, 2, dtype="float64", seed=1)
        x = made(1, 2, 5, 8)
        expected = formula(layer, x, x, x, causal=True)[2]
        np.testing.assert_allclose(layer(x, causal=True), expected, atol=1e-13)
        np.testing.assert_array_equal(layer(x, x, x, causal=True), layer(x, causal=True))

    def test_gradients_by_differences(self):
        layer = polyhead.MultiHeadAttention(6, 2, kv_heads=1, key_width=4, value_width=5, dtype=np.float64, seed=2)
        inputs = [made(1, 1, 3, 6), made(2, 1, 4, 4), made(3, 1, 4, 5)]
        options = {"bias": made(4, 1, 2, 3, 4), "gates": np.array([0.5, 2.0])}
        upstream = made(5, 1, 3, 6)
        found = layer(*inputs, **options, training=True).backward(upstream)
        pairs = [(options["bias"], found.dbias), (options["gates"], found.dgates[0]), (inputs[0], found.dquery),
                 (inputs[1], found.dkey), (inputs[2], found.dvalue)]
        pairs += [(layer.parameters[name], gradient) for name, gradient in found.parameters.items()]
        self.assertEqual(list(found.parameters), list(layer.parameters))
        for x, gradient in pairs:
            self.assertEqual(x.shape, gradient.shape)
            for at in random.Random(1).sample(list(np.ndindex(x.shape)), min(x.size, 8)):
                kept, ends = x[at], []
                for step in (1e-6, -1e-6):
                    x[at] = kept + step
                    ends.append((layer(*inputs, **options) * upstream).sum())
                x[at] = kept
                self.assertAlmostEqual((ends[0] - ends[1]) / 2e-6, gradient[at], places=7)

    def test_training_teaches_it(self):
        """To give back the token before, by plain gradient descent."""
        layer, rng = polyhead.MultiHeadAttention(8, 2, seed=4), np.random.default_rng(0)
        x = rng.standard_normal((8, 6, 8), dtype=np.float32)
        losses = []
        for _ in range(60):
            found = layer(x, causal=True, training=True)
            error = found.output - np.roll(x, 1, 1)
            losses.append(float((error**2).mean()))
            for name, gradient in found.backward(2 * error / error.size).parameters.items():
                layer.parameters[name] -= gradient
        self.assertLess(losses[-1], 0.9 * losses[0])


class Places(unittest.TestCase):
    def test_state_dict_pickle_and_copies(self):
        layer = polyhead.MultiHeadAttention(12, 4, kv_heads=2, seed=5)
        self.assertEqual(layer.parameters["in_proj_weight"].shape, (24, 12))
        self.assertEqual(layer.parameter_count, 24 * 12 + 24 + 12 * 12 + 12)
        self.assertIn("4 heads of 3, 468 parameters, float32", repr(layer))
        x = made(1, 1, 4, 12).astype(np.float32)
        for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
            np.testing.assert_array_equal(other(x), layer(x))
            other.parameters["out_proj.bias"] += 1
            np.testing.assert_allclose(other(x), layer(x) + 1, atol=1e-6)
        wide = polyhead.MultiHeadAttention(12, 4, key_width=5, value_width=7, seed=5)
        key, value = made(2, 1, 3, 5).astype(np.float32), made(3, 1, 3, 7).astype(np.float32)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(wide))(x, key, value), wide(x, key, value))
        state = layer.state_dict()
        layer.parameters["in_proj_weight"][...] = 0
        self.assertTrue(state["in_proj_weight"].any())
        layer.load_state_dict(state)
        np.testing.assert_array_equal(layer.parameters["in_proj_weight"], state["in_proj_weight"])

    def test_results_print_as_shapes(self):
        layer, x = polyhead.MultiHeadAttention(8, 2), np.ones((1, 3, 8), np.float32)
        found = layer(x, training=True, statistics="light")
        self.assertEqual(str(found).splitlines()[0], "<polyhead.MultiHeadResults: output float32 (1, 3, 8), heads float32 (1, 3, 8), "
                                                     "lse float32 (1, 2, 3), statistics float32 (1, 2, 14)>")
        self.assertEqual(len(str(found).splitlines()), 4)
        for wanted, value in (("weights", True), ("logits", "scaled"), ("lse", True), ("heads", True), ("statistics", "light")):
            alone = repr(layer(x, **{wanted: value}))
            self.assertRegex(alone, rf"output float32 \(1, 3, 8\), {wanted} float32 \([\d, ]+\)>$")
        self.assertIn("parameters of in_proj_weight, ", repr(found.backward(x)))

    def test_seeds(self):
        weights = [polyhead.MultiHeadAttention(8, 2, seed=seed).parameters["in_proj_weight"] for seed in (1, 1, 2)]
        np.testing.assert_array_equal(weights[0], weights[1])
        self.assertFalse(np.array_equal(weights[0], weights[2]))

    def test_results_outlive_the_layer(self):
        layer = polyhead.MultiHeadAttention(8, 2)
        weight, output = layer.parameters["in_proj_weight"], layer(np.ones((1, 3, 8), np.float32))
        kept = weight.copy(), output.copy()
        del layer
        for _ in range(5):
            polyhead.MultiHeadAttention(8, 2, seed=9)(np.zeros((1, 3, 8), np.float32))
        np.testing.assert_array_equal(weight, kept[0])
        np.testing.assert_array_equal(output, kept[1])

    def test_dropout(self):
        layer, x = polyhead.MultiHeadAttention(8, 2, seed=1), np.ones((1, 50, 8), np.float32)
        whole = layer(x)
        found = layer(x, output_dropout=0.5, output_seed=3)
        np.testing.assert_array_equal(found, layer(x, output_dropout=0.5, output_seed=3))
        np.testing.assert_allclose(found[found != 0], 2 * whole[found != 0], rtol=1e-6)
        self.assertGreater((found == 0).mean(), 0.3)

    def test_a_part_drops_what_the_whole_does(self):
        layer, x = polyhead.MultiHeadAttention(8, 2, seed=1), np.random.default_rng(2).standard_normal((3, 11, 8), dtype=np.float32)
        dropping = dict(dropout=0.4, seed=5, output_dropout=0.5, output_seed=3, training=True)
        whole = layer(x, **dropping)
        part = layer(x[1:, 4:], x[1:], origin=(1, 0, 4), output_origin=polyhead.Origin(sequence=1, row=4), **dropping)
        np.testing.assert_array_equal(part.output, whole.output[1:, 4:])
        upstream = np.random.default_rng(3).standard_normal(part.output.shape, dtype=np.float32)
        padded = np.zeros_like(x)
        padded[1:, 4:] = upstream
        found, expected = part.backward(upstream).parameters, whole.backward(padded).parameters
        for name, gradient in found.items():
            np.testing.assert_allclose(gradient, expected[name], atol=1e-5, rtol=1e-5)


class BadInput(unittest.TestCase):
    def test_what_is_wrong_is_named(self):
        layer, x = polyhead.MultiHeadAttention(8, 2), np.ones((1, 3, 8), np.float32)
        for error, words, call in (
            (polyhead.InvalidValueError, "width", lambda: polyhead.MultiHeadAttention(0, 2)),
            (polyhead.DTypeError, "heads", lambda: polyhead.MultiHeadAttention(8, 2.0)),
            (polyhead.Error, "3", lambda: polyhead.MultiHeadAttention(8, 3)),
            (polyhead.Error, "kv_heads", lambda: polyhead.MultiHeadAttention(8, 4, kv_heads=3)),
            (polyhead.DTypeError, "dtype", lambda: polyhead.MultiHeadAttention(8, 2, dtype=int)),
            (polyhead.DTypeError, "bias", lambda: polyhead.MultiHeadAttention(8, 2, bias="no")),
            (polyhead.InvalidValueError, "seed", lambda: polyhead.MultiHeadAttention(8, 2, seed=-1)),
            (polyhead.DTypeError, "query", lambda: layer(None)),
            (polyhead.DTypeError, "query", lambda: layer([1.0])),
            (polyhead.DTypeError, "f64", lambda: layer(x.astype(float))),
            (polyhead.ShapeError, "8", lambda: layer(x[..., :5])),
            (polyhead.ShapeError, "key", lambda: layer(x, x[:, :, :3])),
            (polyhead.DTypeError, "weights", lambda: layer(x, weights=1)),
            (polyhead.InvalidValueError, "light", lambda: layer(x, statistics="some")),
            (polyhead.InvalidValueError, "training=True", lambda: layer(x, weights=True).backward(x)),
            (polyhead.Error, "doutput", lambda: layer(x, training=True).backward(3)),
            (polyhead.Error, "", lambda: layer(x, training=True).backward(x[:, :2])),
            (polyhead.InvalidValueError, "expected in_proj_weight", lambda: layer.load_state_dict({})),
            (polyhead.ShapeError, "in_proj_bias", lambda: layer.load_state_dict({**layer.state_dict(), "in_proj_bias": np.ones(3)})),
            (polyhead.DTypeError, "in_proj_bias", lambda: layer.load_state_dict({**layer.state_dict(), "in_proj_bias": np.ones(24, int)})),
        ):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()
        with self.assertRaises(TypeError):
            layer(x, attn_mask=None)

    def test_random_arguments_never_crash(self):
        """What they raise is ours."""
        draw = random.Random(3)
        x = np.ones((1, 3, 8), np.float32)
        values = [None, 0, 1, -1, 2.5, "x", True, 2**70, float("nan"), x, x[:, :0], x[..., ::2], x[0], x.astype(np.float16),
                  np.ones(2, np.float32), np.ones((1, 2), np.float32), np.array([2]), np.ones((3, 3), bool), x.astype(object)]
        sizes = list(inspect.signature(polyhead.MultiHeadAttention).parameters)[2:]
        names = [name for name in inspect.signature(polyhead.MultiHeadAttention.__call__).parameters if name not in ("self", "options")]
        names += list(inspect.signature(polyhead.attention).parameters)[3:20]
        for _ in range(1500):
            try:
                layer = polyhead.MultiHeadAttention(8, 2, **{draw.choice(sizes): draw.choice(values)} if draw.random() < 0.2 else {})
                found = layer(**{"query": x, **{name: draw.choice(values) for name in draw.sample(names, draw.randrange(4))}})
                if isinstance(found, polyhead.MultiHeadResults):
                    found.backward(draw.choice(values) if draw.random() < 0.5 else x)
            except polyhead.Error as error:
                self.assertNotIsInstance(error, polyhead.InternalError)


class Documents(unittest.TestCase):
    def test_what_they_show_runs(self):
        page = (Path(__file__).resolve().parents[2] / "docs/python.md").read_text()
        shown = {"np": np, "polyhead": polyhead}
        exec(re.search(r"```python\n(layer = polyhead.*?)```", page, re.DOTALL)[1], shown)
        self.assertEqual(shown["output"].shape, (2, 16, 64))
        np.testing.assert_allclose(shown["layer"].parameters["out_proj.bias"], -0.1 * 32, rtol=1e-6)


def load_tests(_, tests, __):
    tests.addTests(doctest.DocTestSuite(_layer))
    return tests


if __name__ == "__main__":
    unittest.main()
