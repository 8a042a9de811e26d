"""At several numbers of threads: what statistics and fresh results cost on top of a short call, and `polyhead heads`."""
import pathlib
import statistics
import subprocess
import tempfile
import time

from families import closing, micro, progress
from report import Family
from scaling import wanted
from servers import PeerError, lower_bound, ratios

# Each beside the call without its last option.
CELLS = [f"64,4,32,32/{mask}+light" for mask in ("plain", "causal")]
CELLS += ["64,4,32,32/plain+backward+allocating", "8,12,128,64/causal+backward+allocating"]
MOST = 1.1


def extras(bench, counts, only=()):
    """Rows: the upper bound of what a cell takes, relative to the call without the extra, at each number of threads."""
    cells = [cell for cell in CELLS if wanted(cell, only)]
    bounds, raw = {cell: {} for cell in cells}, {cell: {} for cell in cells}
    for cell in cells:
        for threads in counts:
            bench.use_threads(threads)
            times, _ = bench.measure({"with": ("ours", "time", cell), "without": ("ours", "time", cell.rpartition("+")[0])})
            bench.release(["ours"])
            raw[cell][threads] = times
            bounds[cell][threads] = 1 / lower_bound(ratios(times["without"], times["with"]))
            progress(f"{cell}, {threads} threads: {micro(times['with'])} us, {bounds[cell][threads]:.2f} of {micro(times['without'])}")
    if not cells:
        return []
    rows = [[cell, *(micro(raw[cell][n]["without"]) for n in counts),
             *(f"{statistics.median(ratios(raw[cell][n]['with'], raw[cell][n]['without'])):.2f}" for n in counts),
             *(f"{bounds[cell][n]:.2f}" for n in counts)] for cell in cells]
    found = [bound for by_threads in bounds.values() for bound in by_threads.values()]
    columns = ["", *(f"{n}: without, µs" for n in counts), *(f"{n}: median" for n in counts), *(f"{n}: upper bound" for n in counts)]
    return [Family("extras", "Threads: statistics of short rows, and calls that allocate their results", columns, rows,
                   [("times the call without", f"≤ {MOST}", f"{max(found):.2f}", max(found) <= MOST)],
                   [closing("extras", [MOST / bound for bound in found])], raw=raw)]


def heads(bench, counts, only=()):
    """The command on a model of 10.8 million random parameters: 36 heads, each taken out in turn."""
    if not wanted("polyhead heads", only) or not bench.has_command:
        return []
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        run(bench.command, "train", "repeat", "--steps", 1, "--batch", 2, "--layers", 6, "--width", 384, "--heads", 6, "--context", 256,
            "--out", model)
        seconds = {threads: [run(bench.command, "heads", model, "--samples", 2, "--threads", threads) for _ in range(3)]
                   for threads in counts}
    least = {threads: min(times) for threads, times in seconds.items()}
    gain = least[counts[0]] / least[counts[-1]]
    progress("polyhead heads " + ", ".join(f"{threads} threads {took:.2f} s" for threads, took in least.items()))
    return [Family("heads-scaling", "Threads: polyhead heads, 36 heads of a model of width 384, the least of three (s)",
                   ["", *map(str, counts), "speed-up"],
                   [["polyhead heads", *(f"{took:.2f}" for took in least.values()), f"{gain:.1f}"]], raw=seconds)]


def run(program, *words):
    """Seconds that the command took."""
    start = time.monotonic()
    ran = subprocess.run([program, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        raise PeerError(f"polyhead {words[0]}: {ran.stderr}")
    return time.monotonic() - start
