"""Calls of attention on tensors of PyTorch beside PyTorch's: scaled_dot_product_attention, polyhead.attention and its ops.

attention_parity.py BUILD

In float32 a result is at most twice as far from float64 as torch's, plus two units in the last place of its largest value. Arguments
that are drawn never crash.
"""

import inspect
import json
import os
import random
import re
import sys
import unittest
from pathlib import Path
from unittest import mock

BUILD = Path(sys.argv.pop(1)).resolve()
os.environ.setdefault("POLYHEAD_LIBRARY", str(BUILD / "capi/libpolyhead_c.so"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import polyhead  # noqa: E402
import polyhead.torch as ours  # noqa: E402
from seeded import Seeded, largest  # noqa: E402


def allowed(reference, other, dtype):
    """How far off polyhead may be."""
    return 2 * largest(other.double() - reference) + 2 * torch.finfo(dtype).eps * largest(reference)


class LongRows(Seeded):
    def test_values_that_lean_to_one_side(self):
        """As those of models do. What a row sums is then far larger than what its results differ by."""
        for tokens in (128, 512, 2048):
            q, k, v = (torch.randn(1, 2, tokens, 64) for _ in range(3))
            k, v = k + 2 * torch.randn(1, 2, 1, 64), v + 2
            upstream, to_weights = torch.randn_like(q), torch.randn(1, 2, tokens, tokens) + 2

            def formula(q, k, v, scale=0.125):
                weights = torch.softmax(q * scale @ k.transpose(-1, -2), -1)
                return weights @ v, weights

            def fused(q, k, v):
                return F.scaled_dot_product_attention(q, k, v), None

            def drop_in(q, k, v):
                found = polyhead.attention(q, k, v, weights=True)
                return found.output, found.weights

            def results(attention, dtype, of_weights):
                leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
                output, weights = attention(*leaves)
                loss = (output * upstream.to(dtype)).sum() + ((weights * to_weights.to(dtype)).sum() if of_weights else 0)
                return output.detach(), *torch.autograd.grad(loss, leaves)

            for of_weights in (False, True):
                exact, mine = results(formula, torch.float64, of_weights), results(drop_in, torch.float32, of_weights)
                plain = [results(attention, torch.float32, of_weights) for attention in ((formula,) if of_weights else (formula, fused))]
                self.judge(f"{tokens} tokens{', weights' if of_weights else ''}", ("output", "dq", "dk", "dv"), mine, plain, exact)
            last = q[:, :, -1:]
            self.judge(f"one query, {tokens} keys", ("output",), [polyhead.attention(last, k, v)], [formula(last, k, v)],
                       [formula(last.double(), k.double(), v.double())[0]])

    def judge(self, where, names, mine, plain, exact):
        said = []
        for n, name in enumerate(names):
            off, others = largest(mine[n].double() - exact[n]), max(largest(x[n].double() - exact[n]) for x in plain)
            said.append(f"{name} {off / others:.2f}")
            self.assertLessEqual(off, 2 * others + 2 * torch.finfo(torch.float32).eps * largest(exact[n]), f"{where}: {name}")
        print(f"{where}: off by torch's error times {', '.join(said)}")


class Sdpa(Seeded):
    def test_like_torchs(self):
        for seed in range(300):
            draw = random.Random(seed)
            torch.manual_seed(seed)
            leading = draw.choice([(), (2,), (2, 3), (2, 2, 3)])
            queries, keys, dim, value_dim = draw.choice([1, 5, 17]), draw.choice([1, 5, 20]), draw.choice([1, 4, 16]), draw.choice([3, 8])
            grouped = len(leading) >= 2 and leading[-1] == 3 and draw.random() < 0.3
            groups = (*leading[:-1], 1) if grouped else leading
            q = torch.randn(*leading, queries, dim)
            k, v = torch.randn(*groups, keys, dim), torch.randn(*groups, keys, value_dim)
            call = dict(enable_gqa=grouped, scale=draw.choice([None, 0.3]))
            kind = draw.choice(["none", "causal", "bool", "float"])
            if kind == "causal":
                call["is_causal"] = True
            elif kind != "none":
                shape = draw.choice([(queries, keys), (*[1] * len(leading), queries, keys), (*leading, queries, keys)])
                keep = torch.rand(shape) < 0.7
                keep[..., 0] = True
                call["attn_mask"] = keep if kind == "bool" else torch.randn(shape).masked_fill(~keep, -torch.inf)
            wide = {n: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for n, x in call.items()}
            reference = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), **wide)
            theirs = F.scaled_dot_product_attention(q, k, v, **call)
            mine = ours.scaled_dot_product_attention(q, k, v, **call)
            self.assertEqual(mine.shape, reference.shape)
            error = (mine.double() - reference).abs().max().item()
            self.assertLessEqual(error, allowed(reference, theirs, torch.float32), f"seed {seed}: {call}")

    def test_axes_in_any_order_of_memory(self):
        """Tensors whose last axis is not the innermost, each by itself: the library reads a copy of them."""
        for odd in range(3):
            for plain in (False, True):
                x = [torch.randn(2, 3, 5, 5, dtype=torch.float64) for _ in range(3)]
                x[odd] = x[odd].transpose(2, 3)
                x = [each.requires_grad_() for each in x]
                mine = polyhead.attention(*x) if plain else ours.scaled_dot_product_attention(*x, is_causal=True)
                theirs = F.scaled_dot_product_attention(*x, is_causal=not plain)
                torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
                upstream = torch.randn_like(theirs)
                for found, expected in zip(torch.autograd.grad(mine, x, upstream), torch.autograd.grad(theirs, x, upstream)):
                    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)

    def test_results_lie_as_what_they_belong_to(self):
        packed = torch.randn(2, 5, 3, 4, 8, requires_grad=True)
        q, k, v = (x.transpose(1, 2) for x in packed.unbind(2))  # views of one product
        for tokens in (5, 3):
            output = ours.scaled_dot_product_attention(q[:, :, :tokens], k, v)
            self.assertTrue(output.transpose(1, 2).is_contiguous())
            for x, gradient in zip((q, k, v), torch.autograd.grad(output.sum(), (q, k, v))):
                self.assertEqual(gradient.shape, x.shape)
        made = polyhead.attention_backward(q.detach(), k.detach(), v.detach(), torch.ones_like(q))
        self.assertTrue(all(x.transpose(1, 2).is_contiguous() for x in (made.dq, made.dk, made.dv)))
        sideways = torch.randn(2, 4, 8, 5).transpose(2, 3)  # whose rows do not lie together, and are copied
        torch.testing.assert_close(polyhead.attention_backward(*[sideways] * 4).dq, polyhead.attention_backward(*[sideways.contiguous()] * 4).dq)

    def test_plain_calls_are_those_with_options(self):
        """The shortest way, and the ways around it."""
        q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
        for options in ({}, {"is_causal": True}, {"scale": 0.3}, {"is_causal": True, "scale": 0.3}, {"scale": 1}, {"dropout_p": 0}):
            found = ours.scaled_dot_product_attention(q, k, k, **options)
            torch.testing.assert_close(found, F.scaled_dot_product_attention(q, k, k, **options))
            torch.testing.assert_close(found[0], ours.scaled_dot_product_attention(q[0], k[0], k[0], **options))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(ours.scaled_dot_product_attention(q, k, k).dtype, torch.bfloat16)
        for words, call in (("key and value heads", lambda: ours.scaled_dot_product_attention(q, k[:, :2], k[:, :2])),
                            ("key: ", lambda: ours.scaled_dot_product_attention(q, k.double(), k)),
                            ("is_causal", lambda: ours.scaled_dot_product_attention(q, k, k, is_causal=1))):
            with self.subTest(words), self.assertRaisesRegex(polyhead.Error, words):
                call()

    def test_under_compile(self):
        torch.manual_seed(0)
        q = torch.randn(2, 4, 6, 8, dtype=torch.float64, requires_grad=True)
        gates = torch.rand(4, dtype=torch.float64, requires_grad=True)

        def run(q, gates):
            return ours.scaled_dot_product_attention(q.sin(), q, q, is_causal=True, gates=gates).cos()

        expected = torch.autograd.grad(run(q, gates).sum(), (q, gates))
        compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(q, gates), run(q, gates))
        torch.testing.assert_close(torch.autograd.grad(compiled(q, gates).sum(), (q, gates)), expected)

    def test_masks_and_dropout_under_compile(self):
        """In one graph; torch.manual_seed decides what is dropped there too."""
        q, x = torch.randn(2, 2, 5, 8), torch.randn(2, 5, 16)
        keep, padding = torch.rand(5, 5) < 0.7, torch.rand(2, 5) < 0.3
        keep[:, 0], padding[:, 0] = True, False
        bias = torch.randn(2, 1, 5, 5).transpose(2, 3)
        made = dict(embed_dim=16, num_heads=4, batch_first=True)
        layer, added = ours.MultiheadAttention(**made), ours.MultiheadAttention(**made, add_bias_kv=True, add_zero_attn=True)
        dropping = ours.MultiheadAttention(**made, dropout=0.4)
        for name, run, arguments in (
            ("a bool mask", lambda q, mask: ours.scaled_dot_product_attention(q.sin(), q, q, mask), (q, keep)),
            ("a float mask", lambda q, mask: ours.scaled_dot_product_attention(q.sin(), q, q, mask), (q, bias)),
            ("dropout", lambda q: ours.scaled_dot_product_attention(q.sin(), q, q, dropout_p=0.3), (q,)),
            ("the layer", lambda x: layer(x, x, x)[0], (x,)),
            ("padding", lambda x, mask: layer(x, x, x, key_padding_mask=mask)[1], (x, padding)),
            ("causal", lambda x, mask: layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0], (x, torch.ones(5, 5).triu(1) > 0)),
            ("both masks", lambda x, mask, pad: added(x, x, x, pad, attn_mask=mask)[0], (x, torch.randn(8, 5, 5), padding)),
            ("a layer that drops", lambda x, mask: dropping(x, x, x, mask)[0], (x, padding)),
        ):
            with self.subTest(name):
                torch._dynamo.reset()
                leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in arguments]
                found = []
                for function in (run, torch.compile(run, backend="aot_eager", fullgraph=True)):
                    torch.manual_seed(3)
                    output = function(*leaves)
                    found.append((output, *torch.autograd.grad(output.cos().sum(), [x for x in leaves if x.requires_grad])))
                torch.testing.assert_close(*found)
        dropped = torch.compile(lambda q: ours.scaled_dot_product_attention(q, q, q, dropout_p=0.5), backend="aot_eager", fullgraph=True)
        self.assertFalse(torch.equal(dropped(q), dropped(q)))

    def test_parts_drop_what_the_whole_drops(self):
        q, upstream = torch.randn(2, 3, 4, 6, 8).unbind()
        leaves = [q.clone().requires_grad_() for _ in range(2)]
        dropping = dict(causal=True, dropout=0.4, seed=5)
        whole = polyhead.attention(*[leaves[0]] * 3, **dropping)
        part = lambda x: polyhead.attention(*[x[1:, 2:]] * 3, **dropping, origin=(1, 2))  # noqa: E731
        for run in (part, torch.compile(part, backend="aot_eager", fullgraph=True)):
            found = run(leaves[1])
            self.assertTrue(torch.equal(found, whole[1:, 2:]))
            gradients = [torch.autograd.grad(x, leaf, upstream[1:, 2:], retain_graph=True)[0][1:, 2:]
                         for x, leaf in ((found, leaves[1]), (whole[1:, 2:], leaves[0]))]
            torch.testing.assert_close(*gradients)
        with self.assertRaisesRegex(polyhead.Error, "origin"):
            torch.compile(lambda x: polyhead.attention(x, x, x, origin=(0.5,)), backend="aot_eager")(q)

    def test_what_cannot_be_differentiated_is_refused(self):
        q = torch.randn(1, 2, 4, 8, requires_grad=True)
        first = torch.autograd.grad(ours.scaled_dot_product_attention(q, q, q).sum() + q.square().sum(), q, create_graph=True)[0]
        with self.assertRaisesRegex(RuntimeError, "differentiated once, found a second time"):
            first.sum().backward()
        k = torch.randn(1, 2, 4, 8, requires_grad=True)  # of which the penalty has a part besides
        first = torch.autograd.grad(ours.scaled_dot_product_attention(q, k, k).sum(), k, create_graph=True)[0]
        with self.assertRaisesRegex(RuntimeError, "differentiated once"):
            torch.autograd.grad(first.sum() + k.square().sum(), k)

    def test_masks_changed_in_place_are_noticed(self):
        q, keep = torch.randn(1, 2, 4, 8, requires_grad=True), torch.ones(4, 4, dtype=torch.bool)
        output = polyhead.attention(q, q, q, keep=keep)
        keep.zero_()
        with self.assertRaisesRegex(RuntimeError, "inplace"):  # in torch's words
            output.sum().backward()
        first = torch.tensor([0], dtype=torch.int32)
        output = polyhead.attention(q, q, q, causal=True, first_position=first)
        first.add_(1)
        with self.assertRaisesRegex(RuntimeError, "in place"):
            output.sum().backward()

    def test_the_ops_are_sound(self):
        q = torch.randn(1, 2, 4, 8, requires_grad=True)
        keep, gates = torch.rand(1, 1, 4, 4) < 0.9, torch.ones(2, requires_grad=True)
        arguments = (q, q, q, keep, *[None] * 8, gates, None, None, 0.0, "top_left", None, True, [2, 9, 0], 0.0, 0, [], True, "light")
        torch.library.opcheck(torch.ops.polyhead.attend.default, arguments)

    def test_bad_input_is_named(self):
        q = torch.randn(1, 2, 4, 8)
        for words, call in (
            ("key: expected a tensor of torch, found NoneType", lambda: ours.scaled_dot_product_attention(q, None, q)),
            ("query: expected a tensor of torch, found ndarray", lambda: ours.scaled_dot_product_attention(q.numpy(), q, q)),
            ("attn_mask: expected a tensor", lambda: ours.scaled_dot_product_attention(q, q, q, [[True]])),
            ("attn_mask: expected bool", lambda: ours.scaled_dot_product_attention(q, q, q, torch.ones(4, 4, dtype=torch.int64))),
            ("attn_mask: expected up to 4 axes", lambda: ours.scaled_dot_product_attention(q, q, q, torch.ones(1, 1, 1, 4, 4))),
            ("attn_mask: expected a shape", lambda: ours.scaled_dot_product_attention(q, q, q, torch.ones(5, 4))),
            ("dropout_p: expected a number", lambda: ours.scaled_dot_product_attention(q, q, q, dropout_p="x")),
            ("is_causal: expected True or False", lambda: ours.scaled_dot_product_attention(q, q, q, is_causal="x")),
            ("key: expected f32", lambda: ours.scaled_dot_product_attention(q, q.double(), q)),
            ("attn_mask: expected a tensor", lambda: ours.MultiheadAttention(8, 2)(q[0], q[0], q[0], attn_mask=[1])),
            ("both", lambda: ours.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(4, 4, dtype=torch.bool), is_causal=True)),
            ("enable_gqa", lambda: ours.scaled_dot_product_attention(q, q[:, :1], q[:, :1])),
            ("sparse", lambda: polyhead.attention(q.to_sparse(), q, q)),
            ("complex64", lambda: polyhead.attention(q.to(torch.complex64), q, q)),
            ("k: expected an array", lambda: polyhead.attention(q, [1], q)),
            ("q: expected a tensor on the CPU or on a CUDA GPU, found one on meta", lambda: polyhead.attention(*[q.to("meta")] * 3)),
            ("alibi: expected slopes", lambda: polyhead.attention(q, q, q, alibi=torch.ones(2, requires_grad=True))),
            ("k: expected an array", lambda: polyhead.attention(q, q.numpy(), q)),
            ("bias: expected an array", lambda: polyhead.attention(q, q, q, bias=q.numpy()[..., :4])),
            ("out: expected None", lambda: polyhead.attention(q.clone().requires_grad_(), q, q, out=torch.empty_like(q))),
        ):
            with self.subTest(words), self.assertRaisesRegex(polyhead.Error, words):
                call()


