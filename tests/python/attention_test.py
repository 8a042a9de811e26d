"""polyhead.attention, its statistics and gradients against plain NumPy in double; bad arguments; threads and forks."""

import contextlib
import copy
import doctest
import inspect
import io
import os
import pickle
import random
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np

import polyhead
from polyhead import _attention, _figures, _library, _statistics


def softmax_weights(q, k, causal=False, align="top_left", window=None, keep=None, bias=None, alibi=None, sink_logit=None,
                    scale=None, softcap=0.0):
    """[B,H,T,S] as the paper has it."""
    heads = q.shape[1]
    k = np.repeat(k, heads // k.shape[1], 1)
    s = np.einsum("bhtd,bhsd->bhts", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    T, S = s.shape[2:]
    p = np.arange(T)[:, None] + (S - T if align == "bottom_right" else 0)
    j = np.arange(S)[None]
    if bias is not None:
        s = s + bias
    if alibi is not None:
        s = s - alibi[:, None, None] * abs(p - j)
    visible = np.ones(s.shape, bool)
    if causal:
        visible &= j <= p
    if window is not None:
        visible &= (j >= p - window[0]) & (j <= p + window[1])
    if keep is not None:
        visible &= keep
    s = np.where(visible, s, -np.inf)
    most = s.max(-1, keepdims=True)
    if sink_logit is not None:
        most = np.maximum(most, sink_logit[:, None, None])
    most = np.where(np.isfinite(most), most, 0)
    e = np.exp(s - most)
    total = e.sum(-1, keepdims=True)
    if sink_logit is not None:
        total = total + np.exp(sink_logit[:, None, None] - most)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def made(seed, shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class Values(unittest.TestCase):
    def check(self, dtype=np.float32, **options):
        q, k, v = made(1, (2, 4, 7, 8), dtype), made(2, (2, 2, 9, 8), dtype), made(3, (2, 2, 9, 5), dtype)
        found = polyhead.attention(q, k, v, weights=True, lse=True, **{"align": "top_left", **options})
        wide = {n: x.astype(float) if isinstance(x, np.ndarray) and x.dtype != bool else x for n, x in options.items() if n != "gates"}
        weights = softmax_weights(q.astype(float), k.astype(float), **wide)
        output = np.einsum("bhts,bhse->bhte", weights, np.repeat(v, 2, 1).astype(float))
        if "gates" in options:
            output = output * options["gates"][:, None, None]
        tolerance = {np.float16: 2e-3, np.float32: 2e-6, np.float64: 1e-14}[dtype]
        np.testing.assert_allclose(found.weights, weights, atol=tolerance)
        np.testing.assert_allclose(found.output, output, atol=3 * tolerance)
        self.assertEqual(found.output.dtype, dtype)

    def test_every_option(self):
        rng = np.random.default_rng(5)
        for dtype in (np.float16, np.float32, np.float64):
            wide = np.float64 if dtype == np.float64 else np.float32
            for options in (
                {},
                {"scale": 0.3, "softcap": 2.0},
                {"causal": True},
                {"causal": True, "align": "bottom_right"},
                {"window": (2, 1)},
                {"keep": rng.random((2, 1, 7, 9)) < 0.7},
                {"bias": rng.standard_normal((1, 4, 7, 9)).astype(dtype)},
                {"alibi": np.array([0.5, 0.25, 0.1, 0], wide)},
                {"sink_logit": np.array([0, 1, -1, 2], wide)},
                {"gates": np.array([1, 0, 0.5, 2], wide)},
            ):
                with self.subTest(dtype=dtype, options=list(options)):
                    self.check(dtype, **options)

    def test_padding_and_packing(self):
        q, k = made(1, (2, 2, 5, 4)), made(2, (2, 2, 6, 4))
        lengths = np.array([6, 3])
        keep = (np.arange(6) < lengths[:, None])[:, None, None]
        found = polyhead.attention(q, k, k, key_lengths=lengths, weights=True)
        np.testing.assert_allclose(found.weights, softmax_weights(q, k, keep=keep), atol=2e-6)
        starts = np.array([0, 2, 5], np.int32)
        packed = polyhead.attention(q[:1], k[:1, :, :5], k[:1, :, :5], cu_q=starts, cu_k=starts, align="top_left", statistics="light")
        for first, last in ((0, 2), (2, 5)):
            part = polyhead.attention(q[:1, :, first:last], k[:1, :, first:last], k[:1, :, first:last])
            np.testing.assert_allclose(packed.output[:, :, first:last], part, atol=2e-6)
        self.assertEqual(packed.statistics.sums.shape, (2, 2, 14))

    def test_statistics_are_those_of_the_weights(self):
        q, k = made(1, (2, 3, 11, 8)), made(2, (2, 3, 11, 8))
        weights = softmax_weights(q.astype(float), k.astype(float), causal=True)
        found = polyhead.statistics(q, k, causal=True, full=True)
        logs = np.log(np.where(weights > 0, weights, 1))
        np.testing.assert_allclose(found.entropy, -(weights * logs).sum(-1).mean((0, 2)), rtol=1e-5)
        np.testing.assert_allclose(found.max_weight, weights.max(-1).mean((0, 2)), rtol=1e-5)
        np.testing.assert_allclose(found.first_weight, weights[..., 0].mean((0, 2)), rtol=1e-5)
        apart = abs(np.arange(11)[:, None] - np.arange(11))
        np.testing.assert_allclose(found.distance, (weights * apart).sum(-1).mean((0, 2)), rtol=1e-5)
        rows = polyhead.statistics(q, k, causal=True, rows=True)
        np.testing.assert_allclose(rows.max_weight, weights.max(-1), rtol=1e-4)
        halves = polyhead.statistics(q[:1], k[:1], causal=True, full=True) + polyhead.statistics(q[1:], k[1:], causal=True, full=True)
        np.testing.assert_allclose(halves.entropy, found.entropy, rtol=1e-6)
        np.testing.assert_allclose(halves.max_logit, found.max_logit)
        with self.assertRaisesRegex(AttributeError, "light"):
            polyhead.statistics(q, k).distance
        with self.assertRaisesRegex(AttributeError, "entropy"):
            found.entrop
        for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
            np.testing.assert_array_equal(other.entropy, found.entropy)
        self.assertIn("0.", found._repr_html_())
        self.assertEqual(len(str(found).splitlines()), 4)

    def test_results_print_as_shapes_and_a_table(self):
        x = made(1, (1, 4, 6, 8))
        found = polyhead.attention(x, x, x, statistics="light", weights=True)
        self.assertEqual(repr(found), "<polyhead.Attention: output float32 (1, 4, 6, 8), weights float32 (1, 4, 6, 6), "
                                      "statistics float32 (1, 4, 14)>")
        self.assertEqual(str(found), f"{found!r}\n{found.statistics}")
        gradients = polyhead.attention_backward(x, x, x, x)
        self.assertEqual(str(gradients), "<polyhead.Gradients: " + ", ".join(f"d{n} float32 (1, 4, 6, 8)" for n in "qkv") + ">")
        self.assertEqual(found.statistics._repr_html_().count("linear-gradient"), 4 * 5)  # what is a share of 1

    def test_chosen_heads_rows_and_logits(self):
        q = made(1, (1, 4, 6, 8))
        found = polyhead.attention(q, q, q, weights=True, logits="scaled", heads=[2, 0], rows=[5])
        weights = softmax_weights(q, q)
        np.testing.assert_allclose(found.weights, weights[:, [2, 0]][:, :, [5]], atol=2e-6)
        np.testing.assert_allclose(found.logits[0, 0, 0], q[0, 2, 5] @ q[0, 2].T / 8**0.5, atol=1e-5)

    def test_logits_of_every_stage_and_type(self):
        """They come in the type that statistics have: float32 for 16 bits, whose range and digits they would not fit."""
        q, k = made(1, (1, 2, 5, 8), np.float64) * 60, made(2, (1, 2, 7, 8), np.float64) * 60
        bias = made(3, (2, 5, 7), np.float64)
        for dtype in (np.float16, np.float32, np.float64):
            ours = [x.astype(dtype) for x in (q, k, bias)]
            wide = [x.astype(float) for x in ours]
            scaled = wide[0] @ wide[1].swapaxes(-1, -2) / 8**0.5
            capped = 3000 * np.tanh(scaled / 3000)
            for stage, expected in (("scaled", scaled), ("capped", capped), ("biased", capped + wide[2])):
                found = polyhead.attention(ours[0], ours[1], ours[1], bias=ours[2], softcap=3000.0, logits=stage).logits
                self.assertEqual(found.dtype, np.float64 if dtype is np.float64 else np.float32)
                np.testing.assert_allclose(found, expected, atol=2e-3, rtol=2e-6, err_msg=f"{dtype} {stage}")
            self.assertGreater(abs(scaled).max(), 2048, "else 16 bits might do")

    def test_bars_are_as_long_as_their_numbers(self):
        x = made(1, (1, 4, 6, 8))
        found = polyhead.attention(x, x, x, causal=True, statistics="light").statistics
        cells = re.findall(r"<td([^>]*)>([^<]*)</td>", found._repr_html_())
        names = ["entropy", "normalised_entropy", "max_weight", "first_weight", "self_weight", "previous_weight", "max_logit"]
        self.assertEqual(len(cells), 4 * len(names))
        for n, (style, text) in enumerate(cells):
            name, value = names[n % len(names)], getattr(found, names[n % len(names)])[n // len(names)]
            self.assertEqual(text, f"{value:.3f}")
            ends = [float(end) for end in re.findall(r"([0-9.]+)%", style)]
            if name in ("entropy", "max_logit"):
                self.assertEqual(ends, [], "not a share of 1")
            else:
                self.assertEqual(len(ends), 2)
                self.assertEqual(ends[0], ends[1])
                self.assertAlmostEqual(ends[0], 100 * value, delta=0.051)
        shares = lambda *args, **more: [bar.share for bar in _figures.bars(*args, **more)]  # noqa: E731
        self.assertEqual(shares([1, 4, 2]), [0.25, 1, 0.5])
        self.assertEqual(shares([0.5, 2, -1, np.nan, np.inf], most=1), [0.5, 1, 0, 0, 0])
        self.assertEqual(shares([np.nan, 2, np.inf, 1]), [0, 1, 0, 0.5])
        self.assertEqual(shares([0, 0]), [0, 0])
        self.assertEqual([str(bar) for bar in _figures.bars([0.12345, 2], 4)], ["0.1235", "2.0000"])

    def test_gradients_by_differences(self):
        # T = 4, S = 5, D = 3, E = 2, and two heads share keys and values.
        q, k, v = (made(n, shape, np.float64) for n, shape in enumerate(((1, 2, 4, 3), (1, 1, 5, 3), (1, 1, 5, 2))))
        options = {"bias": made(4, (1, 1, 4, 5), np.float64), "gates": np.array([0.5, 2.0]), "sink_logit": np.array([0.1, 1.0])}
        upstream = made(5, (1, 2, 4, 2), np.float64)
        found = polyhead.attention_backward(q, k, v, upstream, **options)
        for x, gradient in ((q, found.dq), (k, found.dk), (v, found.dv), (options["bias"], found.dbias),
                            (options["sink_logit"], found.dsink_logit), (options["gates"], found.dgates[0])):
            self.assertEqual(gradient.shape, x.shape)
            for at in np.ndindex(x.shape):
                kept = x[at]
                ends = []
                for step in (1e-6, -1e-6):
                    x[at] = kept + step
                    ends.append((polyhead.attention(q, k, v, **options) * upstream).sum())
                x[at] = kept
                self.assertAlmostEqual((ends[0] - ends[1]) / 2e-6, gradient[at], places=7)

    def test_shards_of_the_keys(self):
        q, k, v, upstream = (made(n, (2, 2, 6, 4), np.float64) for n in range(4))
        options = {"causal": True, "statistics": "full", "row_statistics": True}
        whole = polyhead.attention(q, k, v, lse=True, **options)
        cuts = [slice(0, 1), slice(1, 4), slice(4, 6)]
        shards = [(q, k[:, :, cut], v[:, :, cut], {"causal": True, "first_position": -cut.start}) for cut in cuts]
        merged = polyhead.merge_attention([polyhead.attention(*shard, lse=True, **{**options, **own}) for *shard, own in shards])
        np.testing.assert_allclose(merged.output, whole.output, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(merged.lse, whole.lse, rtol=1e-12)
        for name in ("entropy", "max_weight", "max_offset", "max_logit", "first_weight", "self_weight", "previous_weight", "distance"):
            np.testing.assert_allclose(getattr(merged.statistics, name), getattr(whole.statistics, name), rtol=1e-10, err_msg=name)
        self.assertTrue(np.isnan(merged.statistics.normalised_entropy).all())
        right = polyhead.attention_backward(q, k, v, upstream, causal=True)
        parts = [polyhead.attention_backward(*shard, upstream, output=merged.output, lse=merged.lse, merged=True, **own)
                 for *shard, own in shards]
        np.testing.assert_allclose(sum(part.dq for part in parts), right.dq, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(np.concatenate([part.dk for part in parts], 2), right.dk, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(np.concatenate([part.dv for part in parts], 2), right.dv, rtol=1e-10, atol=1e-14)
        listed = polyhead.Attention(whole.output.tolist(), whole.lse)
        for parts, word in (([], "one shard or more, found none"), ([whole.output], "an Attention with its lse"), (5, "parts: .*found int"),
                            ([whole, listed], r"parts\[1\].output: expected an array .* found list")):
            with self.assertRaisesRegex(polyhead.Error, word):
                polyhead.merge_attention(parts)

    def test_parts_drop_what_the_whole_drops(self):
        """Sequences, heads and queries by themselves, and keys in two shards."""
        q, k, v, upstream = np.random.default_rng(3).standard_normal((4, 3, 4, 9, 8))
        dropping = dict(causal=True, dropout=0.4, seed=11)
        whole = polyhead.attention(q, k, v, **dropping)
        heads = [x[1:, 2:] for x in (q, k, v, upstream)]
        begin = polyhead.Origin(sequence=1, head=2)
        np.testing.assert_array_equal(polyhead.attention(*heads[:3], **dropping, origin=begin), whole[1:, 2:])
        gradients = polyhead.attention_backward(q, k, v, upstream, **dropping)
        np.testing.assert_array_equal(polyhead.attention_backward(*heads, **dropping, origin=begin).dk, gradients.dk[1:, 2:])
        rows = polyhead.attention(q[:, :, 5:], k, v, **dropping, first_position=5, origin=(0, 0, 5))
        np.testing.assert_array_equal(rows, whole[:, :, 5:])
        shards = [polyhead.attention(q, k[:, :, n:n + 5], v[:, :, n:n + 5], **dropping, first_position=-n, origin=(0, 0, 0, n), lse=True)
                  for n in (0, 5)]
        np.testing.assert_allclose(polyhead.merge_attention(shards).output, whole, atol=1e-12)

    def test_memory_as_it_lies(self):
        x = made(1, (2, 5, 3, 8))  # [B,T,H,D]
        view = x.transpose(0, 2, 1, 3)
        out = np.empty((2, 5, 3, 8), np.float32)
        polyhead.attention(view, view, view, out=out.transpose(0, 2, 1, 3))
        np.testing.assert_array_equal(out.transpose(0, 2, 1, 3), polyhead.attention(*[view.copy()] * 3))
        frozen = view.copy()
        frozen.flags.writeable = False
        np.testing.assert_array_equal(polyhead.attention(frozen, frozen, frozen), out.transpose(0, 2, 1, 3))

    def test_subclasses_of_arrays(self):
        """A file in memory and what users derive are the arrays that they are; one that hides numbers is refused."""
        x = made(1, (1, 2, 4, 8))
        with tempfile.TemporaryFile() as file:
            mapped = np.memmap(file, np.float32, "w+", shape=x.shape)
            mapped[:] = x
            expected = polyhead.attention(x, x, x)
            np.testing.assert_array_equal(polyhead.attention(mapped, x, mapped), expected)
            self.assertIs(polyhead.attention(x, x, x, out=mapped), mapped)
            np.testing.assert_array_equal(mapped, expected)
        hiding = np.ma.masked_array(x, x > 0)
        for name, call in (("q", lambda: polyhead.attention(hiding, x, x)), ("v", lambda: polyhead.attention(x, x, hiding, causal=True)),
                           ("bias", lambda: polyhead.attention(x, x, x, bias=hiding[..., :4]))):
            with self.assertRaisesRegex(polyhead.DTypeError, f"^{name}: expected an array without a mask, found a MaskedArray"):
                call()

    def test_others_by_dlpack(self):
        x = made(1, (1, 1, 4, 2))

        class Other:
            shape = x.shape

            def __dlpack__(self, **_):
                return x.__dlpack__()

            def __dlpack_device__(self):
                return x.__dlpack_device__()

        np.testing.assert_array_equal(polyhead.attention(Other(), Other(), Other()), polyhead.attention(x, x, x))


class Explained(unittest.TestCase):
    def test_what_is_wanted_counts(self):
        x = made(1, (1, 2, 16, 8))
        plain = polyhead.explain(x, x, x, causal=True)
        self.assertIn("cpu", plain)
        self.assertEqual(polyhead.explain(x, x, x, causal=True, lse=True, statistics="light"), plain)
        for wants in ({"weights": True, "heads": [1]}, {"logits": "scaled"}):
            self.assertIn("weights or logits", polyhead.explain(x, x, x, **wants))
        for error, words, wants in ((polyhead.InvalidValueError, "statistics", {"statistics": "some"}),
                                    (polyhead.DTypeError, "weights", {"weights": 1}),
                                    (polyhead.InvalidValueError, "heads", {"heads": [1]}),
                                    (polyhead.ShapeError, "keep", {"keep": np.ones((3, 3), bool)})):
            with self.assertRaisesRegex(error, words):
                polyhead.explain(x, x, x, **wants)


class Documents(unittest.TestCase):
    def test_what_they_show_runs(self):
        root = Path(__file__).resolve().parents[2]
        for page in ("README.md", "docs/python.md"):
            block = re.search(r"```python\n(import numpy.*?)```", (root / page).read_text(), re.DOTALL)[1]
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                exec(block, {})
            self.assertEqual(len(shown.getvalue().splitlines()), 5, page)  # a line for each head


class BadInput(unittest.TestCase):
    def setUp(self):
        self.x = made(1, (1, 2, 4, 8))

    def refused(self, error, words, *arrays, **options):
        arrays = arrays or (self.x,) * 3
        with self.assertRaisesRegex(error, words):
            polyhead.attention(*arrays, **options)

    def test_what_is_wrong_is_named(self):
        x = self.x
        self.refused(polyhead.DTypeError, "q: expected an array", 1, x, x)
        self.refused(polyhead.DTypeError, "k: .*object", x, x.astype(object), x)
        self.refused(polyhead.DTypeError, "complex64", x.astype(np.complex64), x, x)
        self.refused(polyhead.DTypeError, ">f4", x.astype(">f4"), x, x)
        self.refused(polyhead.DTypeError, "f64", x.astype(float), x, x)
        self.refused(polyhead.ShapeError, "q: expected 4 axes", x[0], x, x)
        self.refused(polyhead.ShapeError, r"\[1,2,4,8\]", x, x[..., :4], x)
        self.refused(polyhead.LayoutError, "q: .*stride", x.transpose(0, 1, 3, 2), x, x)
        packed = np.zeros(x.shape, [("number", "f4"), ("mark", "i1")])["number"]  # five bytes apart
        self.refused(polyhead.LayoutError, "q: .*strides that are multiples of 4 bytes", packed, x, x)
        self.refused(polyhead.ShapeError, "keep", keep=np.ones((4, 3), bool))
        self.refused(polyhead.DTypeError, "keep", keep=np.ones((4, 4)))
        self.refused(polyhead.DTypeError, "gates: expected an array", gates=[1, 0])
        self.refused(polyhead.InvalidValueError, "softcap", softcap=-1.0)
        self.refused(polyhead.DTypeError, "softcap", softcap=x)
        self.refused(polyhead.InvalidValueError, "dropout", dropout=1.0)
        self.refused(polyhead.InvalidValueError, "top_left", align="middle")
        self.refused(polyhead.InvalidValueError, "light", statistics="some")
        self.refused(polyhead.InvalidValueError, "row_statistics", row_statistics=True)
        self.refused(polyhead.DTypeError, "scale", scale="big")
        self.refused(polyhead.InvalidValueError, "seed", dropout=0.5, seed=-1)
        self.refused(polyhead.InvalidValueError, "origin: expected .sequence, head, row, key., found 3", dropout=0.5, origin=3)
        self.refused(polyhead.InvalidValueError, "origin: expected", origin=(0, 0, 0, 0, 0))
        self.refused(polyhead.DTypeError, "origin.head: expected a whole number", origin=(0, 0.5))
        self.refused(polyhead.InvalidValueError, "origin of 0 to 4294967295, found -1", dropout=0.5, origin=polyhead.Origin(row=-1))
        self.refused(polyhead.LayoutError, "out: .*apart from the inputs", out=self.x)
        out = np.empty_like(x)
        out.flags.writeable = False
        self.refused(polyhead.LayoutError, "read-only", out=out)
        self.refused(polyhead.InvalidValueError, "key_lengths", key_lengths=np.array([9]))
        self.refused(polyhead.InvalidValueError, "first_position", first_position=2**70)
        self.refused(polyhead.DTypeError, "first_position", first_position=1.5)
        self.refused(polyhead.InvalidValueError, "window", window=5)
        self.refused(polyhead.DTypeError, "causal", causal="no")
        self.refused(polyhead.InvalidValueError, "heads", weights=True, heads=[2**32 + 1])
        self.refused(polyhead.ShapeError, "cu_q", cu_q=[0, 4], statistics="light")
        self.refused(polyhead.ShapeError, "cu_k", cu_k=np.float32(1), weights=True)
        with self.assertRaises(TypeError):
            polyhead.attention(x, x, x, attn_mask=None)
        with self.assertRaisesRegex(polyhead.DTypeError, "gates: expected an array"):
            polyhead.attention_backward(x, x, x, x, gates=[1, 1])
        with self.assertRaisesRegex(polyhead.InvalidValueError, "set_threads"):
            polyhead.set_threads(2**32)

    def test_random_arguments_never_crash(self):
        """What they raise is ours, and names an argument that was given."""
        draw = random.Random(7)
        arrays = [None, 3, "q", [1.0], np.float32(1), np.zeros((0, 2, 4, 8), np.float32), self.x, self.x[:, :, :0], self.x[..., :0],
                  self.x[0], self.x.astype(np.float16), self.x.astype(np.int32), np.ones(2, np.float32), np.ones((1, 2), np.float32),
                  np.array([3], np.int32), np.array([[2]], np.int64), np.ones((4, 4), bool), np.full((4, 4), np.nan, np.float32),
                  np.array([0, 2, 4], np.int32), self.x[:, ::-1], self.x[..., ::-1], np.ones((1,) * 8, np.float32),
                  np.ma.masked_array(self.x, self.x > 0), np.rec.array(self.x)]
        numbers = [0, 1, -1, 0.5, float("nan"), float("inf"), 2**70, None, "x", True]
        names = list(inspect.signature(polyhead.attention).parameters)[3:]
        for _ in range(3000):
            options = {name: draw.choice(draw.choice((arrays, numbers))) for name in draw.sample(names, draw.randrange(4))}
            try:
                polyhead.attention(*(draw.choice(arrays) if draw.random() < 0.2 else self.x for _ in range(3)), **options)
            except polyhead.Error as error:
                self.assertNotIsInstance(error, polyhead.InternalError)
                self.assertTrue(re.findall(rf"\b(q|k|v|{'|'.join(options) or 'q'})\b", str(error)), error)  # says which


class Places(unittest.TestCase):
    def test_threads_give_the_same_bits(self):
        x = made(1, (2, 4, 65, 16))
        found = []
        for threads in (1, 2, 3):
            polyhead.set_threads(threads)
            self.assertEqual(polyhead.threads(), threads)
            found.append(polyhead.attention(x, x, x, causal=True))
        polyhead.set_threads(0)
        for more in found[1:]:
            np.testing.assert_array_equal(found[0], more)

    def test_python_threads_call_at_once(self):
        x = made(1, (1, 2, 64, 16))
        expected = polyhead.attention(x, x, x)
        wrong = []

        def work():
            for _ in range(50):
                if not np.array_equal(polyhead.attention(x, x, x), expected):
                    wrong.append(1)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertFalse(wrong)

    def test_the_gil_is_free_during_work(self):
        x = made(1, (1, 8, 2048, 64))
        ticks, done = [0], threading.Event()

        def tick():
            while not done.is_set():
                ticks[0] += 1

        worker = threading.Thread(target=tick)
        worker.start()
        before = ticks[0]
        polyhead.attention(x, x, x)
        gained = ticks[0] - before
        done.set()
        worker.join()
        self.assertGreater(gained, 100)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_child_goes_on(self):
        x = made(1, (1, 2, 64, 16))
        expected = polyhead.attention(x, x, x)
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(polyhead.attention(x, x, x), expected) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_missing_library_is_said(self):
        environment = {**os.environ, "POLYHEAD_LIBRARY": "/nonexistent/library.so"}
        found = subprocess.run([sys.executable, "-c", "import polyhead"], env=environment, capture_output=True, text=True)
        self.assertIn("ImportError: polyhead: no _native.abi3.so in /nonexistent", found.stderr)


def load_tests(_, tests, __):
    for module in (polyhead, _attention, _library, _statistics):
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
