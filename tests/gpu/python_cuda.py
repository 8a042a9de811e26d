"""polyhead from Python on CUDA tensors, on a machine with a GPU: checks, then times beside PyTorch's attention.

    cmake --build --preset release --target polyhead_native
    PYTHONPATH=python POLYHEAD_LIBRARY=build/release/capi/libpolyhead_c.so python3 tests/gpu/python_cuda.py

It needs torch with CUDA. The library must have been built where there is nvcc; the machine with the GPU needs neither nvcc nor
anything else of the build. tests/gpu/run.py runs the checks with all other tests of a GPU. `--no-times` checks only; other arguments are parts of names of checks to run.

The rule is the contract's: against torch in float64, polyhead may be off by twice as much as torch is in the same type (three times
for gradients), plus two units in the last place of the largest value.
"""

import copy
import itertools
import platform
import subprocess
import sys
import time
import traceback
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import polyhead
import polyhead.torch as ours

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def largest(x):
    return x.abs().max().item() if x.numel() else 0.0


def judge(what, found, theirs, reference, times=2):
    """Throws unless `found` is about as close to the reference in float64 as `theirs`, of the same type, is."""
    assert found.shape == reference.shape and found.dtype == theirs.dtype, \
        f"{what}: expected {theirs.dtype} {tuple(reference.shape)}, found {found.dtype} {tuple(found.shape)}"
    assert found.is_cuda, f"{what}: expected a result on the GPU, found {found.device}"
    error, yardstick = (largest(x.double() - reference) for x in (found, theirs))
    allowed = times * yardstick + 2 * torch.finfo(found.dtype).eps * largest(reference)
    assert error <= allowed, f"{what}: off by {error:.3g}, allowed {allowed:.3g} (torch is off by {yardstick:.3g})"


def normal(seed, *shape, dtype=torch.float32):
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda").to(dtype)


def gradients(call, inputs, dtype):
    """The output of a call in that type, and the gradients of its inputs."""
    leaves = [x.to(dtype).requires_grad_() for x in inputs]
    output = call(*leaves)
    upstream = normal(99, *output.shape).to(torch.bfloat16).to(dtype)  # the same numbers in every type
    return output.detach(), torch.autograd.grad(output, leaves, upstream)


def compare(name, call, torchs, inputs, dtype):
    """Output and gradients of `call` beside those of `torchs`; `inputs` hold numbers of the narrow type."""
    inputs = [x.to(dtype) for x in inputs]
    wide = gradients(torchs, inputs, torch.float64)
    theirs = gradients(torchs, inputs, dtype)
    found = gradients(call, inputs, dtype)
    judge(f"{name}: output", found[0], theirs[0], wide[0])
    for n, (mine, other, reference) in enumerate(zip(found[1], theirs[1], wide[1])):
        judge(f"{name}: gradient {n}", mine, other, reference, 3)


# ---- scaled_dot_product_attention beside torch's ----

SHAPES = (  # B, H, G, T, S, D
    (2, 4, 4, 128, 128, 64),
    (1, 8, 2, 333, 333, 128),
    (2, 3, 3, 1, 700, 64),
    (1, 2, 2, 65, 130, 40),
    (1, 4, 4, 1024, 1024, 64),
)


@check
def sdpa_forward_and_backward():
    for dtype, (B, H, G, T, S, D), kind in itertools.product(
            (torch.bfloat16, torch.float16, torch.float32), SHAPES, ("plain", "causal", "keep", "bias")):
        if kind == "causal" and T != S:
            continue
        inputs = [normal(1, B, H, T, D), normal(2, B, G, S, D), normal(3, B, G, S, D)]
        call = {"is_causal": kind == "causal", "enable_gqa": G != H}
        if kind == "keep":
            call["attn_mask"] = normal(4, B, 1, T, S) > -0.5
            call["attn_mask"][..., 0] = True
        if kind == "bias":
            inputs.append(normal(5, 1, H, T, S))

        def run(attention, q, k, v, bias=None):
            return attention(q, k, v, **(call if bias is None else {**call, "attn_mask": bias}))

        compare(f"{dtype} {(B, H, G, T, S, D)} {kind}", lambda *x: run(ours.scaled_dot_product_attention, *x),
                lambda *x: run(F.scaled_dot_product_attention, *x), inputs, dtype)