class Ops(unittest.TestCase):
    def test_take_what_the_contract_has(self):
        from polyhead._options import Options

        for op, more in ((torch.ops.polyhead.attend, {"weights", "statistics"}),
                         (torch.ops.polyhead.attend_backward, {"output", "lse", "doutput", "dlse", "dweights"})):
            names = {argument.name for argument in op.default._schema.arguments}
            self.assertEqual(names, {"q", "k", "v", "drawn", *Options._fields, *more})


class Calls(unittest.TestCase):
    def test_every_kind_has_a_row_and_a_bar(self):
        """In the tables of bench/run.py and tests/gpu/python_cuda.py, too."""
        sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
        import calls
        import python_families

        found = calls.of_torch("cpu", 0.01)
        rows = [row.split(" | ") for row in calls.rows_of_torch("cpu", found)]
        self.assertEqual([row[0] for row in rows], [f"| torch on cpu, {kind}" for kind in found])
        for row in rows:
            self.assertEqual(len(row), calls.HEADER.splitlines()[0].count(" | ") + 1)
            self.assertEqual(row[-1], "1.2 |" if "no gradients" in row[0] else "1.5 |")
        times = {"numpy": {"ours": 2.0, "C": 1.0}, "cpu": found}
        with mock.patch("subprocess.run", return_value=mock.Mock(stdout=json.dumps(times))):
            family = python_families.calls(mock.Mock(python="python3", **{"package.return_value": {}}))
        self.assertEqual(len(family.bars), 1 + 2 * len(found))

    def test_the_op_by_itself_is_timed(self):
        sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
        import calls

        modes = []
        with mock.patch("polyhead._autograd._as_op", side_effect=lambda *given: modes.append(given[0].requires_grad)):
            times = calls.of_op(0.01)
        self.assertLess(max(times.values()), float("inf"))
        self.assertTrue(modes and all(modes))  # recorded ones


