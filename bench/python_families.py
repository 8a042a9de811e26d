"""What is measured of the Python package: what a call costs, steps of training with the drop-in, and the import."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from families import PASSES_AS_ONE, closing, micro, progress
from report import Family
from servers import lower_bound, ratios

SHAPES = ["4,128,4,32,64", "6,384,6,256,8"]
MOST = {"no gradients": 1.2, "no gradients, causal": 1.2, "recorded": 1.5, "forward and backward": 1.5}  # times SDPA's


def calls(bench):
    """By bench/calls.py."""
    script = pathlib.Path(__file__).with_name("calls.py")
    times = json.loads(subprocess.run([bench.python, script, "--json"], check=True, capture_output=True, text=True,
                                      env={**os.environ, **bench.package()}).stdout)
    ours, bare = times["numpy"]["ours"], times["numpy"]["C"]
    rows = [["NumPy, beside the call in C", f"{ours:.2f}", f"{bare:.2f}", f"{ours - bare:.2f} more"]]
    bars = [("NumPy, beyond the call in C", "≤ 3 µs", f"{ours - bare:.2f} µs", ours - bare <= 3)]
    for kind, pair in times["cpu"].items():
        ratio = pair["ours"] / pair["torch"]
        rows.append([f"torch, {kind}", f"{pair['ours']:.2f}", f"{pair['torch']:.2f}", f"{ratio:.2f}"])
        bars.append((f"torch, {kind}, times SDPA", f"≤ {MOST[kind]}", f"{ratio:.2f}", ratio <= MOST[kind]))
    notes = ["Attention of [1,1,2,4] on one thread, the least of many short turns."]
    return Family("python-calls", "Python: what a call costs (µs)", ["call", "polyhead", "beside", "ratio"], rows, bars, [], notes, times)


def steps(bench):
    """Training with nn.MultiheadAttention and with its drop-in."""
    rows, bounds, raw = [], {}, {}
    for shape in SHAPES:
        for want in ("plain", "weights", "statistics"):
            cell = f"gpt:{shape}/{want}"
            times, _ = bench.measure({name: (name, "time", cell) for name in ("torch-drop-in", "torch-modules", "torch-without")})
            bench.release(times)
            raw[cell] = times
            paired = ratios(times["torch-modules"], times["torch-drop-in"])
            bounds[cell] = lower_bound(paired)
            ceiling = statistics.median(ratios(times["torch-modules"], times["torch-without"]))
            rows.append([f"{shape} {want}", micro(times["torch-drop-in"]), micro(times["torch-modules"]),
                         f"{statistics.median(paired):.2f}", f"{bounds[cell]:.2f}", f"{ceiling:.2f}"])
            progress("python-steps " + " ".join(rows[-1]))
    plain, more = ([bound for cell, bound in bounds.items() if cell.endswith("plain") == first] for first in (True, False))
    bars = [("steps, worst", "1.0 (from 0.97)", f"{min(plain):.2f}", min(plain) >= PASSES_AS_ONE),
            ("steps with weights or statistics, worst", "1.5", f"{min(more):.2f}", min(more) >= 1.5)]
    notes = ["A step of a GPT in torch (L,C,H,T,B) whose attention is nn.MultiheadAttention or its drop-in; products, norms and AdamW are "
             "torch's in both, and `ceiling` is the ratio with no attention between the projections at all. With weights they are averaged over the heads, with statistics torch makes the entropy of every head from "
             "them."]
    return Family("python-steps", "Python: training steps with the drop-in beside nn.MultiheadAttention (µs)",
                  ["L,C,H,T,B", "drop-in", "torch", "median", "R", "ceiling"], rows, bars, [closing("python-steps", list(bounds.values()))], notes, raw)


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
    versions = bench.ask("torch-drop-in", "info") | {"Python": sys.version.split()[0]}
    found = [calls(bench), steps(bench), imports(bench)]
    found[0].notes.append(", ".join(f"{name} {value}" for name, value in versions.items()) + ".")
    return found
