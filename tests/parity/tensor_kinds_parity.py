"""Tensors of torch that are not just numbers in memory: each function computes what torch would, or refuses by name.

tensor_kinds_parity.py BUILD
"""

import os
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()
os.environ.setdefault("POLYHEAD_LIBRARY", str(BUILD / "capi/libpolyhead_c.so"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.attention.bias import causal_lower_right, causal_upper_left  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import polyhead  # noqa: E402
import polyhead.torch as ours  # noqa: E402

warnings.filterwarnings("ignore")
FUNCTIONS = {
    "scaled_dot_product_attention": lambda q, k, v: ours.scaled_dot_product_attention(q, k, v, is_causal=True),
    "attention": lambda q, k, v: polyhead.attention(q, k, v, causal=True, align="top_left"),
    "attention, plain": lambda q, k, v: polyhead.attention(q, k, v),
    "drop-in": lambda q, k, v: MODULE(q[0], k[0], v[0], need_weights=False)[0],
}
PEERS = {
    "scaled_dot_product_attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "attention, plain": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "drop-in": lambda q, k, v: torch.nn.MultiheadAttention.forward(MODULE, q[0], k[0], v[0], need_weights=False)[0],
}
MODULE = ours.MultiheadAttention(8, 2, batch_first=True).requires_grad_(False)


class Named(torch.Tensor):
    """Of a user who adds nothing to torch's functions."""


class Scaled(torch.Tensor):
    """Of a user whose functions read its numbers their own way."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = [x.as_subclass(torch.Tensor) * 2 if isinstance(x, cls) else x for x in args]
        return function(*plain, **(kwargs or {}))


class Noting(TorchDispatchMode):
    """Sees the ops that run."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class Kinds(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)
        self.q, self.k, self.v = torch.randn(3, 2, 2, 4, 8).unbind()

    def refuses(self, words, call, *given, **named):
        with self.assertRaisesRegex(polyhead.Error, words):
            call(*given, **named)

    def each(self):
        for name, function in FUNCTIONS.items():
            with self.subTest(name):
                yield function, PEERS[name]

    def test_causal_bias(self):
        for queries, keys in ((4, 4), (3, 5), (5, 3)):
            for corner in (causal_upper_left, causal_lower_right):
                q, k, v = torch.randn(1, 2, queries, 8), torch.randn(1, 2, keys, 8), torch.randn(1, 2, keys, 8)
                mask = corner(queries, keys)
                found = [ours.scaled_dot_product_attention(q, k, v, attn_mask=mask) for _ in range(3)]
                seen = torch.ones(queries, keys, dtype=torch.bool).tril(0 if corner is causal_upper_left else keys - queries)
                torch.testing.assert_close(found[0], ours.scaled_dot_product_attention(q, k, v, attn_mask=seen))
                if corner is causal_upper_left or keys >= queries:  # torch has NaN where a row sees nothing
                    torch.testing.assert_close(found[0], F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
                self.assertTrue(torch.equal(found[0], found[1]) and torch.equal(found[0], found[2]))
        q = self.q
        self.refuses("CausalBias of 4 queries and 4 keys, found one of 5 and 4", ours.scaled_dot_product_attention, q, q, q, causal_upper_left(5, 4))
        self.refuses("both", ours.scaled_dot_product_attention, q, q, q, causal_upper_left(4, 4), is_causal=True)
        for name in ("keep", "bias"):
            self.refuses(f"{name}: .* found CausalBias.*causal=True", polyhead.attention, q, q, q, **{name: causal_upper_left(4, 4)})
            self.refuses(f"{name}: .* found CausalBias", polyhead.statistics, q, q, **{name: causal_upper_left(4, 4)})
            self.refuses(f"{name}: .* found CausalBias", polyhead.explain, q, q, q, **{name: causal_upper_left(4, 4)})
            self.refuses(f"{name}: .* found CausalBias", polyhead.attention_backward, q, q, q, q, **{name: causal_upper_left(4, 4)})
        self.refuses("attn_mask: .* found CausalBias", MODULE, q[0], q[0], q[0], attn_mask=causal_upper_left(4, 4))

    def test_subclasses_of_users(self):
        for function, peer in self.each():
            found = function(self.q.as_subclass(Named), self.k.as_subclass(Named), self.v.as_subclass(Named))
            torch.testing.assert_close(found.as_subclass(torch.Tensor), peer(self.q, self.k, self.v))
            parameters = [torch.nn.Parameter(x) for x in (self.q, self.k, self.v)]
            torch.testing.assert_close(function(*parameters), peer(*parameters))
        for name in ("attention", "attention, plain"):
            self.refuses("k: expected a tensor whose numbers are its own, found Scaled", FUNCTIONS[name], self.q, self.k.as_subclass(Scaled), self.v)
        self.refuses("key: .* found Scaled", ours.scaled_dot_product_attention, self.q, self.k.as_subclass(Scaled), self.v)
        self.refuses("gates: .* found Scaled", polyhead.attention, self.q, self.k, self.v, gates=torch.ones(2).as_subclass(Scaled))
        self.refuses("value: .* found Scaled", MODULE, self.q[0], self.q[0], self.v[0].as_subclass(Scaled))
        self.refuses("doutput: .* found Scaled", polyhead.attention_backward, self.q, self.k, self.v, self.q.as_subclass(Scaled))
        self.refuses("q: .* found Scaled", polyhead.explain, self.q.as_subclass(Scaled), self.k, self.v)

    def test_nested_sparse_and_meta(self):
        rows = [torch.randn(2, 4, 8), torch.randn(2, 3, 8)]
        jagged = torch.nested.nested_tensor([x.transpose(0, 1) for x in rows], layout=torch.jagged).transpose(1, 2)
        for x, words in ((torch.nested.nested_tensor(rows), "nested"), (jagged, "nested"), (self.q.to_sparse(), "to_dense"),
                         (self.q.to("meta"), "meta")):
            for call in (lambda: ours.scaled_dot_product_attention(x, x, x), lambda: polyhead.attention(x, x, x),
                         lambda: polyhead.statistics(x, x), lambda: polyhead.explain(x, x, x), lambda: polyhead.attention_backward(x, x, x, x)):
                self.refuses(words, call)
        x = torch.nested.nested_tensor([torch.randn(4, 8), torch.randn(3, 8)])
        self.refuses("nested", MODULE, x, x, x)

    def test_parts_that_are_merged(self):
        q, k, v, wanted = self.q, self.k, self.v, dict(lse=True, statistics="light", row_statistics=True)
        parts = [polyhead.attention(q, k[:, :, n:n + 2], v[:, :, n:n + 2], first_position=-n, **wanted) for n in (0, 2)]
        expected = polyhead.merge_attention(parts)
        torch.testing.assert_close(expected.output, polyhead.attention(q, k, v))

        def with_output(x):
            return [parts[0], polyhead.Attention(x, parts[1].lse)]

        named = polyhead.merge_attention(with_output(parts[1].output.as_subclass(Named)))
        torch.testing.assert_close(named.output.as_subclass(torch.Tensor), expected.output)
        for x, words in ((parts[1].output.as_subclass(Scaled), "found Scaled"), (parts[1].output.to_sparse(), "to_dense"),
                         (parts[1].output.to("meta"), "meta"), (torch.nested.nested_tensor([*parts[1].output]), "nested"),
                         (FakeTensorMode().from_tensor(parts[1].output), "FakeTensor"), (parts[1].output.tolist(), "list"),
                         (parts[1].output.clone().requires_grad_(), "requires_grad")):
            self.refuses(r"(parts\[1\]|output).*" + words, polyhead.merge_attention, with_output(x))
        rows = polyhead.Attention(parts[1].output, parts[1].lse, row_statistics=polyhead.HeadStatistics(parts[1].row_statistics.sums.as_subclass(Scaled)))
        self.refuses(r"parts\[1\].row_statistics: .*Scaled", polyhead.merge_attention, [parts[0], rows])
        self.refuses("transform", torch.vmap(lambda x: polyhead.merge_attention(with_output(x)).output), parts[1].output[None])
        with Noting():
            self.refuses("under a mode", polyhead.merge_attention, parts)

    def test_vmap(self):
        many = torch.randn(3, 5, 2, 2, 4, 8).unbind()
        for function, peer in self.each():
            torch.testing.assert_close(torch.vmap(function)(*many), torch.stack([peer(*x) for x in zip(*many)]))
        self.refuses("transform", torch.vmap(lambda x: polyhead.explain(x, x, x) and x), many[0])
        self.refuses("transform", torch.vmap(lambda x: polyhead.attention_backward(x, x, x, x).dq), many[0])

    def test_derivatives_of_torch_func_and_forward_mode(self):
        for function, _ in self.each():
            alone = lambda x: function(x, self.k, self.v)  # noqa: E731,B023
            self.refuses("torch.autograd.grad", torch.func.grad(lambda x: alone(x).sum()), self.q)
            self.refuses("torch.autograd.grad", torch.vmap(torch.func.grad(lambda x: alone(x).sum())), self.q[None])
            self.refuses("tangent.*backward|torch.autograd.grad", torch.func.jvp, alone, (self.q,), (self.q,))
            with forward_ad.dual_level():
                self.refuses("tangent", alone, forward_ad.make_dual(self.q, self.q))
                alone(self.q)  # which has none

    def test_fake_tensors_modes_and_traces(self):
        for function, peer in self.each():
            with FakeTensorMode(allow_non_fake_inputs=True):
                q, k, v = torch.randn(3, 2, 2, 4, 8).unbind()
                self.assertEqual(function(q, k, v).shape, peer(self.q, self.k, self.v).shape)
            with Noting() as mode:
                found = function(self.q, self.k, self.v)
            self.assertIn("polyhead.attend.default", mode.names)
            torch.testing.assert_close(found, peer(self.q, self.k, self.v))
            others = self.q + 1, self.k - 1, self.v * 2  # what was recorded is the attention, not its numbers
            for record in (make_fx(function), None):
                made = record(self.q, self.k, self.v) if record else torch.jit.trace(function, (self.q, self.k, self.v))
                torch.testing.assert_close(made(*others), peer(*others))
        with Noting():
            self.refuses("under a mode", polyhead.attention_backward, self.q, self.k, self.v, self.q)
            self.refuses("expected none of heads", polyhead.attention, self.q, self.k, self.v, weights=True, heads=[0])

    def test_gradients_under_a_mode(self):
        for function, peer in self.each():
            found = []
            for one, mode in ((function, Noting()), (peer, Noting())):
                q = self.q.clone().requires_grad_()
                with mode:
                    one(q, self.k, self.v).square().sum().backward()
                found.append(q.grad)
            torch.testing.assert_close(*found)

    def test_torchscript_is_told_what_to_use(self):
        for what in (ours.scaled_dot_product_attention, MODULE, torch.nn.Sequential(MODULE)):
            self.refuses("torch.jit.script.*torch.compile", torch.jit.script, what)


@unittest.skipUnless(hasattr(torch.nn.attention, "activate_flash_attention_impl"), "torch has no such hook")
class Provider(unittest.TestCase):
    def test_torchs_own_attention_is_computed_here_when_asked(self):
        torch.manual_seed(5)
        for dtype, allowed in ((torch.float32, 2e-6), (torch.float64, 1e-14), (torch.bfloat16, 4e-2)):
            leaves = [x.to(dtype).requires_grad_() for x in torch.randn(3, 2, 4, 33, 16).unbind()]
            leaves[0] = leaves[0][:, :, :29].detach().requires_grad_()
            keep, bias = torch.rand(29, 33) < 0.8, torch.randn(2, 1, 29, 33, dtype=dtype)
            for mask, causal in ((None, False), (None, True), (keep, False), (bias, False)):
                found = []
                for who in ("torch", "polyhead", "torch"):
                    if who == "polyhead":
                        torch.nn.attention.activate_flash_attention_impl("polyhead")
                    output = F.scaled_dot_product_attention(*leaves, attn_mask=mask, is_causal=causal, scale=0.3)
                    found.append((output, *torch.autograd.grad(output.cos().sum(), leaves)))
                    if who == "polyhead":
                        torch.nn.attention.restore_flash_attention_impl()
                for theirs, mine, again in zip(*found):
                    self.assertTrue(torch.equal(theirs, again))
                    torch.testing.assert_close(mine, theirs, atol=allowed, rtol=allowed)
                output = ours.scaled_dot_product_attention(*leaves, attn_mask=mask, is_causal=causal, scale=0.3)
                directly = (output, *torch.autograd.grad(output.cos().sum(), leaves))
                for mine, here in zip(found[1], directly):  # to the bit, the gradients too: it was not torch
                    self.assertTrue(torch.equal(mine, here))
                if dtype == torch.float32:
                    self.assertFalse(torch.equal(found[0][0], found[1][0]))  # whose sums are of another order

    def test_under_compile(self):
        torch.nn.attention.activate_flash_attention_impl("polyhead")
        try:
            q = torch.randn(2, 4, 33, 16, requires_grad=True)
            step = lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True).relu()  # noqa: E731
            found = [torch.autograd.grad(run(q).sum(), q)[0] for run in (step, torch.compile(step, fullgraph=True, backend="aot_eager"))]
            torch.testing.assert_close(*found)
        finally:
            torch.nn.attention.restore_flash_attention_impl()


class Distributed(unittest.TestCase):
    """Tensors that lie on several processes; here the mesh is of one."""

    def test_are_refused_by_name(self):
        import torch.distributed as distributed
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        try:
            mesh, x = init_device_mesh("cpu", (1,)), torch.randn(1, 2, 4, 8)
            for placement in (Replicate(), Shard(1)):
                spread = distribute_tensor(x, mesh, [placement])
                for name, function in FUNCTIONS.items():
                    with self.subTest(name), self.assertRaisesRegex(polyhead.UnsupportedError, "DTensor, which lies on several.*to_local"):
                        function(spread, spread, spread)
                with self.assertRaisesRegex(polyhead.UnsupportedError, "k: .*DTensor"):
                    polyhead.attention(x, spread, x)
                with self.assertRaisesRegex(polyhead.UnsupportedError, "doutput: .*DTensor"):
                    polyhead.attention_backward(x, x, x, spread)
                part = polyhead.attention(x, x, x, lse=True)
                with self.assertRaisesRegex(polyhead.UnsupportedError, r"parts\[1\].lse: .*DTensor"):
                    polyhead.merge_attention([part, polyhead.Attention(part.output, distribute_tensor(part.lse, mesh, [placement]))])
                torch.testing.assert_close(polyhead.attention(*[spread.to_local()] * 3), polyhead.attention(x, x, x))
        finally:
            distributed.destroy_process_group()


class MasksOnDevices(unittest.TestCase):
    """The mask that polyhead.transformers hands out goes where the model goes; "meta" stands for a GPU."""

    def setUp(self):
        from polyhead._mask import Mask

        self.mask = Mask((2, 1, 3, 5), torch.ones(2, 1, 1, 5, dtype=torch.bool), "cpu", causal=True, window=(2, None))

    def test_moves_with_all_it_has(self):
        moved = self.mask.to("meta", non_blocking=True)
        self.assertEqual((moved.device, moved.keep.device), (torch.device("meta"),) * 2)
        self.assertEqual((moved.causal, moved.window, moved.shape), (True, (2, None), self.mask.shape))
        self.assertEqual(moved.in_full().device, torch.device("meta"))
        self.assertEqual(moved[:, :, :, :4].device, torch.device("meta"))
        self.assertIs(type(self.mask.device), torch.device)

    def test_makes_no_numbers_of_itself(self):
        for other in (torch.float16, torch.int64):
            with self.assertRaisesRegex(polyhead.UnsupportedError, "makes numbers of"):
                self.mask.to(other)

    def test_elsewhere_than_the_query_is_refused(self):
        import polyhead.transformers

        q, k = torch.randn(2, 2, 3, 8), torch.randn(2, 2, 5, 8)
        module = torch.nn.Module()
        with self.assertRaisesRegex(polyhead.Error, "keep: .*meta"):
            polyhead.transformers._attention(module, q, k, k, self.mask.to("meta"))
        polyhead.transformers._attention(module, q, k, k, self.mask)


class OlderTorch(unittest.TestCase):
    """Whose tensors have no functions of DLPack's in C: they are read through Python."""

    def test_the_same_results(self):
        script = """
import hashlib, torch
if {older}:
    del torch.Tensor.__dlpack_c_exchange_api__
import polyhead, polyhead.torch
torch.manual_seed(1)
for dtype in (torch.float32, torch.bfloat16, torch.float64):
    for tokens in (5, 200):
        q, k, v = (torch.randn(2, tokens, 3, 8, dtype=dtype).transpose(1, 2).requires_grad_() for _ in range(3))
        bias = torch.randn(tokens, tokens, dtype=dtype, requires_grad=True)
        for options in ({{}}, {{"causal": True}}, {{"bias": bias[:, ::2].repeat_interleave(2, 1)[:, :tokens]}}, {{"gates": torch.ones(3)}}):
            output = polyhead.attention(q, k, v, **options)
            grads = torch.autograd.grad(output.float().square().sum(), (q, k, v))
            found = polyhead.attention(q, k, v, statistics="light", weights=True, **options)
            for x in (output, *grads, found.weights, found.statistics.sums):
                print(tuple(x.shape), x.stride(), hashlib.sha256(x.detach().double().contiguous().numpy().tobytes()).hexdigest())
"""
        runs = [subprocess.run([sys.executable, "-c", script.format(older=older)], capture_output=True, text=True, check=True, env={
            **os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "python")}).stdout for older in (False, True)]
        self.assertEqual(len(runs[0].splitlines()), 3 * 2 * 4 * 6)
        self.assertEqual(*runs)


if __name__ == "__main__":
    unittest.main()
