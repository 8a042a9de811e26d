#!/usr/bin/env python3
"""Two builds of ours in turns, to see what a change costs: the median ratio of every cell, and the geometric mean of every
family of work. Above 1 the second is faster. No family may fall by more than 2 %: exit code 1.

    bench/beside.py OLD/polyhead_bench NEW/polyhead_bench [--threads 2] [--rounds 15] [--family forward,backward]
"""
import argparse
import pathlib
import statistics
import sys

from families import SHAPES
from layer_families import LAYERS
from servers import Turns, geomean, ratios, rounds

CELLS = {"forward": [("time", f"{shape}/{mask}") for shape in SHAPES[:-1] for mask in ("plain", "causal")],
         "backward": [("time", f"{shape}/{mask}+backward") for shape in SHAPES[2:-1] for mask in ("plain", "causal")] +
                     [("time", f"{shape}/window+backward") for shape in ("1,1,4096,64", "1,12,512,64")],
         "decode": [("time", f"decode:{sizes},128,f32/plain") for sizes in ("1,32,32,4096", "8,32,8,4096")],
         "products": [("gemm", sizes) for sizes in ("2048,2304,768", "2048,2048,2048", "64,512,512")],
         "layer": [("time", f"layer:{sizes}/{mode}") for sizes in LAYERS for mode in ("forward", "training")],
         "training": [("time", f"train:{sizes}/step") for sizes in ("2,256,8,64,32", "4,128,4,32,64")]}
LEAST = 0.98


def family(turns, cells, count):
    """The cells' medians of old time / new time."""
    found = []
    for cell in cells:
        times, _ = rounds(turns, {name: (name, *cell) for name in ("old", "new")}, count)
        found.append(statistics.median(ratios(times["old"], times["new"])))
        print(f"{cell[1]:40} {found[-1]:.3f}", flush=True)
        turns.release("old", "new")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--family", default=",".join(CELLS))
    arguments = parser.parse_args()
    means = {}
    with Turns() as turns:
        for name in ("old", "new"):
            turns.add(name, [getattr(arguments, name).resolve(), arguments.threads], OPENBLAS_NUM_THREADS="1")
        for name in arguments.family.split(","):
            means[name] = geomean(family(turns, CELLS[name], arguments.rounds))
            print(f"{name}: geomean {means[name]:.3f}\n", flush=True)
        print(turns.quietness())
    fallen = [name for name, mean in means.items() if mean < LEAST]
    sys.exit(f"fell by more than 2 %: {', '.join(fallen)}" if fallen else 0)


if __name__ == "__main__":
    main()
