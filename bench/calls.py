#!/usr/bin/env python3
"""What a call of attention from Python costs beside torch's, at [1,1,2,4]: on the CPU, and on a GPU where there is one.

    PYTHONPATH=python POLYHEAD_LIBRARY=build/release/capi/libpolyhead_c.so python3 bench/calls.py [--seconds 10] [--json] [--op]

Calls take turns, eight of each at a time, and the least time of all turns is shown: what a call takes when nothing disturbs it.
One thread each. On a GPU the time is that of the host: turns end with a wait that is not counted.
"""
import argparse
import ctypes
import json
import platform
import time

import numpy as np
import polyhead
import polyhead.torch
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

CALLS = 8
SHAPE = 1, 1, 2, 4


def least(functions, seconds, wait=lambda: None):
    """Microseconds of one call of each."""
    found = {name: float("inf") for name in functions}
    for call in functions.values():
        call()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, call in functions.items():
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            found[name] = min(found[name], (time.perf_counter_ns() - start) / CALLS / 1e3)
            wait()
    return found


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]


def in_c(x):
    """The call in C, with everything ready; through ctypes, whose own part is in the time."""
    library = ctypes.CDLL(str(min(polyhead._library.folder.glob("libpolyhead_c.so*"))))
    library.polyhead_attend.argtypes = [ctypes.c_void_p] * 6
    shape = (ctypes.c_int64 * 4)(*x.shape)
    output = np.empty_like(x)
    q, into = (Tensor(array.ctypes.data, (1, 0), 4, 2, 32, 1, ctypes.addressof(shape), None, 0) for array in (x, output))
    results = (ctypes.c_uint64 * (polyhead._library.native.layouts()["attention_results"][0] // 8))()
    results[0], results[1] = 8 * len(results), ctypes.addressof(into)
    context = ctypes.c_void_p()
    library.polyhead_context_create(1, ctypes.byref(context))
    arguments = context.value, *[ctypes.addressof(q)] * 3, None, ctypes.addressof(results)

    def call(kept=(shape, output, q, into, results, context)):
        assert library.polyhead_attend(*arguments) == 0

    return call


def of_torch(device, seconds):
    """Times of polyhead.attention, of polyhead.torch.scaled_dot_product_attention, and of torch's, by what is called; and how many
    times torch's is asked of us at most."""
    x = torch.ones(SHAPE, device=device)
    leaves = [x.clone().requires_grad_() for _ in range(3)]
    mask = torch.tensor([True, False], device=device).expand(1, 1, 1, 2)  # of padding
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    attention, replaced = polyhead.attention, polyhead.torch.scaled_dot_product_attention
    calls = {
        "no gradients": {"ours": lambda: attention(x, x, x), "sdpa": lambda: replaced(x, x, x), "torch": lambda: sdpa(x, x, x)},
        "no gradients, causal": {"ours": lambda: attention(x, x, x, causal=True), "sdpa": lambda: replaced(x, x, x, is_causal=True),
                                 "torch": lambda: sdpa(x, x, x, is_causal=True)},
        "no gradients, a mask": {"ours": lambda: attention(x, x, x, keep=mask), "sdpa": lambda: replaced(x, x, x, mask),
                                 "torch": lambda: sdpa(x, x, x, mask)},
        "recorded": {"ours": lambda: attention(*leaves), "sdpa": lambda: replaced(*leaves), "torch": lambda: sdpa(*leaves)},
        "recorded, a mask": {"ours": lambda: attention(*leaves, keep=mask), "sdpa": lambda: replaced(*leaves, mask),
                             "torch": lambda: sdpa(*leaves, mask)},
        "forward and backward": {"ours": lambda: torch.autograd.grad(attention(*leaves), leaves, x),
                                 "sdpa": lambda: torch.autograd.grad(replaced(*leaves), leaves, x),
                                 "torch": lambda: torch.autograd.grad(sdpa(*leaves), leaves, x)}}
    return {kind: {**least(functions, seconds, wait), "asked": 1.2 if kind.startswith("no gradients") else 1.5}
            for kind, functions in calls.items()}


def rows_of_torch(device, found):
    """What of_torch() found there, as rows of HEADER's table."""
    for kind, times in found.items():
        ours, replaced, peer = times["ours"], times["sdpa"], times["torch"]
        yield (f"| torch on {device}, {kind} | {ours:.2f} | {peer:.2f} | {ours / peer:.2f} | {replaced:.2f} | {replaced / peer:.2f} | "
               f"{times['asked']} |")


def of_op(seconds):
    """A recorded call by torch.library's op, which torch.compile takes, beside the one by torch.autograd.Function."""
    from polyhead import _attention, _autograd

    leaves = [torch.ones(SHAPE).requires_grad_() for _ in range(3)]
    return least({"op": lambda: _autograd._as_op(*leaves, _attention.PLAIN, None, False, _autograd.NOTHING_ELSE),
                  "function": lambda: polyhead.attention(*leaves)}, seconds)


HEADER = ("| a call of [1,1,2,4], µs | attention | beside | ratio | polyhead.torch's SDPA | ratio | asked |\n"
          "|---|---:|---:|---:|---:|---:|---:|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="for each row")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--op", action="store_true", help="only the op of torch.library, beside polyhead.attention")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    polyhead.set_threads(1)
    if arguments.op:
        times = of_op(arguments.seconds)
        print(f"recorded, µs: as an op of torch.library {times['op']:.1f}, by polyhead.attention {times['function']:.1f}, "
              f"{times['op'] / times['function']:.1f} times")
        return
    x = np.ones(SHAPE, np.float32)
    found = {"numpy": least({"ours": lambda: polyhead.attention(x, x, x), "C": in_c(x)}, arguments.seconds)}
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        found[device] = of_torch(device, arguments.seconds)
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"polyhead {polyhead.__version__}, torch {torch.__version__}, Python {platform.python_version()}, {platform.processor() or platform.machine()}"
          + (f", {torch.cuda.get_device_name()}" if "cuda" in found else ""))
    print(HEADER)
    ours, c = found["numpy"]["ours"], found["numpy"]["C"]
    print(f"| NumPy, beside the call in C | {ours:.2f} | {c:.2f} | {ours - c:.2f} more | | | 3 more |")
    for device in (device for device in ("cpu", "cuda") if device in found):
        print("\n".join(rows_of_torch(device, found[device])))


if __name__ == "__main__":
    main()