@check
def tensors_that_lie_otherwise():
    """As views of one product of all heads: outputs and gradients lie as they do."""
    for dtype in (torch.bfloat16, torch.float32):
        def run(attention, packed):
            q, k, v = (x.transpose(1, 2) for x in packed.unbind(2))
            output = attention(q, k, v, is_causal=True)
            if attention is ours.scaled_dot_product_attention and packed.dtype == dtype:
                assert output.transpose(1, 2).is_contiguous(), output.stride()
                assert all(x.transpose(1, 2).is_contiguous() for x in torch.autograd.grad(output.sum(), (q, k, v), retain_graph=True))
            return output

        compare(f"views {dtype}", lambda x: run(ours.scaled_dot_product_attention, x), lambda x: run(F.scaled_dot_product_attention, x),
                [normal(1, 2, 150, 3, 4, 64)], dtype)


@check
def sdpa_with_gates():
    for dtype in (torch.bfloat16, torch.float32):
        inputs = [normal(n, 2, 4, 200, 64) for n in range(3)] + [torch.tensor([1, 0.5, 0, 2], device="cuda")]
        torchs = lambda q, k, v, gates: F.scaled_dot_product_attention(q, k, v, is_causal=True) * gates[:, None, None]  # noqa: E731
        mine = lambda q, k, v, gates: ours.scaled_dot_product_attention(q, k, v, is_causal=True, gates=gates)  # noqa: E731
        compare(f"gates {dtype}", mine, torchs, inputs, dtype)


# ---- attention with the options that torch has not, beside the formula ----


