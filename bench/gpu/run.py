#!/usr/bin/env python3
"""Attention on the GPU: checked against the reference (polyhead_gpu_check, every case of the catalogue), then timed beside
torch's backends, which take turns with libpolyhead_gpu_calls.so on the same tensors. Prints the tables of
docs/performance-gpu.md. FOLDER is where CMake built.

    bench/gpu/run.py build/release [--rounds 15] [--only check,forward,backward,layer,training,decode,statistics,materialised,options,portable,f32]
"""
import argparse
import ctypes
import datetime
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from layer_tables import layer, training
from racing import close_in_norm, geomean, paired, race

FIELDS = """q k v output lse statistics batch heads kv_heads queries keys head_dim dtype causal left statistics_set
dropout_percent softcap key_lengths cu sequences gates alibi sink_logit keep bias
doutput dq dk dv dgates""".split()
DTYPES = [torch.bfloat16, torch.float16, torch.float32]
LIGHT, FULL = 14, 25  # fields of a head's statistics
TOKENS, WIDTH = 16384, 2048  # B * S and H * D of every cell
CUDNN, FLASH, EFFICIENT = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def call(self, name, *arguments):
        function = getattr(self.library, f"polyhead_gpu_{name}")
        function.restype = ctypes.c_char_p
        said = function(*arguments)
        if said:
            raise RuntimeError(said.decode())

    def attend(self, *tensors, **options):
        self.call("attend", self.numbers(*tensors, **options))

    def attend_backward(self, *tensors, **options):
        self.call("attend_backward", self.numbers(*tensors, **options))

    def captured(self, count, *tensors, **options):
        """A call of `count` calls in one graph; there is one such graph at a time."""
        self.call("capture", self.numbers(*tensors, **options), ctypes.c_int64(count))
        return lambda: self.call("replay")

    @staticmethod
    def numbers(q, k, v, output, **options):
        batch, heads, queries, head_dim = q.shape
        values = dict.fromkeys(FIELDS, 0) | {"left": -1}
        values |= dict(q=q, k=k, v=v, output=output, batch=batch, heads=heads, kv_heads=k.shape[1], queries=queries,
                       keys=k.shape[2], head_dim=head_dim, dtype=DTYPES.index(q.dtype)) | options
        numbers = [x.data_ptr() if torch.is_tensor(x) else int(x) for x in (values[name] for name in FIELDS)]
        return (ctypes.c_int64 * len(FIELDS))(*numbers)

    def wait(self):
        self.call("wait")


def peer(backend, q, k, v, causal):
    def call():
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    return call, torch.cuda.synchronize


def graph_of(peer, count):
    """A call of `count` calls in one CUDA graph."""
    call, wait = peer
    call()
    wait()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph.replay, wait


def tensors(batch, heads, length, head_dim, kv_heads=None, dtype=torch.bfloat16):
    make = lambda h: torch.randn(batch, h, length, head_dim, device="cuda", dtype=dtype)
    q, k, v = make(heads), make(kv_heads or heads), make(kv_heads or heads)
    output = torch.full_like(q, math.nan)
    torch.cuda.synchronize()  # our calls have a stream of their own
    return q, k, v, output


def close(found, wanted):
    error = (found.float() - wanted.float()).abs().max().item()
    if not error < 0.03:
        raise RuntimeError(f"results differ by {error}")


def forward(library, rounds):
    print("| D | mask | S | ours TFLOP/s | cuDNN | FlashAttention-2 | median | R |\n|--:|---|--:|--:|--:|--:|--:|--:|")
    bounds, medians = [], []
    for head_dim in (64, 128, 256):
        for causal in (False, True):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                found = forward_cell(library, rounds, head_dim, causal, length, {"cudnn": CUDNN, "flash": FLASH})
                medians.append(found["median"])
                bounds.append(found["bound"])
                rate = found["rate"]
                print(f"| {head_dim} | {'causal' if causal else 'none'} | {length} | {rate['ours']:.0f} | {rate['cudnn']:.0f} "
                      f"| {rate['flash']:.0f} | {medians[-1]:.2f} | {bounds[-1]:.2f} |", flush=True)
    print(f"\nforward: geomean of the medians {geomean(medians):.3f}, of the lower bounds {geomean(bounds):.3f}; "
          f"worst {min(medians):.2f}, {min(bounds):.2f}\n")


