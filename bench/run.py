#!/usr/bin/env python3
"""Measures polyhead beside its peers. Needs polyhead_bench, torch and numpy, and for all peers onnxruntime and onnx.

  bench/run.py                                  all families but the build, some thirty minutes
  bench/run.py --quick --family forward         three rounds, for a look
  bench/run.py --threads 1,2,4,8,16             what more threads bring, and nothing else; Ctrl-C ends it with what is complete
  bench/run.py --json out.json --write docs/performance.md
"""
import argparse
import json
import os
import pathlib
import sys

import report
import extras
import families
import layer_families
import model_families
import python_families
import scaling
import training_families
from families import HERE, PEERS, Bench, progress

FAMILIES = {"forward": families.forward, "sgemm-share": lambda bench: families.forward(bench, []),
            "backward": families.backward, "backward-ratios": families.backward_ratios,
            "decode": layer_families.decode, "gemm": layer_families.gemm,
            "layer": layer_families.layer, "training": training_families.training,
            "training-losses": training_families.training_losses, "statistics": families.statistics_tax, "memory": families.memory,
            "options": families.options_tax, "models": model_families.models, "long-prompt": model_families.long_prompt,
            "generation": model_families.generation, "commands": model_families.commands, "python": python_families.python,
            "build": families.build}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one; may be repeated")
    parser.add_argument("--build", action="store_true", help="time clean builds as well")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="3 rounds")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[2],
                        help="a number; or several, such as 1,2,4: then the family is scaling")
    parser.add_argument("--only", action="append", default=[],
                        help="with several numbers of threads: the cells whose names contain this; may be repeated")
    parser.add_argument("--binary", default=HERE.parent / "build/release/bench/polyhead_bench", type=pathlib.Path)
    parser.add_argument("--venv", type=pathlib.Path, help="where the peers are installed (default: this Python's)")
    parser.add_argument("--json", type=pathlib.Path, help="keep results here; families not measured now are taken over")
    parser.add_argument("--write", type=pathlib.Path, metavar="PAGE", help="write the page, docs/performance.md")
    return parser.parse_args()


def facts(bench):
    """The machine and the versions of everything."""
    found = report.machine()
    for name in ("ours", *bench.peers(PEERS), "numpy"):
        found |= bench.ask(name, "info")
    return {key: str(value) for key, value in found.items()}


def measured(bench, family):
    """The tables of a family, with a word on how quiet the machine was."""
    found = family(bench)
    if bench.turns.taken:
        quiet = f"{bench.round_count} rounds, {bench.turns.quietness()}"
        for family in found:
            family.notes.append(quiet)
    return found


def load(path):
    if not path or not path.exists():
        return {}
    return {name: report.from_json(data) for name, data in json.loads(path.read_text())["families"].items()}


def save(path, machine, families):
    data = {"machine": machine, "families": {name: report.to_json(family) for name, family in families.items()}}
    path.write_text(json.dumps(data, indent=1) + "\n")


def main():
    args = arguments()
    if not args.binary.exists():
        sys.exit(f"{args.binary} is not there: cmake --build --preset release --target polyhead_bench, or --binary")
    python = args.venv / "bin/python" if args.venv else sys.executable
    bench = Bench(args.binary.resolve(), python, args.threads[0], 3 if args.quick else args.rounds)
    if os.getloadavg()[0] > 0.3:
        progress(f"the machine is busy (load {os.getloadavg()[0]:.2f}): expect noise")
    wanted = args.family or [name for name in FAMILIES if name not in ("build", "sgemm-share")]
    wanted = [FAMILIES[name] for name in wanted + (["build"] if args.build and "build" not in wanted else [])]
    if len(args.threads) > 1:
        wanted = [lambda bench, measure=measure: measure(bench, args.threads, args.only)
                  for measure in (scaling.scaling, extras.extras, extras.heads)]
    families, fresh = load(args.json), []
    with bench.turns:
        for missing in bench.lacking():
            progress(missing)
        machine = facts(bench)
        for each in wanted:
            for family in measured(bench, each):
                families[family.name] = family
                fresh.append(family)
                print(report.to_text(family), flush=True)
                if args.json:
                    save(args.json, machine, families)
    if not fresh:
        sys.exit("nothing was measured" + (f": no cell has {' or '.join(args.only)} in its name" if args.only else ""))
    if args.write:
        report.write_page(args.write, machine, families.values())
    return 0 if all(family.passed() for family in fresh) else 1


if __name__ == "__main__":
    sys.exit(main())
