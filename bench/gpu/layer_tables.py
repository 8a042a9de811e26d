"""The tables of bench/gpu/run.py for the layer and for training steps."""
import ctypes
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from racing import close_in_norm, geomean, paired, race

sys.path += [str(pathlib.Path(__file__).resolve().parents[1])]  # bench: the GPT that training is compared by
import torch_gpt  # noqa: E402

LAYERS = ((128, 4, 32, 64), (512, 8, 1024, 16), (768, 12, 1024, 16), (2048, 16, 4096, 4), (4096, 32, 4096, 2))
GPT = (6, 384, 6, 256, 64)  # layers, width, heads, tokens, batch


class PackedLayer(torch.nn.Module):
    """One product for q, k and v, scaled_dot_product_attention by cuDNN, W_O."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_proj, self.out_proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.in_proj(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            heads = functional.scaled_dot_product_attention(q, k, v)
        return self.out_proj(heads.transpose(1, 2).reshape(batch, tokens, width))


def graphed(call):
    """The call as a CUDA graph, warmed up on a stream of its own as torch asks."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


class LayerCase:
    """A layer of ours and one of torch's with the same weights, forward or with its backward pass."""

    def __init__(self, library, width, heads, tokens, batch, training):
        self.library = library
        gpu = dict(device="cuda", dtype=torch.bfloat16)
        self.peer = PackedLayer(width, heads).to(**gpu)
        self.x, self.dy = (torch.randn(batch, tokens, width, **gpu) for _ in range(2))
        self.x.requires_grad_(training)
        self.leaves = [self.x, self.peer.in_proj.weight, self.peer.in_proj.bias, self.peer.out_proj.weight,
                       self.peer.out_proj.bias]
        self.results = [torch.full_like(t, float("nan")) for t in [self.dy] + self.leaves]
        numbers = [width, heads, tokens, batch, int(training)]
        numbers += [t.data_ptr() for t in self.leaves + [self.dy] + self.results]
        self.numbers = (ctypes.c_int64 * len(numbers))(*numbers)
        self.training = training
        torch.cuda.synchronize()  # our calls have a stream of their own

    def ours(self):
        self.library.call("layer", self.numbers)

    def ours_graphed(self):
        self.library.call("layer_capture", self.numbers, ctypes.c_int64(1))
        return lambda: self.library.call("replay")

    def torchs(self):
        if not self.training:
            with torch.no_grad():
                return [self.peer(self.x)]
        y = self.peer(self.x)
        return [y, *torch.autograd.grad(y, self.leaves, self.dy)]

    def check(self):
        self.ours()
        self.library.call("layer_results", self.numbers)
        self.library.wait()
        for found, wanted in zip(self.results, self.torchs()):
            close_in_norm(found, wanted, 0.02)


def layer(library, rounds):
    print("| layer | pass | ours µs | without a graph | torch, graph | torch, eager | median | R | beside eager |\n"
          "|---|---|--:|--:|--:|--:|--:|--:|--:|")
    bounds = []
    for width, heads, tokens, batch in LAYERS:
        for training in (False, True):
            case = LayerCase(library, width, heads, tokens, batch, training)
            case.check()
            calls = {"ours": (case.ours_graphed(), library.wait), "ours eager": (case.ours, library.wait),
                     "graph": (graphed(case.torchs), torch.cuda.synchronize),
                     "eager": (case.torchs, torch.cuda.synchronize)}
            flops = batch * tokens * (8 * width + 4 * tokens) * width * (3 if training else 1)
            times = race(calls, max(flops, 20e-6 * 500e12), rounds)
            median, bound = paired(times["graph"], times["ours"])
            bounds.append(bound)
            us = {name: statistics.median(taken) * 1e6 for name, taken in times.items()}
            print(f"| ({width},{heads},{tokens},{batch}) | {'forward and backward' if training else 'forward'} | {us['ours']:.1f} "
                  f"| {us['ours eager']:.1f} | {us['graph']:.1f} | {us['eager']:.1f} | {median:.2f} | {bound:.2f} "
                  f"| {paired(times['eager'], times['ours'])[1]:.2f} |", flush=True)
            del case, calls
            torch.cuda.empty_cache()
    print(f"\nlayer (width, heads, T, B): geomean of the lower bounds {geomean(bounds):.3f}, worst {min(bounds):.2f}\n")


class TorchTraining(torch_gpt.TrainingRun):
    """Steps on the GPU, by the precision of products that is set, or under autocast."""

    def __init__(self, precision):
        super().__init__(GPT)
        self.precision = precision
        self.model.cuda()
        self.batches = [tuple(t.cuda() for t in batch) for batch in self.batches]

    def __call__(self):
        torch.set_float32_matmul_precision("medium" if self.precision == "medium" else "highest")
        with torch.autocast("cuda", torch.bfloat16, enabled=self.precision == "autocast bf16"):
            return super().__call__()


def training(library, rounds):
    """Milliseconds of a step, loss read every time as both programs print it."""
    loss = ctypes.c_double()
    ours = {"f32": 0, "tf32": 1, "bf16": 2}
    print("| products | ours ms | torch eager ms | torch's products | median | R | first loss, tenth |\n|---|--:|--:|---|--:|--:|---|")

    def our_step():
        library.call("training_step", ctypes.byref(loss))
        return loss.value

    # Beside the same precision, and beside torch as it comes.
    for products, names in (("f32", ["highest"]), ("tf32", ["medium"]), ("bf16", ["medium", "autocast bf16"]), ("bf16", ["highest"])):
        library.call("training", (ctypes.c_int64 * 5)(*GPT), ctypes.c_int64(ours[products]))
        torchs = {name: TorchTraining(name) for name in names}
        losses = [our_step() for _ in range(10)]
        for name, run in torchs.items():
            theirs = run.losses(10)
            if not all(abs(a - b) < 0.03 for a, b in zip(losses, theirs)):
                raise RuntimeError(f"losses differ: {losses} {theirs}")
        calls = {"ours": (our_step, library.wait)}
        calls |= {name: (lambda run=run: run().item(), torch.cuda.synchronize) for name, run in torchs.items()}
        times = race(calls, 3e-3 * 500e12, rounds)
        best = min(names, key=lambda name: statistics.median(times[name]))
        median, bound = paired(times[best], times["ours"])
        print(f"| {products} | {statistics.median(times['ours']) * 1e3:.2f} | {statistics.median(times[best]) * 1e3:.2f} | {best} "
              f"| {median:.2f} | {bound:.2f} | {losses[0]:.4f}, {losses[9]:.4f} |", flush=True)
    torch.set_float32_matmul_precision("highest")
    library.call("training_end")
    print(f"\nA GPT of (layers, width, heads, T, B) = {GPT}, AdamW after clipping, the loss read at every step.\n")
