#!/usr/bin/env python3
"""Two ranks of one thread beside one process of two threads, and beside torch's DistributedDataParallel and ring over gloo.

  cmake --build --preset release --target polyhead_cli polyhead_ranks_bench
  bench/ranks.py --build build/release
  bench/ranks.py --build build/release --rounds 5 --only ring --json ranks.json     three times: 15 rounds

Each round runs every side once, in turn, beginning with another one; ratios are paired by round, and R is the lower
95 % bound of their median. Rounds that FILE of --json has from earlier calls count too, if they are of this day and by
the same programs, so that a machine need not be quiet for long. The machine has to be quiet: a round in which others took more than --foreign of the
processors is repeated, up to three times as many rounds; then the table says how many were kept though they were not.
Torch is needed for three rows alone, which are left out without it (pip install torch==2.13.0 numpy).
"""
import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from families import progress
from report import Family, machine, to_text
from servers import lower_bound, ratios

HERE = pathlib.Path(__file__).resolve().parent
SIZES, HEADS, TOKENS, WIDTH = "6,384,6,256,8", 2, 32768, 64
MODEL = ["--layers", "6", "--width", "384", "--heads", "6", "--context", "256"]
STEPS, CALLS = 11, 1
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMP_NUM_THREADS": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def run(words):
    found = subprocess.run([str(word) for word in words], env=ENVIRONMENT, capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: status {found.returncode}\n{found.stderr}")
    return found.stdout


class Sides:
    """Calls that give the seconds of one unit of work."""

    def __init__(self, build, mpirun, folder):
        self.command, self.bench = build / "cli/polyhead", build / "bench/polyhead_ranks_bench"
        self.two, self.folder = [mpirun, "--bind-to", "none", "-n", "2"], folder

    def step(self, launcher, threads, *more):
        """Of training, by its metrics: from the end of the first step to the end of the last, with no checkpoint between."""
        out = self.folder / "run"
        run([*launcher, self.command, "train", "repeat", *MODEL, "--batch", 8, "--steps", STEPS, "--save-every", 1000,
             "--threads", threads, "--force", "--out", out, *more])
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        at = {line["step"]: line["seconds"] for line in lines if "loss" in line}
        return (at[STEPS] - at[1]) / (STEPS - 1)

    def ring(self, launcher, threads, way):
        words = [*launcher, self.bench, threads, f"{HEADS},{TOKENS},{WIDTH}", way, CALLS]
        return min(float(line) for line in run(words).split())

    def heads(self, launcher, threads):
        model = self.folder / "model"
        if not model.exists():
            run([self.command, "train", "repeat", *MODEL, "--steps", 1, "--batch", 2, "--out", model])
        begin = time.monotonic()
        run([*launcher, self.command, "heads", model, "--samples", 2, "--threads", threads])
        return time.monotonic() - begin

    def ddp(self):
        return float(run([sys.executable, HERE / "ddp.py", SIZES, STEPS - 1]))

    def context_parallel(self, way):
        words = [sys.executable, HERE / "context_parallel.py", f"{HEADS},{TOKENS},{WIDTH}", way, CALLS]
        return min(float(line) for line in run(words).split())


def cells(sides):
    """Name: what is to be as fast, beside what, and the bar."""
    two, one = sides.two, []
    found = {
        "training step, 8 parts beside an undivided batch": (lambda: sides.step(two, 1), lambda: sides.step(one, 2), 0.9),
        "training step, 2 parts beside an undivided batch": (lambda: sides.step(two, 1, "--parts", 2),
                                                             lambda: sides.step(one, 2), 0.9)}
    for way in ("forward", "backward"):
        name = "ring attention" + (", forward and back" if way == "backward" else "")
        found[f"{name}, {TOKENS} tokens"] = (lambda way=way: sides.ring(two, 1, way), lambda way=way: sides.ring(one, 2, way), 0.9)
    found["polyhead heads"] = (lambda: sides.heads(two, 1), lambda: sides.heads(one, 2), 0.95)
    try:
        import torch
        found[f"training step, 2 parts beside DistributedDataParallel of torch {torch.__version__}"] = (
            lambda: sides.step(two, 1, "--parts", 2), sides.ddp, 1.3)
        for way in ("forward", "backward"):
            name = "ring attention" + (", forward and back" if way == "backward" else "")
            found[f"{name}, beside the ring of torch {torch.__version__}"] = (
                lambda way=way: sides.ring(two, 1, way), lambda way=way: sides.context_parallel(way), 1.3)
    except ImportError:
        progress("left out: no torch here")
    return found


def busy():
    """Processor seconds of the machine so far, and those of this program with its children."""
    with open("/proc/stat") as lines:
        user, nice, system, _, _, irq, soft, steal = map(int, next(lines).split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])


