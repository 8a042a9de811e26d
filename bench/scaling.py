"""What more threads bring: every kind of work at several numbers of threads, beside torch."""
import statistics
import sys

from families import PASSES_AS_ONE, best_of, closing, hopeless, micro, progress
from report import Family, machine
from servers import geomean, lower_bound, ratios

SHORT, LONG_ROWS = ["64,4,32,32", "8,12,128,64"], ["1,12,1024,64", "4,12,1024,64", "1,32,2048,128"]
CELLS = {f"{shape}/{mask}{way}": ["torch-sdpa"] + (["torch-matmul"] if shape in SHORT else [])
         for way in ("", "+backward") for mask in ("plain", "causal") for shape in SHORT + LONG_ROWS}
CELLS |= {"1,1,8192,64/plain+backward": ["torch-sdpa"], "1,1,8192,64/causal+backward": ["torch-sdpa"]}
CELLS |= {f"decode:{sizes},128,f32/plain": ["torch-sdpa", "torch-matmul"] for sizes in ("1,32,32,4096", "8,32,8,4096")}
CELLS |= {sizes: ["torch-linear"] for sizes in ("2048,2304,768", "2048,2048,2048", "64,512,512")}
CELLS |= {f"layer:{sizes}/{mode}": ["torch-packed", "torch-mha"]
          for mode in ("forward", "training") for sizes in ("128,4,32,64", "512,8,128,16", "768,12,1024,4")}
CELLS |= {f"train:{sizes}/step": ["torch-eager"] for sizes in ("2,256,8,64,32", "6,384,6,256,8")}
YARDSTICK = "50000000000"  # multiply-adds in registers: what the host's processors give together, whatever the work
CELLS = {YARDSTICK: []} | CELLS
LONG = 10e6  # nanoseconds on one thread from which on a speed-up is asked for
EFFICIENCY = 13 / 16


def request(cell):
    return "fma" if cell == YARDSTICK else "time" if "/" in cell else "gemm"


def where(bench):
    """This table is rarely measured on the machine of the others."""
    facts = machine() | bench.ask("ours", "info") | bench.ask("torch-sdpa", "info")
    return (f"{facts['processor']}, {facts['cores']} processors, {facts['memory']}, {facts['kernel']}; polyhead "
            f"{facts['polyhead']} ({facts['polyhead SIMD']}, {facts['compiler']}), torch {facts['torch']} "
            f"({facts['torch SIMD']}).")


def times_of(bench, cell, peers):
    """Of ours and of the peers, at the number of threads that is set."""
    entries = {name: (name, request(cell), cell) for name in ["ours", *bench.peers(peers)]}
    times, _ = bench.measure(entries, hopeless if peers else None)
    bench.release(entries)
    return times


def wanted(cell, only):
    """Whether the name contains one of these; all are wanted if there are none."""
    return not only or any(part in cell for part in only)


def measure(bench, counts, only):
    """{cell: {threads: times}}: all numbers of threads of a cell one after the other, since a shared host is slower at
    one hour than at another. An interrupt (Ctrl-C) ends it with the cells that are complete."""
    raw = {}
    try:
        for cell, peers in CELLS.items():
            if not wanted(cell, only) and cell != YARDSTICK:
                continue
            by_threads = {}
            for threads in counts:
                bench.use_threads(threads)
                times = by_threads[threads] = times_of(bench, cell, peers)
                progress(f"{cell}, {threads} threads: " + ", ".join(f"{name} {micro(t)}" for name, t in times.items()) + " us")
            raw[cell] = by_threads
    except KeyboardInterrupt:
        progress(f"stopped; complete cells: {len(raw)}")
    return raw


def scaling(bench, counts, only=()):
    if not any(wanted(cell, only) for cell in CELLS):
        return []
    facts = where(bench)
    return [table(counts, measure(bench, counts, only), facts)]


def table(counts, raw, facts):
    """Rows: our times, the speed-up over the fewest threads, and R beside the best of torch at each number."""
    if len(raw) < 2:
        sys.exit("no cell was measured at every number of threads")
    rows, gains, spreads = [], [], []
    medians, bounds = {threads: [] for threads in counts}, {threads: [] for threads in counts}
    ours = {threads: statistics.median(times["ours"]) for threads, times in raw[YARDSTICK].items()}
    given = ours[counts[0]] / ours[counts[-1]]
    rows.append(["multiply-adds in registers", *(micro(times["ours"]) for times in raw[YARDSTICK].values()), f"{given:.1f}",
                 *[""] * len(counts)])
    for cell, by_threads in raw.items():
        if cell == YARDSTICK:
            continue
        for threads, times in by_threads.items():
            paired = ratios(times[best_of(times, list(times)[1:])], times["ours"])
            medians[threads].append(statistics.median(paired))
            bounds[threads].append(lower_bound(paired))
            spreads.append(max(times["ours"]) / min(times["ours"]))
        ours = {threads: statistics.median(times["ours"]) for threads, times in by_threads.items()}
        gain = ours[counts[0]] / ours[counts[-1]]
        if ours[counts[0]] >= LONG:
            gains.append(gain / (counts[-1] / counts[0] * EFFICIENCY))
        rows.append([cell, *(micro(times["ours"]) for times in by_threads.values()), f"{gain:.1f}",
                     *(f"{bounds[threads][-1]:.2f}" for threads in counts)])
    rows.append(["geomean of R", *[""] * (len(counts) + 1), *(f"{geomean(found):.2f}" for found in bounds.values())])
    rows.append(["geomean of medians", *[""] * (len(counts) + 1), *(f"{geomean(found):.2f}" for found in medians.values())])
    medians, bounds = [sum(found.values(), []) for found in (medians, bounds)]
    bars = [("beside torch, worst", "1.0 (from 0.97)", f"{min(bounds):.2f}", min(bounds) >= PASSES_AS_ONE),
            ("beside torch, geomean", "1.4", f"{geomean(bounds):.2f}", geomean(bounds) >= 1.4)]
    if gains:
        bars.append((f"speed-up of {counts[-1]} threads, relative to {counts[-1] * EFFICIENCY:.3g}", "1.0",
                     f"{min(gains):.2f}", min(gains) >= 1))
    columns = ["", *(f"{n}: µs" for n in counts), "speed-up", *(f"{n}: R" for n in counts)]
    notes = [facts, f"The speed-up is that of {counts[-1]} threads over {counts[0]}; it is asked for where one thread takes "
             f"10 ms or more. Multiply-adds in registers, which nothing but the processors can limit, sped up by {given:.1f}. "
             "Cells are named as in the tables above; three sizes are a product.",
             f"Of {len(bounds)} ratios, R is below 0.97 in {sum(bound < PASSES_AS_ONE for bound in bounds)}, the median in "
             f"{sum(median < PASSES_AS_ONE for median in medians)} (worst {min(medians):.2f}, geomean {geomean(medians):.2f}). "
             f"Our slowest round of a cell took {statistics.median(spreads):.2f} times the fastest in the median, "
             f"{max(spreads):.2f} at most."]
    return Family("scaling", "Threads: our time, and R beside the best of torch", columns, rows, bars,
                  [closing("scaling", bounds)], notes, raw)
