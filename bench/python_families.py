"""What is measured of the Python package: what a call costs, steps of training with the drop-in, and the import."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from families import PASSES_AS_ONE, closing
from report import Family
from servers import lower_bound


def calls(bench):
    """By bench/calls.py."""
    script = pathlib.Path(__file__).with_name("calls.py")
    times = json.loads(subprocess.run([bench.python, script, "--json"], check=True, capture_output=True, text=True,
                                      env={**os.environ, **bench.package()}).stdout)
    ours, bare = times["numpy"]["ours"], times["numpy"]["C"]
    rows = [["NumPy, beside the call in C", f"{ours:.2f}", f"{bare:.2f}", f"{ours - bare:.2f} more"]]
    bars = [("NumPy, beyond the call in C", "≤ 3 µs", f"{ours - bare:.2f} µs", ours - bare <= 3)]
    for kind, of in times["cpu"].items():
        for name, words in (("ours", "torch"), ("sdpa", "polyhead.torch's SDPA")):
            ratio = of[name] / of["torch"]
            rows.append([f"{words}, {kind}", f"{of[name]:.2f}", f"{of['torch']:.2f}", f"{ratio:.2f}"])
            bars.append((f"{words}, {kind}, times SDPA", f"≤ {of['asked']}", f"{ratio:.2f}", ratio <= of["asked"]))
    notes = ["Attention of [1,1,2,4] on one thread, the least of many short turns."]
    return Family("python-calls", "Python: what a call costs (µs)", ["call", "polyhead", "beside", "ratio"], rows, bars, [], notes, times)


def steps(bench):
    """By bench/steps.py."""
    script = pathlib.Path(__file__).with_name("steps.py")
    raw = json.loads(subprocess.run([bench.python, script, "--json", "--threads", str(bench.threads)], check=True, stdout=subprocess.PIPE,
                                    text=True, env={**os.environ, **bench.package()}).stdout)
    rows, bounds = [], []
    for name, pairs in raw.items():
        ours, theirs = (min(side) for side in zip(*pairs))
        each = [theirs / ours for ours, theirs in pairs]
        bounds.append(lower_bound(each))
        rows.append([name, f"{ours:.2f}", f"{theirs:.2f}", f"{statistics.median(each):.2f}", f"{bounds[-1]:.2f}"])
    notes = ["A step of two blocks whose attention is nn.MultiheadAttention or its drop-in, or of a GPT-2 of Transformers with `sdpa` (where "
             "statistics are wanted `eager`) or `polyhead`; products, norms and AdamW are torch's in both. Where statistics are wanted, torch "
             "makes the entropy of every head from the weights."]
    return Family("python-steps", "Python: training steps with polyhead's attention beside torch's (ms)",
                  ["step, batch, tokens", "polyhead", "torch", "median", "R"], rows,
                  [("steps, worst", "1.0 (from 0.97)", f"{min(bounds):.2f}", min(bounds) >= PASSES_AS_ONE)],
                  [closing("python-steps", bounds)], notes, raw)


def imports(bench):
    """Milliseconds of `import polyhead`, the least of ten processes."""
    found = {}
    for name in ("pass", "import numpy", "import polyhead"):
        took = []
        for _ in range(10):
            start = time.monotonic()
            subprocess.run([bench.python, "-c", name], check=True, env={**os.environ, **bench.package()})
            took.append(1e3 * (time.monotonic() - start))
        found[name] = min(took)
    own = found["import polyhead"] - found["pass"]
    rows = [["import polyhead", f"{own:.0f}"], ["of it NumPy", f"{found['import numpy'] - found['pass']:.0f}"]]
    return Family("python-import", "Python: import (ms)", ["what", "ms"], rows, [("import polyhead", "≤ 150 ms", f"{own:.0f} ms", own <= 150)])


def python(bench):
    versions = bench.ask("torch-sdpa", "info") | {"Python": sys.version.split()[0]}
    found = [calls(bench), steps(bench), imports(bench)]
    found[0].notes.append(", ".join(f"{name} {value}" for name, value in versions.items()) + ".")
    return found