def of_programs(build):
    """What earlier rounds must have been measured with: the day, and the bytes of both programs."""
    sums = [hashlib.sha256((build / name).read_bytes()).hexdigest()[:16] for name in ("cli/polyhead", "bench/polyhead_ranks_bench")]
    return [time.strftime("%Y-%m-%d"), *sums]


def measure(cell, rounds, foreign):
    """Seconds of both sides, paired, and how many rounds were disturbed."""
    ranks, beside, disturbed = [], [], 0
    for tried in range(3 * rounds):
        before, begin = busy(), time.monotonic()
        pair = [None, None]
        for side in ((0, 1), (1, 0))[tried % 2]:
            pair[side] = cell[side]()
        after, took = busy(), time.monotonic() - begin
        others = (after[0] - before[0]) - (after[1] - before[1])
        if others > foreign * took * os.cpu_count():
            if 3 * rounds - tried > rounds - len(ranks):
                continue
            disturbed += 1
        ranks.append(pair[0])
        beside.append(pair[1])
        if len(ranks) == rounds:
            break
    return ranks, beside, disturbed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build/release")
    parser.add_argument("--mpirun", default="mpirun", help="of the MPI that the build has")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--foreign", type=float, default=0.05, help="share of the processors that others may take")
    parser.add_argument("--only", action="append", default=[], help="cells whose name contains this")
    parser.add_argument("--json", type=pathlib.Path, help="the times of every round")
    o = parser.parse_args()
    rows, bars, raw, programs = [], [], {}, of_programs(o.build)
    if o.json and o.json.exists():
        earlier = json.loads(o.json.read_text())
        raw = earlier["cells"] if earlier["programs"] == programs else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, cell in cells(Sides(o.build.resolve(), o.mpirun, pathlib.Path(folder))).items():
            if o.only and not any(part in name for part in o.only):
                continue
            found = dict(zip(("ranks", "beside", "disturbed"), measure(cell, o.rounds, o.foreign)))
            raw[name] = {key: raw[name][key] + some for key, some in found.items()} if name in raw else found
            times, beside, disturbed = raw[name].values()
            paired = ratios(beside, times)
            rows.append([name, *(f"{statistics.median(some):.3f}" for some in (times, beside)),
                         f"{statistics.median(paired):.2f}", f"{lower_bound(paired):.2f}", len(paired), disturbed])
            bars.append((name, cell[2], f"{lower_bound(paired):.2f}", lower_bound(paired) >= cell[2]))
            progress(" ".join(map(str, rows[-1])))
    facts = machine()
    notes = [f"{facts['processor']}, {facts['cores']} processors, {facts['memory']}, {facts['kernel']}, "
             f"{time.strftime('%Y-%m-%d')}; the model of training and of the scan is {SIZES}, attention has {HEADS} heads of {WIDTH} columns. Rounds that "
             "others disturbed were repeated, and those in the last column kept."]
    family = Family("ranks", "Ranks: two of one thread, beside one process of two", ["", "ranks: s", "beside: s", "median",
                                                                                   "R", "rounds", "disturbed"], rows, bars, [], notes, raw)
    print(to_text(family))
    if o.json:
        o.json.write_text(json.dumps({"date": family.date, "programs": programs, "machine": facts, "cells": raw}, indent=1))
    return 0 if family.passed() else 1


if __name__ == "__main__":
    sys.exit(main())