def formula(q, k, v, keep=None, bias=None, gates=None, sink_logit=None, softcap=0.0, alibi=None, window=None, causal=False):
    """Weights and output, as the paper has it, in the type of q."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None:
        s = s + bias
    apart = torch.arange(s.shape[2], device="cuda")[:, None] - torch.arange(s.shape[3], device="cuda")
    if alibi is not None:
        s = s - alibi.to(s.dtype)[:, None, None] * apart.abs()
    hidden = torch.zeros_like(apart, dtype=torch.bool)
    if causal:
        hidden = apart < 0
    if window is not None:
        hidden = hidden | (apart > window[0]) | (apart < -window[1])
    if keep is not None:
        hidden = hidden | ~keep
    s = s.masked_fill(hidden, -torch.inf)
    if sink_logit is not None:
        s = torch.cat([s, sink_logit.to(s.dtype)[None, :, None, None].expand(s.shape[0], -1, s.shape[2], 1)], -1)
    weights = torch.softmax(s, -1)[..., : apart.shape[1]]
    output = weights @ v
    return weights, output if gates is None else output * gates.to(q.dtype)[:, None, None]


@check
def attention_with_every_option():
    options = {
        "keep": lambda: {"keep": (normal(4, 2, 1, 150, 150) > -0.5) | torch.eye(150, dtype=torch.bool, device="cuda")},
        "softcap": lambda: {"softcap": 5.0},
        "alibi": lambda: {"alibi": torch.tensor([0.5, 0.25, 0.1, 0.01], device="cuda"), "causal": True},
        "window": lambda: {"window": (16, 4)},
        "causal window": lambda: {"window": (16, 0), "causal": True},
    }
    for dtype, (name, make) in itertools.product((torch.bfloat16, torch.float32), options.items()):
        chosen = make()
        inputs = [normal(n, 2, 4, 150, 64) for n in range(3)]
        compare(f"{name} {dtype}", lambda q, k, v: polyhead.attention(q, k, v, **chosen),
                lambda q, k, v: formula(q, k, v, **chosen)[1], inputs, dtype)
        extra = [normal(n, 2, 4, 150, 64) for n in range(3)] + [normal(6, 4)]
        compare(f"sink and {name} {dtype}", lambda q, k, v, sink: polyhead.attention(q, k, v, sink_logit=sink, **chosen),
                lambda q, k, v, sink: formula(q, k, v, sink_logit=sink, **chosen)[1], extra, dtype)


@check
def attention_of_lengths_and_packed_sequences():
    q = normal(1, 3, 2, 90, 64, dtype=torch.bfloat16)
    lengths = torch.tensor([90, 17, 0], device="cuda")
    found = polyhead.attention(q, q, q, key_lengths=lengths)
    keep = (torch.arange(90, device="cuda") < lengths[:, None])[:, None, None]
    for n in (0, 1):
        wide, narrow = (F.scaled_dot_product_attention(*[q[n : n + 1].to(t)] * 3, attn_mask=keep[n : n + 1])
                        for t in (torch.float64, q.dtype))
        judge(f"sequence {n}", found[n : n + 1], narrow, wide)
    assert not found[2].any(), "a sequence without keys gives 0"
    starts = torch.tensor([0, 40, 90], dtype=torch.int32, device="cuda")
    packed = polyhead.attention(q[:1], q[:1], q[:1], cu_q=starts, cu_k=starts)
    for first, last in ((0, 40), (40, 90)):
        part = q[:1, :, first:last]
        wide, narrow = (F.scaled_dot_product_attention(*[part.to(t)] * 3) for t in (torch.float64, q.dtype))
        judge(f"packed {first}", packed[:, :, first:last], narrow, wide)


@check
def weights_lse_and_their_gradients():
    for dtype in (torch.bfloat16, torch.float32):
        inputs = [normal(n, 2, 3, 70, 64) for n in range(3)]
        both = lambda weights, output: torch.cat([weights.flatten(2), output.flatten(2)], 2)  # noqa: E731

        def mine(q, k, v):
            found = polyhead.attention(q, k, v, causal=True, weights=True)
            return both(found.weights, found.output)

        compare(f"weights {dtype}", mine, lambda q, k, v: both(*formula(q, k, v, causal=True)), inputs, dtype)
    q = normal(1, 1, 2, 64, 64)
    wide, narrow = (torch.logsumexp(q.to(t) @ q.to(t).transpose(-1, -2) / 8, -1) for t in (torch.float64, torch.float32))
    judge("lse", polyhead.attention(q, q, q, lse=True).lse, narrow, wide)
    some = polyhead.attention(q, q, q, weights=True, heads=[1], rows=[3, 60]).weights
    assert torch.equal(some, polyhead.attention(q, q, q, weights=True).weights[:, 1:][:, :, [3, 60]])


@check
def statistics_of_heads():
    def total(terms):
        """One key after the other, as plain code sums."""
        found = torch.zeros_like(terms[..., 0])
        for key in range(terms.shape[-1]):
            found += terms[..., key]
        return found

    def of(weights):
        """Of every row: entropy, the largest weight, those of the first key and of its own, the distance."""
        logs = torch.where(weights > 0, weights, 1).log()
        apart = (torch.arange(weights.shape[2], device="cuda")[:, None] - torch.arange(weights.shape[3], device="cuda")).abs()
        return {"entropy": -total(weights * logs), "max_weight": weights.amax(-1), "first_weight": weights[..., 0],
                "self_weight": weights.diagonal(dim1=2, dim2=3), "distance": total(weights * apart)}

    for dtype, D, T in itertools.product((torch.bfloat16, torch.float32), (64, 128), (96, 700)):
        q, k = normal(1, 2, 4, T, D, dtype=dtype), normal(2, 2, 4, T, D, dtype=dtype)
        heads, rows = (polyhead.statistics(q, k, causal=True, full=True, rows=rows) for rows in (False, True))
        assert heads.sums.is_cuda and heads.sums.dtype == torch.float32
        wide, narrow = (of(formula(q.to(t), k.to(t), k.to(t), causal=True)[0]) for t in (torch.float64, torch.float32))
        for name, reference in wide.items():
            allowed = 2 * largest(narrow[name].double() - reference) + 2 * torch.finfo(torch.float32).eps * largest(reference)
            of_rows = torch.tensor(getattr(rows, name), device="cuda") - reference
            of_heads = torch.tensor(getattr(heads, name), device="cuda") - reference.mean((0, 2))
            for what, error in (("rows", largest(of_rows)), ("heads", largest(of_heads))):
                assert error <= allowed, f"{name} of {what}, {dtype}, D {D}, T {T}: off by {error:.3g}, allowed {allowed:.3g}"
    q = normal(1, 1, 2, 50, 64, dtype=torch.bfloat16)
    output, light = ours.scaled_dot_product_attention(q, q, q, statistics="light")
    assert torch.equal(output, ours.scaled_dot_product_attention(q, q, q)) and light.entropy.shape == (2,)
    assert len(str(light).splitlines()) == 3


# ---- The drop-in beside nn.MultiheadAttention ----


@check
def multihead_forward_and_backward():
    for dtype, batch_first, other_widths, need_weights in itertools.product(
            (torch.bfloat16, torch.float32), (True, False), (False, True), (False, True)):
        torch.manual_seed(0)
        made = dict(embed_dim=192, num_heads=3, batch_first=batch_first, add_bias_kv=other_widths, add_zero_attn=other_widths)
        if other_widths:
            made.update(kdim=64, vdim=80)
        reference = nn.MultiheadAttention(**made, device="cuda").to(dtype).double()
        query = normal(1, 2, 48, 192)
        inputs = [query, normal(2, 2, 60, 64), normal(3, 2, 60, 80)] if other_widths else [query]
        keys = inputs[-1].shape[1]
        drop = torch.rand(48, keys, device="cuda") < 0.3
        drop[:, 0] = False
        padding = torch.zeros(2, keys, dtype=torch.bool, device="cuda")
        padding[1, keys // 2 :] = True

        def run(kind, narrow):
            module = kind(**made, device="cuda", dtype=narrow)
            module.load_state_dict(reference.state_dict())
            leaves = [x.to(dtype).to(narrow).requires_grad_() for x in inputs]
            filled = leaves + [leaves[-1]] * (3 - len(leaves))
            filled = filled if batch_first else [x.transpose(0, 1) for x in filled]
            output, weights = module(*filled, attn_mask=drop, key_padding_mask=padding, need_weights=need_weights)
            loss = (output * normal(9, *output.shape).to(torch.bfloat16)).sum()
            if need_weights:
                loss = loss + (weights * normal(8, *weights.shape).to(torch.bfloat16)).sum()
            found = torch.autograd.grad(loss, [*leaves, *module.parameters()])
            return [output.detach()] + ([weights.detach()] if need_weights else []), found

        wide, theirs, mine = (run(*x) for x in ((nn.MultiheadAttention, torch.float64), (nn.MultiheadAttention, dtype),
                                               (ours.MultiheadAttention, dtype)))
        steep = max(largest(x) for x in wide[1])
        name = f"{dtype} batch_first={batch_first} other widths={other_widths}"
        for n, values in enumerate(zip(mine[0], theirs[0], wide[0])):
            judge(f"{name}: {('output', 'weights')[n]}", *values)
        for n, (found, other, expected) in enumerate(zip(mine[1], theirs[1], wide[1])):
            # A gradient may be a small difference of large terms, which round by their own size.
            error, yardstick = (largest(x.double() - expected) for x in (found, other))
            allowed = 3 * yardstick + 2 * torch.finfo(dtype).eps * steep
            assert error <= allowed, f"{name}: gradient {n} off by {error:.3g}, allowed {allowed:.3g}"


@check
def multihead_gates_statistics_and_autocast():
    torch.manual_seed(0)
    module = ours.MultiheadAttention(256, 4, batch_first=True, device="cuda")
    x = normal(1, 2, 100, 256)
    with torch.no_grad():
        whole, weights, statistics = module(x, x, x, average_attn_weights=False, statistics="light")
        entropy = -(weights * weights.log()).sum(-1).double().mean((0, 2)).cpu()
        assert largest(torch.tensor(statistics.entropy) - entropy) < 1e-4
        silent, _ = module(x, x, x, gates=torch.zeros(4, device="cuda"))
        torch.testing.assert_close(silent, module.out_proj.bias.expand_as(silent))
        assert torch.equal(module(x, x, x, gates=torch.ones(4, device="cuda"), need_weights=False)[0], module(x, x, x, need_weights=False)[0])
    gates = torch.ones(4, device="cuda", requires_grad=True)
    module(x, x, x, gates=gates, need_weights=False)[0].square().mean().backward()
    assert torch.isfinite(gates.grad).all() and gates.grad.any()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output, _ = module(x, x, x, need_weights=False)
        output.float().sum().backward()
    assert output.dtype == torch.bfloat16 and module.in_proj_weight.grad.dtype == torch.float32
    hidden = torch.ones(2, 100, dtype=torch.bool, device="cuda")
    output, _ = module(x, x, x, key_padding_mask=hidden)
    torch.testing.assert_close(output, module.out_proj.bias.expand_as(output))


@check
def training_goes_down_as_torchs_does():
    losses = []
    for kind in (nn.MultiheadAttention, ours.MultiheadAttention):
        torch.manual_seed(0)
        attention = kind(64, 4, batch_first=True, device="cuda")
        optimizer = torch.optim.AdamW(attention.parameters(), 1e-2)
        x = normal(1, 4, 64, 64)
        for _ in range(30):
            optimizer.zero_grad()
            loss = F.mse_loss(attention(x, x, x, need_weights=False)[0], x.roll(1, 1))
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert abs(losses[0] - losses[1]) < 1e-3 * losses[0], losses


@check
def masks_of_transformers():
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError:
        return print("    (transformers is not installed)")
    import polyhead.transformers

    config = LlamaConfig(vocab_size=64, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2)
    torch.manual_seed(0)
    sdpa, mine = (LlamaForCausalLM._from_config(copy.deepcopy(config), attn_implementation=name).cuda()
                  for name in ("sdpa", "polyhead"))  # a config of its own each: the name is kept in it
    mine.load_state_dict(sdpa.state_dict())
    tokens = torch.randint(64, (3, 20), device="cuda")
    for kept in (None, torch.arange(20, device="cuda") >= torch.tensor([[0], [5], [12]], device="cuda")):
        with torch.no_grad():
            theirs, wide, found = (model(tokens, attention_mask=None if kept is None else kept.long()).logits
                                   for model in (sdpa, copy.deepcopy(sdpa).double(), mine))
        there = slice(None) if kept is None else kept
        judge(f"padding {kept is not None}", found[there], theirs[there], wide[there])
    mask = polyhead.transformers._mask(3, 20, 20, attention_mask=kept, device=torch.device("cuda"))
    assert mask.device.type == mask.keep.device.type == mask.in_full().device.type == "cuda"
    assert mask.to("cpu").keep.device.type == "cpu"


# ---- Streams, graphs, torch.compile, others' tensors, errors ----


@check
def work_is_in_torchs_current_stream():
    expected = [x.clone() for x in gradients(lambda q: ours.scaled_dot_product_attention(q, q, q, is_causal=True),
                                             [normal(1, 2, 4, 512, 64)], torch.bfloat16)[1]]
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream(priority=-1)):
        with torch.cuda.stream(stream):
            busy = normal(2, 4096, 4096)
            for _ in range(20):
                busy = busy @ busy / 64  # what comes next must wait for it
            q = (normal(1, 2, 4, 512, 64).to(torch.bfloat16) + 0 * busy[0, 0].to(torch.bfloat16).nan_to_num(0, 0, 0)).requires_grad_()
            output = ours.scaled_dot_product_attention(q, q, q, is_causal=True)
            upstream = normal(99, *output.shape).to(torch.bfloat16)
            found = torch.autograd.grad(output, q, upstream)[0]
            same = (found == expected[0]).all()
        stream.synchronize()
        assert same.item(), "other bits in another stream"


@check
def calls_can_be_captured_in_a_graph():
    for training in (False, True):
        q = normal(1, 2, 4, 256, 64, dtype=torch.bfloat16).requires_grad_(training)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())

        def call():
            output = ours.scaled_dot_product_attention(q, q, q, is_causal=True)
            return (output.detach(), torch.autograd.grad(output.float().square().sum(), q)[0]) if training else (output,)

        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            captured = call()
        with torch.no_grad():
            q.copy_(normal(2, 2, 4, 256, 64))
        graph.replay()
        torch.cuda.synchronize()
        for replayed, called in zip(captured, call()):
            assert torch.equal(replayed, called), f"a replay has other bits, training={training}"


@check
def a_graph_without_a_call_before_says_what_to_do():
    subprocess.run([sys.executable, __file__, "--abandon-capture"], check=True)  # torch's generator does not recover from it


def abandon_capture():
    q = normal(1, 1, 2, 64, 64, dtype=torch.bfloat16)
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=torch.cuda.Stream()):
            polyhead.attention(q, q, q, statistics="full")
        raise AssertionError("memory was allocated during a capture")
    except (polyhead.DeviceError, RuntimeError) as error:
        while error is not None and not isinstance(error, polyhead.DeviceError):  # torch may complain of the broken capture
            error = error.__context__
        assert error is not None and "before it is captured" in str(error), repr(error)
    torch.cuda.synchronize()
    assert torch.isfinite(polyhead.attention(q, q, q)).all()


@check
def under_torch_compile():
    q = normal(1, 2, 4, 64, 64).requires_grad_()

    def run(q):
        return ours.scaled_dot_product_attention(q.sin(), q, q, is_causal=True).cos()

    expected = torch.autograd.grad(run(q).sum(), q)[0]
    found = torch.autograd.grad(torch.compile(run, backend="aot_eager", fullgraph=True)(q).sum(), q)[0]
    torch.testing.assert_close(found, expected)


@check
def tensors_of_others_by_dlpack():
    x = normal(1, 1, 2, 40, 64)

    class Other:
        shape = x.shape

        def __dlpack__(self, **options):
            return x.__dlpack__(**options)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    assert torch.equal(polyhead.attention(Other(), Other(), Other()), polyhead.attention(x, x, x))


@check
def what_is_wrong_is_named():
    q = normal(1, 2, 2, 8, 64)
    for error, words, call in (
        (polyhead.DeviceError, "k", lambda: polyhead.attention(q, q.cpu(), q)),
        (polyhead.DeviceError, "k", lambda: polyhead.attention(q.cpu(), q, q.cpu())),
        (polyhead.DeviceError, "gates", lambda: polyhead.attention(q, q, q, gates=torch.ones(2))),
        (polyhead.DeviceError, "attn_mask", lambda: ours.scaled_dot_product_attention(q, q, q, torch.ones(8, 8, dtype=torch.bool))),
        (polyhead.UnsupportedError, "f64", lambda: polyhead.attention(q.double(), q.double(), q.double())),
        (polyhead.ShapeError, "k", lambda: polyhead.attention(q, q[..., :8], q)),
    ):
        try:
            call()
        except error as found:
            assert words in str(found), found
        else:
            raise AssertionError(f"expected {error.__name__} about {words}")
    polyhead.synchronise()
    polyhead.attention(q, q, q, key_lengths=torch.tensor([8, 77], device="cuda"))
    try:
        polyhead.synchronise()
        raise AssertionError("a length of 77 among 8 keys was accepted")
    except polyhead.InvalidValueError as found:
        assert "key_lengths[1]" in str(found), found
    assert torch.isfinite(polyhead.attention(q, q, q)).all()
    print("   ", polyhead.explain(q.bfloat16(), q.bfloat16(), q.bfloat16(), causal=True))


# ---- Times ----


def timed(calls, rounds=15):
    """The median microseconds of each call on the GPU, taking turns."""
    found = [[] for _ in calls]
    for call in calls:
        for _ in range(3):
            call()
    for _ in range(rounds):
        for n, call in enumerate(calls):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            torch.cuda._sleep(2_000_000)  # so that launches are queued before the clock starts
            begin.record()
            for _ in range(5):
                call()
            end.record()
            end.synchronize()
            found[n].append(begin.elapsed_time(end) * 200)
    return [sorted(x)[len(x) // 2] for x in found]


def time_attention():
    print("attention, bf16, median us on the GPU: polyhead, torch, ratio (torch / polyhead)")
    for (B, H, T, D), causal in itertools.product(((8, 16, 1024, 64), (2, 16, 4096, 128), (1, 16, 16384, 128)), (False, True)):
        q, k, v = (normal(n, B, H, T, D, dtype=torch.bfloat16).requires_grad_() for n in range(3))
        upstream = normal(4, B, H, T, D, dtype=torch.bfloat16)
        for training in (False, True):
            def call(attention):
                def run():
                    with torch.set_grad_enabled(training):
                        output = attention(q, k, v, is_causal=causal)
                    if training:
                        torch.autograd.grad(output, (q, k, v), upstream)

                return run

            mine, theirs = timed([call(ours.scaled_dot_product_attention), call(F.scaled_dot_product_attention)])
            print(f"  {(B, H, T, D)} {'causal' if causal else 'full':6} {'forward+backward' if training else 'forward':16} "
                  f"{mine:9.1f} {theirs:9.1f} {theirs / mine:6.2f}")
        watched = timed([lambda: ours.scaled_dot_product_attention(q.detach(), k.detach(), v.detach(), is_causal=causal, statistics="light")])[0]
        print(f"  {(B, H, T, D)} {'causal' if causal else 'full':6} with statistics  {watched:9.1f}")


def time_layers():
    print("MultiheadAttention, bf16, forward and backward, median us on the GPU: polyhead, torch, ratio")
    for (B, T, C, H), need_weights in itertools.product(((8, 512, 512, 8), (4, 2048, 1024, 16)), (False, True)):
        x = normal(1, B, T, C, dtype=torch.bfloat16)

        def call(kind):
            module = kind(C, H, batch_first=True, device="cuda", dtype=torch.bfloat16)

            def run():
                output, weights = module(x, x, x, need_weights=need_weights)
                (output.sum() + (weights.sum() if need_weights else 0)).backward()

            return run

        mine, theirs = timed([call(ours.MultiheadAttention), call(nn.MultiheadAttention)])
        print(f"  {(B, T, C, H)} {'weights' if need_weights else 'output only':11} {mine:9.1f} {theirs:9.1f} {theirs / mine:6.2f}")


def time_calls():
    """By bench/calls.py, which says how."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
    import calls

    print("a call's time on the host\n" + calls.HEADER)
    print("\n".join(calls.rows_of_torch("cuda", calls.of_torch("cuda", 3))))


def main():
    if "--abandon-capture" in sys.argv:
        return abandon_capture()
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, torch {torch.__version__}, polyhead {polyhead.__version__}, "
          f"Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}")
    reason = polyhead.info()["no_cuda_reason"]
    if reason:
        sys.exit(f"no GPU for polyhead: {reason}")
    passed = failed = 0
    for function in CHECKS:
        if words and not any(word in function.__name__ for word in words):
            continue
        begin = time.perf_counter()
        try:
            function()
            torch.cuda.synchronize()
            passed += 1
            print(f"ok      {function.__name__} ({time.perf_counter() - begin:.1f} s)", flush=True)
        except Exception:  # the next check runs all the same
            failed += 1
            print(f"FAILED  {function.__name__}\n{traceback.format_exc()}", flush=True)
    if "--no-times" not in sys.argv:
        time_calls()
        time_attention()
        time_layers()
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
