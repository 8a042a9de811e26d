#!/usr/bin/env python3
"""What bf16 brings: ours stored in bf16 beside ours in f32 and beside torch in bf16, in turns. What counts is the least
time that each took, since a busy machine only ever adds to it. Ratios are times over that of our bf16: above 1 it is
faster.

    bench/halves.py build/release/bench/polyhead_bench [--threads 1,2] [--rounds 15] [--family forward,products,layer]
"""
import argparse
import datetime
import math
import pathlib
import sys

from families import Bench
from report import machine, table
from servers import geomean, plan

ATTENTION = [f"{shape}/{mask}" for shape in ("8,12,128,64", "1,12,1024,64", "4,12,1024,64", "1,32,2048,128", "1,12,8192,64")
             for mask in ("plain", "causal")]
LAYERS = ("512,8,128,16", "768,12,1024,4")
MODELS = ("2,256,8,64,32", "4,128,4,32,64", "4,512,8,256,8")
STEPS = (1, 25, 50, 100, 200, 400)


def attention(cells, more=""):
    return {cell: [("time", cell + more), ("time", cell.replace("/", "/bf16+") + more)] for cell in cells}


def layers(mode):
    return {cell: [("time", f"layer:{cell}/{mode}"), ("time", f"layer:{cell}/{mode}+bf16")] for cell in LAYERS}


# Per cell the requests of f32, which torch takes too and does in bf16, and of bf16; and what bf16 over f32 is asked.
FAMILIES = {
    "forward": (attention(ATTENTION), 1.6),
    "statistics": ({cell: [("time", cell.replace("/", "/bf16+") + "+light"), ("time", cell.replace("/", "/bf16+"))]
                    for cell in ATTENTION}, None),
    "backward": (attention(ATTENTION[:-2], "+backward"), 1.6),
    "products": ({cell: [("gemm", cell), ("gemm", cell + ",bf16")]
                  for cell in ("2048,2304,768", "2048,2048,2048", "64,512,512")}, 1.8),
    "layer": (layers("forward"), 1.6),
    "layer-training": (layers("training"), 1.4),
    "training": ({model: [("time", f"train:{model}/step"), ("time", f"train:{model}/step+bf16")] for model in MODELS}, 1.4),
}


def least(bench, entries, rounds):
    """The least time of one call of each entry, in nanoseconds."""
    plans, found = {}, dict.fromkeys(entries, math.inf)
    for key, (server, *request) in entries.items():
        bench.ask(server, *request, 0, 1)  # prepares the case
        plans[key] = plan(bench.ask(server, *request, 0, 1)["ns"])
    keys = list(entries)
    for number in range(rounds):
        start = number % len(keys)
        for key in keys[start:] + keys[:start]:
            server, *request = entries[key]
            found[key] = min(found[key], bench.ask(server, *request, *plans[key])["min"])
    return found


def family(bench, name, rounds, with_torch):
    cells, asked = FAMILIES[name]
    rows, over_f32, over_torch = [], [], []
    for cell, (wide, half) in cells.items():
        entries = {"f32": ("ours", *wide), "bf16": ("ours", *half)}
        if with_torch and name != "statistics":
            entries["torch"] = ("torch-autocast" if name == "training" else "torch-bf16", *wide)
        times = least(bench, entries, rounds)
        bench.release({server for server, *_ in entries.values()})
        over_f32.append(times["f32"] / times["bf16"])
        row = [cell, f"{times['f32'] / 1e3:.0f}", f"{times['bf16'] / 1e3:.0f}", f"{over_f32[-1]:.2f}"]
        if "torch" in times:
            over_torch.append(times["torch"] / times["bf16"])
            row += [f"{times['torch'] / 1e3:.0f}", f"{over_torch[-1]:.2f}"]
        rows.append(row)
        print(" ".join(row), file=sys.stderr, flush=True)
    first = "with statistics, µs" if name == "statistics" else "f32, µs"
    columns = [name, first, "bf16, µs", "times"] + (["torch bf16, µs", "times"] if over_torch else [])
    lines = [f"worst {min(over_f32):.2f}, geomean {geomean(over_f32):.2f}" + (f"; asked {asked}" if asked else "")]
    if name == "statistics":
        lines = [f"most {max(over_f32):.2f}, asked 1.1"]
    if over_torch:
        lines.append(f"beside torch: worst {min(over_torch):.2f}, geomean {geomean(over_torch):.2f}; asked 1.0")
    return "\n".join([table(columns, rows), *lines])


def losses(bench):
    """Of training in f32 and in bf16, from the same weights and batches."""
    case = f"train:{MODELS[0]}/step"
    found = {"f32": bench.ask("ours", "losses", case, STEPS[-1])["losses"],
             "bf16": bench.ask("ours", "losses", case + "+bf16", STEPS[-1])["losses"]}
    rows = [[str(step), *(f"{of[step - 1]:.4f}" for of in found.values())] for step in STEPS]
    apart = max(abs(a - b) / a for a, b in zip(found["f32"], found["bf16"]))
    return "\n".join([table(["loss before step", *found], rows), f"farthest apart, of all steps: {apart:.2%}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--family", default=",".join(FAMILIES))
    parser.add_argument("--without-torch", action="store_true")
    parser.add_argument("--losses", action="store_true", help="of training, beside f32's, and nothing else")
    arguments = parser.parse_args()
    bench = Bench(arguments.binary.resolve(), sys.executable, 1, arguments.rounds)
    with bench.turns:
        versions = bench.ask("ours", "info") | ({} if arguments.without_torch else bench.ask("torch-bf16", "info"))
        facts = machine() | {name: versions[name] for name in ("polyhead SIMD", "compiler", "torch") if name in versions}
        print(f"{datetime.date.today()}: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n")
        if arguments.losses:
            return print(losses(bench))
        for threads in map(int, arguments.threads.split(",")):
            bench.use_threads(threads)
            for name in arguments.family.split(","):
                print(f"{threads} thread{'s' * (threads > 1)}\n{family(bench, name, arguments.rounds, not arguments.without_torch)}\n",
                      flush=True)


if __name__ == "__main__":
    main()
