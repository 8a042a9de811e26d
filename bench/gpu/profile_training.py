#!/usr/bin/env python3
"""Which kernels a training step of ours spends its time in. FOLDER is where CMake built.

    bench/gpu/profile_training.py build/release [--precision f32|tf32|bf16]
"""
import argparse
import collections
import ctypes
import pathlib

import torch
from torch.profiler import ProfilerActivity, profile

from layer_tables import GPT
from run import Library

STEPS = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--precision", default="bf16", choices=["f32", "tf32", "bf16"])
    arguments = parser.parse_args()
    library = Library(arguments.folder / "bench/libpolyhead_gpu_calls.so")
    precision = ["f32", "tf32", "bf16"].index(arguments.precision)
    library.call("training", (ctypes.c_int64 * 5)(*GPT), ctypes.c_int64(precision))
    loss = ctypes.c_double()

    def steps(count):
        for _ in range(count):
            library.call("training_step", ctypes.byref(loss))
        torch.cuda.synchronize()

    steps(10)
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        steps(STEPS)
    kernels = collections.defaultdict(lambda: [0, 0.0])  # launches, us
    for event in recorded.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kernels[event.name][0] += 1
            kernels[event.name][1] += event.time_range.elapsed_us()
    launches, us = (sum(column) / STEPS for column in zip(*kernels.values()))
    print(f"a step: {us / 1e3:.2f} ms of kernels in {launches:.0f} launches\n\n| us | launches | kernel |\n|--:|--:|---|")
    for name, (count, taken) in sorted(kernels.items(), key=lambda kernel: -kernel[1][1]):
        print(f"| {taken / STEPS:.1f} | {count / STEPS:.0f} | `{name[:160]}` |")


if __name__ == "__main__":
    main()