class Items(torch.utils.data.Dataset):
    """Attention of drawn numbers, made by whoever loads them."""

    def __len__(self):
        return 12

    def __getitem__(self, n):
        x = torch.randn(1, 2, 65, 16, generator=torch.Generator().manual_seed(n))
        return polyhead.attention(x, x, x, causal=True)


class Loader(Seeded):
    def test_its_forked_workers_go_on(self):
        expected = [Items()[n] for n in range(12)]  # the parent's threads have started
        found = list(torch.utils.data.DataLoader(Items(), batch_size=None, num_workers=2, multiprocessing_context="fork"))
        self.assertEqual(len(found), 12)
        for mine, other in zip(found, expected):
            self.assertTrue(torch.equal(mine, other))


class RandomArguments(Seeded):
    """They never crash. What is raised is ours, or torch's; and ours names what is wrong."""

    def setUp(self):
        super().setUp()
        self.draw, self.x = random.Random(5), torch.randn(1, 2, 4, 8)
        x = self.x
        self.tensors = [
            None, 3, "q", x, x.double(), x.bfloat16(), x.int(), x[0], x[..., ::2], x.transpose(2, 3), x[:, :, :0], x.to("meta"),
            x.to_sparse(), x.clone().requires_grad_(), x.numpy(), x.expand(3, 2, 4, 8), torch.ones(2), torch.ones(1, 2),
            torch.tensor([3]), torch.tensor([0, 2, 4], dtype=torch.int32), torch.ones(4, 4, dtype=torch.bool),
            torch.full((4, 4), torch.nan), torch.tensor(2.0), x.to(torch.complex64), torch.ones((1,) * 7), nn.Parameter(torch.ones(2))]
        self.numbers = [0, 1, -1, 0.5, float("nan"), 2**70, None, "x", True]

    def attempt(self, call, arrays, names, others):
        """With some arguments drawn; `others` are errors of torch's that are as good."""
        options = {name: self.draw.choice(self.draw.choice((self.tensors, self.numbers)))
                   for name in self.draw.sample(list(names), self.draw.randrange(4))}
        given = {name: self.draw.choice(self.tensors) if self.draw.random() < 0.2 else x for name, x in arrays.items()}
        try:
            found = call(**given, **options)
            found = found[0] if isinstance(found, tuple) else getattr(found, "output", found)
            if isinstance(found, torch.Tensor) and found.requires_grad:
                found.sum().backward()
        except polyhead.Error as error:
            self.assertNotIsInstance(error, polyhead.InternalError)
            self.assertTrue(re.search(rf"\b({'|'.join([*given, *options])})\b", str(error)), f"{error}: {list(options)}")
        except others:
            pass

    def test_attention(self):
        names = list(inspect.signature(polyhead.attention).parameters)[3:]
        for _ in range(4000):
            self.attempt(polyhead.attention, dict.fromkeys("qkv", self.x), names, ())

    def test_scaled_dot_product_attention(self):
        names = list(inspect.signature(ours.scaled_dot_product_attention).parameters)
        for _ in range(3000):
            self.attempt(ours.scaled_dot_product_attention, dict.fromkeys(names[:3], self.x), names[3:], ())

    def test_the_drop_in(self):
        """Shapes and types of inputs are torch's affair."""
        module = ours.MultiheadAttention(8, 2, batch_first=True)
        names = list(inspect.signature(module.forward).parameters)
        for _ in range(3000):
            self.attempt(module, dict.fromkeys(names[:3], self.x[0]), names[3:], (AssertionError, RuntimeError, NotImplementedError))


if __name__ == "__main__":
    torch.set_num_threads(2)
    unittest.main()