def forward_cell(library, rounds, head_dim, causal, length, peers, dtype=torch.bfloat16):
    """Our forward pass beside torch's by the peers, {name: backend}."""
    q, k, v, output = tensors(TOKENS // length, WIDTH // head_dim, length, head_dim, dtype=dtype)
    flops = 4 * TOKENS * length * WIDTH / (2 if causal else 1)
    calls = {"ours": (lambda: library.attend(q, k, v, output, causal=causal), library.wait)}
    calls |= {name: peer(backend, q, k, v, causal) for name, backend in peers.items()}
    calls["ours"][0]()
    library.wait()
    close(output, calls[next(iter(peers))][0]())
    return compared(race(calls, flops, rounds), peers, flops)


def compared(times, peers, flops):
    """Rates of all, and how ours compares with the best of the peers."""
    best = min(peers, key=lambda name: statistics.median(times[name]))
    median, bound = paired(times[best], times["ours"])
    return {"median": median, "bound": bound,
            "rate": {name: flops / statistics.median(taken) / 1e12 for name, taken in times.items()}}


def backward(library, rounds):
    long_rows = long_backward(library)  # first, while nothing is kept from other calls
    print("| D | mask | S | ours TFLOP/s | cuDNN | FlashAttention-2 | median | R | with gates |\n"
          "|--:|---|--:|--:|--:|--:|--:|--:|--:|")
    bounds, medians, gated = {}, {}, []
    for head_dim in (64, 128, 256):
        for causal in (False, True):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                found = backward_cell(library, rounds, head_dim, causal, length, {"cudnn": CUDNN, "flash": FLASH})
                medians.setdefault(head_dim, []).append(found["median"])
                bounds.setdefault(head_dim, []).append(found["bound"])
                gated.append(found["gates"])
                rate = found["rate"]
                print(f"| {head_dim} | {'causal' if causal else 'none'} | {length} | {rate['ours']:.0f} | {rate['cudnn']:.0f} "
                      f"| {rate['flash']:.0f} | {found['median']:.2f} | {found['bound']:.2f} | {gated[-1]:.2f} |", flush=True)
    every = lambda by_width: [x for values in by_width.values() for x in values]
    print(f"\nbackward: geomean of the medians {geomean(every(medians)):.3f}, of the lower bounds {geomean(every(bounds)):.3f}; "
          f"worst {min(every(medians)):.2f}, {min(every(bounds)):.2f}; by head dim "
          + ", ".join(f"{width}: {geomean(values):.3f}" for width, values in medians.items())
          + f"; with the gradient of the gates {geomean(gated):.3f} times the time, worst {max(gated):.2f}\n")
    print(long_rows)


def long_backward(library):
    """Memory beside the tensors, and the same bits twice, at a length whose weights take 128 GiB."""
    length, heads, head_dim = 65536, 16, 128
    q, k, v, output = tensors(1, heads, length, head_dim)
    doutput, lse = torch.randn_like(q), torch.empty(1, heads, length, device="cuda")
    results = [[torch.full_like(q, math.nan) for _ in range(3)] for _ in range(2)]
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    library.attend(q, k, v, output, lse=lse)
    library.wait()
    start = time.perf_counter()
    for dq, dk, dv in results:
        library.attend_backward(q, k, v, output, lse=lse, doutput=doutput, dq=dq, dk=dk, dv=dv)
    library.wait()
    taken, used = (time.perf_counter() - start) / 2, free - torch.cuda.mem_get_info()[0]
    if not all(torch.equal(a.view(torch.int16), b.view(torch.int16)) for a, b in zip(*results)):
        raise RuntimeError("other bits the second time")
    return (f"One sequence of {length} tokens, {heads} heads of {head_dim}: {taken * 1e3:.0f} ms, the same bits twice, "
            f"{used / 2**20:.0f} MiB beside the {8 * q.numel() * 2 / 2**20:.0f} MiB of its inputs and outputs.\n")


def backward_cell(library, rounds, head_dim, causal, length, peers, dtype=torch.bfloat16):
    """Our backward pass from given output and lse, beside torch's from its own, by the peers, {name: backend}."""
    batch, heads = TOKENS // length, WIDTH // head_dim
    q, k, v, output = tensors(batch, heads, length, head_dim, dtype=dtype)
    doutput = torch.randn_like(q)
    lse = torch.empty(batch, heads, length, device="cuda")
    dq, dk, dv = (torch.full_like(q, math.nan) for _ in range(3))
    gates, dgates = torch.ones(batch, heads, device="cuda"), torch.empty(batch, heads, device="cuda")
    torch.cuda.synchronize()
    library.attend(q, k, v, output, causal=causal, lse=lse)
    call = lambda **extra: (lambda: library.attend_backward(q, k, v, output, causal=causal, lse=lse, doutput=doutput, dq=dq,
                                                            dk=dk, dv=dv, **extra), library.wait)
    calls = {"ours": call()}
    if dtype != torch.float32:  # whose gates have slower kernels
        calls["gates"] = call(gates=gates, dgates=dgates)
    ours = list(calls)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    for name, backend in peers.items():
        made = peer(backend, *leaves, causal)[0]()
        calls[name] = (lambda made=made: torch.autograd.grad(made, leaves, doutput, retain_graph=True), torch.cuda.synchronize)
    wanted = calls[next(iter(peers))][0]()
    for name in ours:
        for x in (dq, dk, dv):
            x.fill_(math.nan)
        torch.cuda.synchronize()
        calls[name][0]()
        library.wait()
        for x, y in zip((dq, dk, dv), wanted):
            close_in_norm(x, y, 0.01)
    flops = 10 * TOKENS * length * WIDTH / (2 if causal else 1)
    times = race(calls, flops, rounds)
    return compared(times, peers, flops) | {"gates": paired(times[ours[-1]], times["ours"])[0]}


def portable(library, rounds):
    """Heads of 128 by the kernels that every GPU runs, beside FlashAttention-2, which uses no more of Hopper than they do."""
    print("| mask | S | ours TFLOP/s | FlashAttention-2 | median | R | backward | FlashAttention-2 | median | R |\n"
          "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for causal in (False, True):
        for length in (1024, 4096, 16384):
            cells = []
            for cell in (forward_cell, backward_cell):
                found = cell(library, rounds, 128, causal, length, {"flash": FLASH})
                cells += [f"{found['rate']['ours']:.0f}", f"{found['rate']['flash']:.0f}", f"{found['median']:.2f}",
                          f"{found['bound']:.2f}"]
            print(f"| {'causal' if causal else 'none'} | {length} | {' | '.join(cells)} |", flush=True)
    print()


def f32(library, rounds):
    """f32 tensors, exactly and rounded to TF32, beside torch's memory-efficient attention with the same products."""
    print("| products | D | mask | S | ours TFLOP/s | torch | median | R | backward | torch | median | R |\n"
          "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    medians = {}
    for number, (products, matmul) in enumerate((("f32", "highest"), ("tf32", "medium"))):
        library.call("precision", ctypes.c_int64(number))
        torch.set_float32_matmul_precision(matmul)
        for head_dim, causal, length in ((64, True, 256), (64, True, 1024), (64, False, 4096), (128, True, 1024), (128, False, 4096)):
            cells = []
            for cell in (forward_cell, backward_cell):
                found = cell(library, rounds, head_dim, causal, length, {"torch": EFFICIENT}, torch.float32)
                medians.setdefault(products, []).append(found["median"])
                cells += [f"{found['rate']['ours']:.0f}", f"{found['rate']['torch']:.0f}", f"{found['median']:.2f}",
                          f"{found['bound']:.2f}"]
            print(f"| {products} | {head_dim} | {'causal' if causal else 'none'} | {length} | {' | '.join(cells)} |", flush=True)
    library.call("precision", ctypes.c_int64(0))
    torch.set_float32_matmul_precision("highest")
    print("\n" + "; ".join(f"{products}: geomean of the medians {geomean(found):.2f}" for products, found in medians.items()) + "\n")


def statistics_tax(library, rounds):
    print("| D | mask | S | light | full |\n|--:|---|--:|--:|--:|")
    for head_dim in (64, 128, 256):
        for causal in (False, True):
            for length in (1024, 4096, 16384):
                batch, heads = TOKENS // length, WIDTH // head_dim
                q, k, v, output = tensors(batch, heads, length, head_dim)
                light, full = (torch.empty(batch, heads, n, device="cuda") for n in (LIGHT, FULL))
                call = lambda **extra: (lambda: library.attend(q, k, v, output, causal=causal, **extra), library.wait)
                calls = {"plain": call(), "light": call(statistics=light, statistics_set=1)}
                calls["full"] = call(statistics=full, statistics_set=2)
                times = race(calls, 4 * TOKENS * length * WIDTH / (2 if causal else 1), rounds)
                ratio = {name: paired(times[name], times["plain"])[0] for name in calls}
                print(f"| {head_dim} | {'causal' if causal else 'none'} | {length} | {ratio['light']:.2f} "
                      f"| {ratio['full']:.2f} |", flush=True)
    print()


def materialised(library, rounds):
    """What a head's entropy costs with the weights in memory, and a sequence whose weights no memory holds."""
    heads, length, head_dim = 32, 16384, 128
    q, k, v, output = tensors(1, heads, length, head_dim)
    light = torch.zeros(1, heads, LIGHT, device="cuda")

    def entropies():
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)).float() / math.sqrt(head_dim), -1)
        return torch.special.entr(weights).sum(-1).mean(-1), torch.matmul(weights.to(q.dtype), v)

    calls = {"ours": (lambda: library.attend(q, k, v, output, statistics=light, statistics_set=1), library.wait),
             "materialised": (entropies, torch.cuda.synchronize)}
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    expected = entropies()[0][0]
    torch.cuda.synchronize()
    memory = (torch.cuda.max_memory_allocated() - before) / 2**30
    calls["ours"][0]()
    library.wait()
    off = (light[0, :, 1] / light[0, :, 0] - expected).abs().max().item()
    if not off < 0.01:
        raise RuntimeError(f"entropies differ by {off}")
    times = race(calls, 4 * heads * length * length * head_dim, min(rounds, 5))
    taken = {name: statistics.median(found) * 1e3 for name, found in times.items()}
    print(f"Entropy of 32 heads of 128 at S = {length}: light statistics {taken['ours']:.1f} ms, weights in memory "
          f"{taken['materialised']:.1f} ms and {memory:.1f} GiB: {taken['materialised'] / taken['ours']:.1f} times.")
    del q, k, v, output, calls, expected
    torch.cuda.empty_cache()
    length = 1 << 20
    q, k, v, output = tensors(1, 1, length, head_dim)
    light = torch.zeros(1, 1, LIGHT, device="cuda")
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    start = time.perf_counter()
    library.attend(q, k, v, output, causal=1, statistics=light, statistics_set=1)
    library.wait()
    taken, used = time.perf_counter() - start, (free - torch.cuda.mem_get_info()[0]) / 2**20
    row = torch.softmax((q[0, 0, -1:].float() @ k[0, 0].float().T) / math.sqrt(head_dim), -1) @ v[0, 0].float()
    close(output[0, 0, -1:], row)
    print(f"One causal head of 128 at S = {length}: {taken:.2f} s with light statistics, {used:.0f} MiB of memory besides.\n")


