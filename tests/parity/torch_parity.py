"""polyhead.torch beside PyTorch: the drop-in for nn.MultiheadAttention and scaled_dot_product_attention.

torch_parity.py BUILD [COUNT]

Every combination that is drawn runs in polyhead's drop-in, in torch's module, and in torch's module in float64: output, weights
and all gradients. In float64 the two agree to 1e-12 of the largest value, every combination. In float32 the largest error of all
combinations against float64 may be twice torch's (three times for gradients), plus two units in the last place: single
combinations are small, and which of the two is luckier says nothing.
"""

import copy
import inspect
import io
import os
import pickle
import random
import re
import sys
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()
COUNT = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 2000
os.environ.setdefault("POLYHEAD_LIBRARY", str(BUILD / "capi/libpolyhead_c.so"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import polyhead  # noqa: E402
import polyhead.torch as ours  # noqa: E402


VALUES = ("output", "weights")


def largest(*tensors):
    return max((x.abs().max().item() for x in tensors if x is not None and x.numel()), default=0.0)


def allowed(reference, other, dtype):
    """How far off polyhead may be."""
    return 2 * largest(other.double() - reference) + 2 * torch.finfo(dtype).eps * largest(reference)


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

    def modules(self):
        reference = nn.MultiheadAttention(**self.made, dtype=torch.float64)
        with torch.no_grad():
            for parameter in reference.parameters():
                parameter.normal_(0, 0.5)
        found = []
        for kind, dtype in ((nn.MultiheadAttention, torch.float64), (nn.MultiheadAttention, self.dtype), (ours.MultiheadAttention, self.dtype)):
            module = kind(**self.made, dtype=dtype)
            module.load_state_dict(reference.state_dict())
            found.append(module)
        return found

    def run(self, module, dtype):
        """Output, weights and the gradients of inputs and parameters."""
        inputs = [x.to(dtype).requires_grad_() for x in self.inputs]
        filled = inputs + [inputs[-1]] * (3 - len(inputs))
        call = {name: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for name, x in self.call.items()}
        output, weights = module(*filled, **call)
        upstream = torch.Generator().manual_seed(1)
        from_above = lambda x: torch.randn(x.shape, generator=upstream, dtype=torch.float64).to(dtype)  # noqa: E731
        loss = (output * from_above(output)).sum()
        if weights is not None and self.weights_count:
            loss = loss + (weights * from_above(weights)).sum()
        gradients = torch.autograd.grad(loss, [*inputs, *module.parameters()], allow_unused=True)
        names = [f"input {n}" for n in range(len(inputs))] + [name for name, _ in module.named_parameters()]
        found = {"output": output.detach(), **dict(zip(names, gradients))}
        if weights is not None:
            found["weights"] = weights.detach()
        return found


class Seeded(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)


class DropIn(Seeded):
    def test_drawn_combinations(self):
        errors = {}  # in float32, by what they are of: (ours, torch's), in units in the last place of the largest value
        for seed in range(COUNT):
            case = Case(seed)
            reference, theirs, mine = (case.run(m, d) for m, d in zip(case.modules(), (torch.float64, case.dtype, case.dtype)))
            steep = largest(*(x for name, x in reference.items() if name not in VALUES))
            for name, expected in reference.items():
                where = f"seed {seed}: {name}, {case.made}, {list(case.call)}"
                if expected is None:
                    self.assertTrue(mine[name] is None or not mine[name].any(), where)
                    continue
                self.assertEqual((mine[name].shape, mine[name].dtype), (expected.shape, case.dtype), where)
                # A gradient may be a small difference of large terms, which round by their own size.
                scale = largest(expected) if name in VALUES else steep
                found = [largest(x[name].double() - expected) for x in (mine, theirs)]
                if case.dtype == torch.float64:
                    self.assertLessEqual(found[0], 1e-12 * max(scale, 1.0), where)
                elif scale > 0:
                    kind = name if name in VALUES else "gradients"
                    errors.setdefault(kind, []).append([error / scale / torch.finfo(torch.float32).eps for error in found])
        for kind, pairs in errors.items():
            ours_most, theirs_most = map(max, zip(*pairs))
            print(f"{COUNT} combinations, {kind}: off by {ours_most:.1f} units, torch by {theirs_most:.1f}")
            self.assertLessEqual(ours_most, (2 if kind in VALUES else 3) * theirs_most + 2, kind)

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
        page = (Path(__file__).resolve().parents[2] / "docs/python.md").read_text()
        shown = {}
        exec(re.search(r"```python\n(import torch, .*?)```", page, re.DOTALL)[1], shown)
        self.assertEqual(shown["output"].shape, (2, 64, 512))
        self.assertEqual(shown["statistics"].entropy.shape, (8,))


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
        module = ours.MultiheadAttention(8, 2, batch_first=True)
        x = torch.randn(2, 5, 8)
        torch.testing.assert_close(torch.compile(module, backend="aot_eager")(x, x, x)[0], module(x, x, x)[0])

    def test_masks_changed_in_place_are_noticed(self):
        q, keep = torch.randn(1, 2, 4, 8, requires_grad=True), torch.ones(4, 4, dtype=torch.bool)
        output = polyhead.attention(q, q, q, keep=keep)
        keep.zero_()
        with self.assertRaisesRegex(RuntimeError, "in place"):
            output.sum().backward()

    def test_the_ops_are_sound(self):
        q = torch.randn(1, 2, 4, 8, requires_grad=True)
        keep, gates = torch.rand(1, 1, 4, 4) < 0.9, torch.ones(2, requires_grad=True)
        arguments = (q, q, q, keep, *[None] * 8, gates, None, None, 0.0, "top_left", None, True, [2, 9, 0], 0.0, 0, True, "light")
        torch.library.opcheck(torch.ops.polyhead.attend.default, arguments)

    def test_bad_input_is_named(self):
        q = torch.randn(1, 2, 4, 8)
        for words, call in (
            ("both", lambda: ours.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(4, 4, dtype=torch.bool), is_causal=True)),
            ("enable_gqa", lambda: ours.scaled_dot_product_attention(q, q[:, :1], q[:, :1])),
            ("sparse", lambda: polyhead.attention(q.to_sparse(), q, q)),
            ("complex64", lambda: polyhead.attention(q.to(torch.complex64), q, q)),
            ("k: expected an array", lambda: polyhead.attention(q, [1], q)),
            ("q: expected a tensor on the CPU or on a GPU of CUDA, found one on meta", lambda: polyhead.attention(*[q.to("meta")] * 3)),
            ("alibi: expected slopes", lambda: polyhead.attention(q, q, q, alibi=torch.ones(2, requires_grad=True))),
            ("k: expected an array", lambda: polyhead.attention(q, q.numpy(), q)),
            ("bias: expected an array", lambda: polyhead.attention(q, q, q, bias=q.numpy()[..., :4])),
            ("out: expected None", lambda: polyhead.attention(q.clone().requires_grad_(), q, q, out=torch.empty_like(q))),
        ):
            with self.subTest(words), self.assertRaisesRegex(polyhead.Error, words):
                call()


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
    def test_they_never_crash(self):
        """What they raise is ours, or for wrong types Python's; and it names what is wrong."""
        draw, x = random.Random(5), torch.randn(1, 2, 4, 8)
        tensors = [None, 3, "q", x, x.double(), x.bfloat16(), x.int(), x[0], x[..., ::2], x.transpose(2, 3), x[:, :, :0], x.to("meta"),
                   x.to_sparse(), x.clone().requires_grad_(), x.numpy(), x.expand(3, 2, 4, 8), torch.ones(2), torch.ones(1, 2),
                   torch.tensor([3]), torch.tensor([0, 2, 4], dtype=torch.int32), torch.ones(4, 4, dtype=torch.bool),
                   torch.full((4, 4), torch.nan), torch.tensor(2.0), x.to(torch.complex64), torch.ones((1,) * 7), nn.Parameter(torch.ones(2))]
        numbers = [0, 1, -1, 0.5, float("nan"), 2**70, None, "x", True]
        names = list(inspect.signature(polyhead.attention).parameters)[3:]
        for _ in range(4000):
            options = {name: draw.choice(draw.choice((tensors, numbers))) for name in draw.sample(names, draw.randrange(4))}
            arrays = [draw.choice(tensors) if draw.random() < 0.2 else x for _ in range(3)]
            try:
                found = polyhead.attention(*arrays, **options)
                output = found if isinstance(found, torch.Tensor) else getattr(found, "output", None)
                if isinstance(output, torch.Tensor) and output.requires_grad:
                    output.sum().backward()
            except polyhead.Error as error:
                self.assertNotIsInstance(error, polyhead.InternalError)
                given = "|".join(["q", "k", "v", *options])
                self.assertTrue(re.search(rf"\b({given})\b", str(error)), f"{error}: {list(options)}")


if __name__ == "__main__":
    torch.set_num_threads(2)
    unittest.main()
