"""polyhead.torch beside PyTorch: the drop-in for nn.MultiheadAttention.

torch_parity.py BUILD [COUNT]

Every combination that is drawn runs in polyhead's drop-in, in torch's module, and in torch's module in float64: output, weights
and all gradients. In float64 the two agree to 1e-12 of the largest value. In float32 every result follows the rule of
docs/semantics.md: its largest error against float64 is at most twice torch's, plus two units in the last place of its largest value.

Many results are a few numbers, or small differences of large ones, and then it is luck how far off torch is. Its error is therefore
the worst of equally plain runs: with the weights and by its fused path, on the numbers as they are and on some that are off by up to
half a unit in the last place, as if they had just been rounded.
"""

import contextlib
import copy
import doctest
import io
import os
import pickle
import random
import sys
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()
COUNT = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 2000
os.environ.setdefault("POLYHEAD_LIBRARY", str(BUILD / "capi/libpolyhead_c.so"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

import polyhead  # noqa: E402
import polyhead.torch as ours  # noqa: E402
from polyhead._products import weights_of  # noqa: E402
from documents import blocks_of  # noqa: E402
from seeded import Seeded, largest  # noqa: E402


ROUNDINGS = 8  # plain runs on numbers that are rounded anew, at most


class Case:
    """One drawn combination of arguments."""

    def __init__(self, seed):
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.dtype = draw.choice([torch.float32, torch.float64])
        heads, dim = draw.choice([1, 2, 3, 4]), draw.choice([1, 2, 5, 8, 16])
        width = heads * dim
        self.other_widths = draw.random() < 0.3
        self.made = dict(embed_dim=width, num_heads=heads, bias=draw.random() < 0.8, add_bias_kv=draw.random() < 0.25,
                         add_zero_attn=draw.random() < 0.25, batch_first=draw.random() < 0.5)
        if self.other_widths:
            self.made.update(kdim=draw.choice([width, 3, 7]), vdim=draw.choice([width, 4, 6]))
        batch, queries = draw.choice([1, 2, 3]), draw.choice([1, 2, 7, 33])
        same = not self.other_widths and draw.random() < 0.4
        keys = queries if same else draw.choice([1, 3, 8, 40])
        batched = draw.random() < 0.85
        shape = lambda n, c: ((batch, n, c) if self.made["batch_first"] else (n, batch, c)) if batched else (n, c)  # noqa: E731
        self.inputs = [torch.randn(shape(queries, width), dtype=torch.float64)]
        if not same:
            self.inputs.append(torch.randn(shape(keys, self.made.get("kdim", width)), dtype=torch.float64))
            if self.other_widths or draw.random() < 0.5:
                self.inputs.append(torch.randn(shape(keys, self.made.get("vdim", width)), dtype=torch.float64))
        self.call = dict(need_weights=draw.random() < 0.6, average_attn_weights=draw.random() < 0.5)
        if draw.random() < 0.5:
            some = (queries, keys) if draw.random() < 0.5 or not batched else (batch * heads, queries, keys)
            drop = torch.rand(some) < 0.3
            drop[..., 0] = False  # no row without a key: torch gives NaN there
            self.call["attn_mask"] = drop if draw.random() < 0.5 else torch.randn(some, dtype=torch.float64).masked_fill(drop, -torch.inf)
        if draw.random() < 0.4:
            pad = torch.rand((batch, keys) if batched else (keys,)) < 0.3
            pad[..., 0] = False
            floating = "attn_mask" in self.call and self.call["attn_mask"].is_floating_point()
            self.call["key_padding_mask"] = torch.zeros(pad.shape, dtype=torch.float64).masked_fill(pad, -torch.inf) if floating else pad
        if draw.random() < 0.15 and queries == keys:
            future = torch.triu(torch.ones(queries, keys, dtype=torch.bool), 1)
            self.call.update(attn_mask=future, is_causal=draw.random() < 0.7)
            if draw.random() < 0.3:
                self.call.update(attn_mask=torch.zeros(queries, keys, dtype=torch.float64).masked_fill(future, -torch.inf))
            self.call.pop("key_padding_mask", None)
        self.weights_count = draw.random() < 0.5

        self.inputs = [x.to(self.dtype).double() for x in self.inputs]  # numbers of the type that is judged
        if "attn_mask" in self.call and self.call["attn_mask"].is_floating_point():
            self.call["attn_mask"] = self.call["attn_mask"].to(self.dtype).double()

    def modules(self):
        """Torch's in float64, torch's and polyhead's, with the same parameters."""
        reference = nn.MultiheadAttention(**self.made, dtype=torch.float64)
        with torch.no_grad():
            for parameter in reference.parameters():
                parameter.copy_(torch.randn_like(parameter).mul(0.5).to(self.dtype))
        found = [reference]
        for kind in (nn.MultiheadAttention, ours.MultiheadAttention):
            found.append(kind(**self.made, dtype=self.dtype))
            found[-1].load_state_dict(reference.state_dict())
        return found

    @property
    def weights_matter(self):
        return self.call["need_weights"] and self.weights_count

    def run(self, module, dtype, rounding=0, fused=None):
        """Output, weights and the gradients of inputs and parameters. A `rounding` beyond 0 moves all numbers a little; `fused`
        says whether weights are wanted, where they do not matter."""
        draw = torch.Generator().manual_seed(rounding)

        def moved(x):
            off = torch.rand(x.shape, generator=draw, dtype=torch.float64) - 0.5
            return x if rounding == 0 else x * (1 + torch.finfo(self.dtype).eps * off)

        if rounding > 0:
            module = copy.deepcopy(module)
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.copy_(moved(parameter.double()))
        inputs = [moved(x).to(dtype).requires_grad_() for x in self.inputs]
        filled = inputs + [inputs[-1]] * (3 - len(inputs))
        call = {name: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for name, x in self.call.items()}
        if fused is not None:
            call.update(need_weights=not fused, is_causal=fused and call.get("is_causal", False))
        output, weights = module(*filled, **call)
        upstream = torch.Generator().manual_seed(1)
        from_above = lambda x: moved(torch.randn(x.shape, generator=upstream).double()).to(dtype)  # noqa: E731
        loss = (output * from_above(output)).sum()
        if self.weights_matter:
            loss = loss + (weights * from_above(weights)).sum()
        gradients = torch.autograd.grad(loss, [*inputs, *module.parameters()], allow_unused=True)
        names = [f"input {n}" for n in range(len(inputs))] + [name for name, _ in module.named_parameters()]
        found = {"output": output.detach(), **dict(zip(names, gradients))}
        if weights is not None:
            found["weights"] = weights.detach()
        return found

    def plain_runs(self, module):
        """Runs of torch's module that are as plain as each other."""
        paths = [False] if self.weights_matter else [False, True]
        for rounding in range(ROUNDINGS + 1):
            for fused in paths:
                yield self.run(module, self.dtype, rounding, fused)


class DropIn(Seeded):
    def test_drawn_combinations(self):
        judged, most_runs = 0, 0
        for seed in range(COUNT):
            case = Case(seed)
            wide, narrow, drop_in = case.modules()
            reference, mine = case.run(wide, torch.float64), case.run(drop_in, case.dtype)
            where = f"seed {seed}: {case.made}, {list(case.call)}"
            for name, expected in reference.items():
                if expected is None:
                    self.assertTrue(mine[name] is None or not mine[name].any(), f"{where}: {name}")
                else:
                    self.assertEqual((mine[name].shape, mine[name].dtype), (expected.shape, case.dtype), f"{where}: {name}")
            errors = {name: largest(mine[name].double() - x) for name, x in reference.items() if x is not None}
            judged += len(errors)
            if case.dtype == torch.float64:
                steep = max(1.0, largest(*reference.values()))
                self.assertLessEqual(max(errors.values()), 1e-12 * steep, where)
            else:
                most_runs = max(most_runs, self.judge(where, case, narrow, reference, errors))
        print(f"{COUNT} combinations, {judged} results; the plain runs of a result were at most {most_runs}")

    def judge(self, where, case, narrow, reference, errors):
        """By the rule, result by result. Plain runs are made as long as they are needed: how many is returned."""
        plain, runs = dict.fromkeys(errors, 0.0), case.plain_runs(narrow)
        floor = {name: 2 * torch.finfo(case.dtype).eps * largest(reference[name]) for name in errors}
        for count, other in enumerate(runs, 1):
            for name in errors:
                if other.get(name) is not None:
                    plain[name] = max(plain[name], largest(other[name].double() - reference[name]))
            beyond = {name: (error, plain[name]) for name, error in errors.items() if error > 2 * plain[name] + floor[name]}
            if not beyond:
                return count
        self.fail(f"{where}: off by, torch by: {beyond}")

    def test_gradcheck(self):
        torch.manual_seed(0)
        module = ours.MultiheadAttention(6, 2, batch_first=True, dtype=torch.float64)
        x, gates = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True), torch.rand(2, dtype=torch.float64, requires_grad=True)
        call = lambda x, gates: module(x, x, x, gates=gates, average_attn_weights=False)  # noqa: E731
        self.assertTrue(torch.autograd.gradcheck(call, (x, gates)))
        q = torch.randn(1, 2, 4, 3, dtype=torch.float64, requires_grad=True)
        bias, sink = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True), torch.randn(2, dtype=torch.float64, requires_grad=True)
        whole = lambda q, bias, sink: polyhead.attention(q, q, q, bias=bias[None], sink_logit=sink, causal=True, softcap=2.0)  # noqa: E731
        self.assertTrue(torch.autograd.gradcheck(whole, (q, bias, sink)))

    def test_rows_without_keys_give_zero(self):
        module = ours.MultiheadAttention(8, 2, batch_first=True)
        x = torch.randn(1, 3, 8, requires_grad=True)
        output, weights = module(x, x, x, key_padding_mask=torch.ones(1, 3, dtype=torch.bool))
        torch.testing.assert_close(output, module.out_proj.bias.expand(1, 3, 8))
        self.assertFalse(weights.any())
        output.sum().backward()
        self.assertTrue(torch.isfinite(x.grad).all())

    def test_gates_and_statistics(self):
        torch.manual_seed(0)
        module = ours.MultiheadAttention(16, 4, batch_first=True).eval()
        x = torch.randn(2, 9, 16)
        with torch.no_grad():
            _, weights, statistics = module(x, x, x, average_attn_weights=False, statistics="light")
            entropy = -(weights * weights.log()).sum(-1).mean((0, 2))
            torch.testing.assert_close(torch.tensor(statistics.entropy, dtype=torch.float32), entropy)
            silent, _ = module(x, x, x, gates=torch.zeros(4))
            torch.testing.assert_close(silent, module.out_proj.bias.expand_as(silent))

    def test_weights_by_torchs_products_are_ours(self):
        """Which the drop-in takes on a GPU: values and gradients, with rows that see nothing."""
        q, k = (torch.randn(2, 3, tokens, 4, dtype=torch.float64, requires_grad=True) for tokens in (6, 7))
        keep, bias, upstream = torch.rand(2, 1, 6, 7) < 0.5, torch.randn(3, 6, 7, dtype=torch.float64), torch.randn(2, 3, 6, 7)
        keep[1, 0, 2] = False
        bias[1, 4], bias[2, 5, 3] = -torch.inf, -torch.inf
        for options in ({}, {"keep": keep}, {"bias": bias[None]}, {"causal": True}, {"keep": keep, "bias": bias[None], "causal": True}):
            expected = polyhead.attention(q, k, k, weights=True, align="top_left", **options).weights
            found = weights_of(q, k, **options)
            torch.testing.assert_close(found, expected, atol=1e-14, rtol=1e-12)
            for one, other in zip(*(torch.autograd.grad((x * upstream).sum(), (q, k)) for x in (found, expected))):
                torch.testing.assert_close(one, other, atol=1e-13, rtol=1e-11)

    def test_dropout_follows_torchs_seed(self):
        module = ours.MultiheadAttention(16, 4, dropout=0.5, batch_first=True)
        x = torch.randn(2, 9, 16)
        found = []
        for seed in (3, 3, 4):
            torch.manual_seed(seed)
            found.append(module(x, x, x)[0])
        self.assertTrue(torch.equal(found[0], found[1]))
        self.assertFalse(torch.equal(found[0], found[2]))
        module.eval()
        self.assertTrue(torch.equal(module(x, x, x)[0], module(x, x, x)[0]))

    def test_it_is_a_module_like_torchs(self):
        module = ours.MultiheadAttention(8, 2, batch_first=True)
        x = torch.randn(1, 4, 8)
        expected = module(x, x, x)[0]
        for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            torch.testing.assert_close(other(x, x, x)[0], expected)
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        theirs = nn.MultiheadAttention(8, 2, batch_first=True)
        theirs.load_state_dict(torch.load(file))
        torch.testing.assert_close(theirs(x, x, x)[0], expected)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)
        before = layer.train()(x)
        layer.self_attn = ours.MultiheadAttention(8, 2, batch_first=True)
        self.assertEqual(layer(x).shape, before.shape)

    def test_errors_are_torchs(self):
        module, theirs = ours.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2)
        x = torch.randn(3, 1, 8)
        for arguments, options in (
            ((x[None], x, x), {}),
            ((x, x[0], x), {}),
            ((x, x, x[:2]), {}),
            ((torch.randn(3, 1, 9), x, x), {}),
            ((x, x, x), {"attn_mask": torch.zeros(2, 3)}),
            ((x, x, x), {"attn_mask": torch.ones(2, 2, dtype=torch.bool).triu(1)}),
            ((x, x, x), {"attn_mask": torch.zeros(3, 3, 3)}),
            ((x, x, x), {"key_padding_mask": torch.zeros(3, 1, 1, dtype=torch.bool)}),
            ((x, x, x), {"key_padding_mask": torch.zeros(2, 3, dtype=torch.bool)}),
            ((x, x, x), {"attn_mask": torch.ones(3, 3, dtype=torch.int64)}),
            ((x, x, x), {"attn_mask": torch.ones(3, 3, dtype=torch.uint8)}),
            ((x, x, x), {"key_padding_mask": torch.zeros(1, 3, dtype=torch.int64)}),
            ((x, x, x), {"is_causal": True}),
        ):
            kinds = []
            for either in (module, theirs):
                with self.assertRaises(Exception, msg=f"{type(either)} {[tuple(x.shape) for x in arguments]} {options}") as raised:
                    either(*arguments, **options)
                kinds.append(type(raised.exception))
            self.assertEqual(*kinds, options.keys())

    def test_autocast(self):
        module = ours.MultiheadAttention(16, 4, batch_first=True)
        x = torch.randn(2, 9, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output, _ = module(x, x, x)
            output.float().sum().backward()
        self.assertEqual(output.dtype, torch.bfloat16)
        self.assertEqual(module.in_proj_weight.grad.dtype, torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            ours.MultiheadAttention(16, 4, add_bias_kv=True, add_zero_attn=True)(x, x, x)
            q = torch.randn(1, 2, 4, 8)
            self.assertEqual(ours.scaled_dot_product_attention(q, q.bfloat16(), q).dtype, torch.bfloat16)


class Documents(Seeded):
    def test_what_they_show_runs(self):
        shown = {}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for block in blocks_of("python-replace-attention.md"):
                exec(block, shown)
        self.assertEqual(len(printed.getvalue().splitlines()), 5)  # a line for each head
        self.assertIs(type(shown["model"].layers[1].self_attn), ours.MultiheadAttention)
        self.assertEqual(shown["statistics"].entropy.shape, (4,))
        self.assertTrue(shown["gates"].grad.any())


def load_tests(_, tests, __):
    tests.addTests(doctest.DocTestSuite(ours))
    return tests


if __name__ == "__main__":
    torch.set_num_threads(2)
    unittest.main()