def options_tax(library, rounds):
    length, head_dim = 4096, 128
    batch, heads = TOKENS // length, WIDTH // head_dim
    q, k, v, output = tensors(batch, heads, length, head_dim)
    gpu = dict(device="cuda")
    number = lambda values: torch.tensor(values, dtype=torch.int32, **gpu)
    pack = lambda x: x.transpose(1, 2).reshape(1, batch * length, heads, head_dim).transpose(1, 2).contiguous()
    grouped = tensors(batch, heads, length, head_dim, kv_heads=4)
    half = [0.0, 1.0] * (heads // 2)
    window = 1024
    cases = {  # options, tensors, visible scores as a share of all
        "plain": ({}, (q, k, v), 1),
        "causal": (dict(causal=1), (q, k, v), 0.5 + 0.5 / length),
        "window 1024": (dict(causal=1, left=window), (q, k, v), (window + 1) / length * (1 - window / (2 * length))),
        "lengths": (dict(key_lengths=number([length, length // 2, length, length // 2])), (q, k, v), 0.75),
        "packed": (dict(cu=number([n * length for n in range(batch + 1)]), sequences=batch), tuple(map(pack, (q, k, v))), 1),
        "grouped heads": ({}, (q, grouped[1], grouped[2]), 1),
        "alibi": (dict(alibi=torch.rand(heads, **gpu)), (q, k, v), 1),
        "softcap": (dict(softcap=30), (q, k, v), 1),
        "sink_logit": (dict(sink_logit=torch.rand(heads, **gpu)), (q, k, v), 1),
        "keep": (dict(keep=torch.rand(length, length, **gpu) > 0.1), (q, k, v), 1),
        "bias": (dict(bias=torch.randn(length, length, dtype=torch.bfloat16, **gpu)), (q, k, v), 1),
        "dropout": (dict(dropout_percent=10), (q, k, v), 1),
        "half the gates 0": (dict(gates=torch.tensor(half, **gpu)), (q, k, v), 1),
    }
    calls, backward_calls = {}, {}
    for name, (options, (a, b, c), _) in cases.items():
        results = [torch.empty_like(x) for x in (a, a, b, c)]  # output, dq, dk, dv
        lse = torch.empty(*a.shape[:3], **gpu)
        torch.cuda.synchronize()
        library.attend(a, b, c, results[0], lse=lse, **options)
        calls[name] = (lambda a=a, b=b, c=c, o=torch.empty_like(a), options=options:
                       library.attend(a, b, c, o, **options), library.wait)
        backward_calls[name] = (lambda a=a, b=b, c=c, o=results, lse=lse, options=options: library.attend_backward(
            a, b, c, o[0], lse=lse, doutput=a, dq=o[1], dk=o[2], dv=o[3], **options), library.wait)
    times = race(calls, 4 * TOKENS * length * WIDTH, rounds)
    backward_times = race(backward_calls, 10 * TOKENS * length * WIDTH, min(rounds, 5))
    print("| option | us | rate per visible score, times the plain one | backward us | backward rate, likewise |\n|---|--:|--:|--:|--:|")
    for name, (_, _, share) in cases.items():
        cells = []
        for taken in (times, backward_times):
            cells += [f"{statistics.median(taken[name]) * 1e6:.0f}", f"{paired(taken['plain'], taken[name])[0] * share:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")
    print()


def decode(library, rounds):
    print("| B | S | ours us | TB/s | cuDNN us | FlashAttention-2 us | median | R |\n|--:|--:|--:|--:|--:|--:|--:|--:|")
    heads, kv_heads, head_dim, count = 32, 8, 128, 20
    bounds = []
    for batch, length in ((1, 4096), (1, 16384), (1, 65536), (8, 4096), (8, 16384), (64, 4096), (64, 16384)):
        make = lambda h, n: torch.randn(batch, h, n, head_dim, device="cuda", dtype=torch.bfloat16)
        q, k, v = make(heads, 1), make(kv_heads, length), make(kv_heads, length)
        output = torch.full_like(q, math.nan)
        torch.cuda.synchronize()
        flash = peer(FLASH, q, k, v, False)
        calls = {"ours": (library.captured(count, q, k, v, output), library.wait),
                 "cudnn": graph_of(peer(CUDNN, q, k, v, False), count),
                 "flash": graph_of(flash, count)}
        calls["ours"][0]()
        library.wait()
        close(output, flash[0]())
        size = 2 * batch * kv_heads * length * head_dim * 2
        times = race(calls, count * size / 4e12 * 500e12, rounds)
        best = min(("cudnn", "flash"), key=lambda name: statistics.median(times[name]))
        median, bound = paired(times[best], times["ours"])
        bounds.append(bound)
        taken = {name: statistics.median(found) / count for name, found in times.items()}
        print(f"| {batch} | {length} | {taken['ours'] * 1e6:.1f} | {size / taken['ours'] / 1e12:.2f} "
              f"| {taken['cudnn'] * 1e6:.1f} | {taken['flash'] * 1e6:.1f} | {median:.2f} | {bound:.2f} |", flush=True)
    print(f"\nOne query of 32 heads over 8 kv heads of 128; {count} calls in a CUDA graph. Worst R {min(bounds):.2f}.\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="check,forward,backward,layer,training,decode,statistics,materialised,options,portable,f32")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"cuDNN {torch.backends.cudnn.version()}, {datetime.date.today()}, {arguments.rounds} rounds, bf16, "
          f"B*S = {TOKENS}, H*D = {WIDTH}\n")
    chosen = arguments.only.split(",")
    if "check" in chosen:
        if subprocess.run([arguments.folder / "tests/cuda/polyhead_gpu_check"]).returncode != 0:
            sys.exit("the check failed: no timing of wrong results")
        chosen.remove("check")
    kernels = {"POLYHEAD_CUDA_KERNELS": "portable"}
    if "portable" in chosen and not kernels.items() <= os.environ.items():  # a process has kernels of one kind
        again = [sys.executable, __file__, arguments.folder, "--rounds", str(arguments.rounds), "--only", "portable"]
        subprocess.run(again, env=os.environ | kernels, check=True)
        chosen.remove("portable")
    library = Library(arguments.folder / "bench/libpolyhead_gpu_calls.so")
    tables = {"forward": forward, "backward": backward, "layer": layer, "training": training, "decode": decode,
              "statistics": statistics_tax, "materialised": materialised, "options": options_tax, "portable": portable, "f32": f32}
    for name in chosen:
        tables[name](library, arguments.rounds)


if __name__ == "__main__":
    main()
