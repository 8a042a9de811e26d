#!/usr/bin/env python3
"""What `polyhead plan` says beside what ranks do on this machine, and where its forecast ends: docs/scaling.md.

  cmake --build --preset release --target polyhead_cli
  bench/forecast.py --build build/release --write docs/scaling.md

A plan is made from the rates of one rank of one thread and the link between two, as everybody makes it; then the same steps of training and
the same scan are timed on 1, 2 and 4 ranks of one thread, in turn, round by round. Four are more than two processors have room for. The
machine has to be quiet: measuring takes about four minutes. What stands between the marks in the page is kept.
"""
import argparse
import json
import pathlib
import re
import statistics
import tempfile
import time

from families import progress
from ranks import HERE, MODEL, run
from report import BEGIN, END, machine, table

RANKS, STEPS, SAMPLES, BATCH = (1, 2, 4), 4, 2, 8
FAR = (1, 8, 64, 512, 4096)
FAR_WORK = ("gpt2", "--batch", 4096, "--parts", 4096, "--samples", 256)


class Machine:
    def __init__(self, build, mpirun, folder):
        self.command, self.folder, self.mpirun = build / "cli/polyhead", folder, mpirun
        run([self.command, "train", "repeat", *MODEL, "--steps", 1, "--batch", 2, "--out", self.model])

    @property
    def model(self):
        return self.folder / "model"

    def launcher(self, ranks):
        return [] if ranks == 1 else [self.mpirun, "--bind-to", "none", "-n", ranks]

    def plan(self, *words, launched=()):
        return json.loads(run([*launched, self.command, "plan", *words, "--threads", 1, "--format", "json"]))

    def training(self, ranks):
        """Of a step: by the metrics, from the end of the first to the end of the last."""
        out = self.folder / "run"
        run([*self.launcher(ranks), self.command, "train", "repeat", *MODEL, "--batch", BATCH, "--parts", BATCH, "--steps", STEPS + 1,
             "--save-every", 1000, "--threads", 1, "--force", "--out", out])
        at = {line["step"]: line["seconds"] for line in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in line}
        return (at[STEPS + 1] - at[1]) / STEPS

    def scan(self, ranks):
        """All of the command, with its start and what it reads."""
        begin = time.monotonic()
        run([*self.launcher(ranks), self.command, "heads", self.model, "--samples", SAMPLES, "--threads", 1])
        return time.monotonic() - begin


def shown(seconds):
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def near(here, rounds):
    """Rows of the first table, and the plan that they are beside."""
    plan = here.plan(here.model, "--batch", BATCH, "--parts", BATCH, "--samples", SAMPLES, "--ranks", max(RANKS), launched=here.launcher(2))
    found = {(work, ranks): [] for work in ("training", "scan") for ranks in RANKS}
    for n in range(rounds):
        for ranks in RANKS[::1 if n % 2 else -1]:
            found["training", ranks].append(here.training(ranks))
            found["scan", ranks].append(here.scan(ranks))
        progress(f"round {n + 1} of {rounds}")
    said = {(row["work"], row["ranks"]): row["seconds"] for row in plan["forecasts"]}
    rows = []
    for work, ranks in found:
        took, one = statistics.median(found[work, ranks]), statistics.median(found[work, 1])
        rows.append([f"{work}, {ranks} rank{'s' if ranks > 1 else ''}{', oversubscribed' if ranks > 2 else ''}", shown(said[work, ranks]),
                     shown(took), f"{said[work, ranks] / took:.2f}", f"{said[work, 1] / said[work, ranks]:.2f}", f"{one / took:.2f}"])
    return plan, rows


def far(here):
    """Rows of the second table, and the plan that they are from."""
    plan = here.plan(*FAR_WORK, "--ranks", max(FAR))
    rows = []
    for row in plan["forecasts"]:
        if row["ranks"] not in FAR:
            continue
        parts = {name: row[key] for name, key in (("shared", "shared"), ("waiting for the slowest", "uneven"),
                                                  ("not divided", "repeated"), ("messages", "sending"))}
        most = max(parts, key=parts.get)
        rows.append([f"{row['work']}, {row['ranks']}", shown(row["seconds"]), f"{row['speed_up']:.1f}", f"{100 * row['efficiency']:.0f} %",
                     f"{most} ({100 * parts[most] / row['seconds']:.0f} %)", f"{row['bytes'] / 1e9:.3g} GB"])
    return plan, rows


def page(here, rounds):
    plan, rows = near(here, rounds)
    distant, far_rows = far(here)
    facts = machine()
    link = f"{1e6 * plan['latency']:.3g} µs until a message is there, {plan['bandwidth'] / 1e9:.3g} GB/s"
    return "\n".join([
        f"{facts['processor']}, {facts['cores']} processors, {facts['memory']}, {facts['kernel']}, {time.strftime('%Y-%m-%d')}; polyhead "
        f"{json.loads(run([here.command, 'info', '--format', 'json']))['version']}. Between two ranks: {link}. The model has 6 layers of "
        f"width 384 and 6 heads; a step of training is {BATCH} sequences of 256 tokens in {BATCH} parts, a scan takes out each head in turn "
        f"on {SAMPLES} sequences. Medians of {rounds} rounds.", "",
        table(["work", "plan", "measured", "plan / measured", "speed-up, plan", "speed-up, measured"], rows), "",
        f"The rates of one rank of this machine, {distant['training_flops_per_second'] / 1e9:.0f} GFLOP/s in training and "
        f"{distant['forward_flops_per_second'] / 1e9:.0f} forward, and a network of 100 Gbit/s with 5 µs, which is assumed. GPT-2; a step of "
        "training is 4,096 sequences of 1,024 tokens in as many parts, prefill one sequence of 1,024, a scan 256 sequences of 128.", "",
        table(["work, ranks", "time", "speed-up", "efficiency", "most of it", "sent"], far_rows), "",
        *(f"- {name.capitalize()}: {distant[name + '_pays']}" for name in ("training", "prefill", "scan")), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build/release")
    parser.add_argument("--mpirun", default="mpirun", help="of the MPI that the build has")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=pathlib.Path, help="the page, whose parts by hand are kept")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = page(Machine(o.build.resolve(), o.mpirun, pathlib.Path(folder)), o.rounds)
    print(text)
    if not o.write:
        return
    old = o.write.read_text()
    by_hand = re.findall(f"{re.escape(BEGIN)}.*?{re.escape(END)}", old, re.S)
    head = old[:old.index("<!-- measured -->")]
    near_text, far_text = text.split("\n\nThe rates of one rank", 1)
    o.write.write_text(f"{head}<!-- measured -->\n## Beside what ranks do here\n{near_text}\n\n{by_hand[0]}\n\n## How far it goes\n"
                       f"The rates of one rank{far_text}\n{by_hand[1]}\n")


if __name__ == "__main__":
    main()
