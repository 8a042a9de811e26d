"""What is measured: one function per family, each giving tables with their bars."""
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from report import Family
from servers import PeerError, Turns, geomean, lower_bound, ratios, rounds

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = ["4,4,16,128", "2,8,10,64", "64,4,32,32", "8,12,128,64", "1,12,1024,64", "4,12,1024,64", "1,32,2048,128",
          "1,12,8192,64"]
PEERS = ["torch-sdpa", "torch-matmul", "ort-attention", "ort-mha"]
UNCOUNTED = ["ort-gqa"]  # causal only; shown, but not among the peers that R is taken against
TRAINING_PEERS = ["torch-sdpa", "torch-matmul"]
ALLOWED_ERROR = 5e-6  # of any output, against float64; inputs have variance 1
ALLOWED_GRADIENT_ERROR = 2e-5  # dv of an early key sums what a thousand rows send back
PASSES_AS_ONE = 0.97


class Bench:
    """The servers, started when first needed, and the settings of this run."""

    def __init__(self, binary, python, threads, round_count):
        self.binary, self.python, self.threads, self.round_count = binary, python, threads, round_count
        self.turns = Turns()
        self.command = binary.parents[1] / "cli/polyhead"
        self.has_blas = self.has_command = True
        self.processors = []  # that ours and torch are kept on; empty: any
        self.libraries = {"torch", "ort"}  # those that are here

    def lacking(self):
        """What this run has to do without, found out before anything is measured."""
        found = []
        if "OpenBLAS" not in self.ask("ours", "info"):
            self.has_blas = False
            found.append("polyhead_bench was built without OpenBLAS: products are measured beside torch alone, and no "
                         "share of its rate (tools/install-packages bench, then build anew)")
        try:
            subprocess.run([self.command, "--version"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.has_command = False
            found.append(f"{self.command} is not there or does not run: no command is measured")
        for library, peer in (("torch", "torch-sdpa"), ("ort", "ort-attention")):
            try:
                self.ask(peer, "info")
            except PeerError:
                self.libraries.discard(library)
                self.turns.servers.pop(peer).close()
                found.append(f"{'torch' if library == 'torch' else 'onnxruntime'} is not here: its columns stay empty")
        return found

    def peers(self, names):
        return [name for name in names if name.partition("-")[0] in self.libraries]

    def use_threads(self, threads):
        """For ours and torch, as they run and as they will be started; the others keep what they began with. They take their
        turns on the same processors, as many as threads: left alone, each stays on those it began on, and on a shared host one
        processor may be half as fast as another."""
        self.threads, self.processors = threads, sorted(os.sched_getaffinity(0))[:threads]
        for name in filter(self.scales, self.turns.servers):
            self.turns.servers[name].stay_on(self.processors)
            self.ask(name, "threads", threads)

    def scales(self, name):
        """Whether this server can change its number of threads."""
        return name.startswith(("ours", "torch"))

    def server(self, name):
        if name not in self.turns.servers:
            if name == "ours":  # OpenBLAS is linked, but must not start threads beside ours
                self.turns.add(name, [self.binary, self.threads], OPENBLAS_NUM_THREADS="1")
            elif name == "ours-one-thread":
                self.turns.add(name, [self.binary, 1], OPENBLAS_NUM_THREADS="1")
            elif name == "sgemm":
                self.turns.add(name, [self.binary, self.threads], OPENBLAS_NUM_THREADS=str(self.threads))
            else:
                self.turns.add(name, [self.python, HERE / "peers.py", name, self.threads])
            if self.processors and self.scales(name):
                # Not before it has started: OpenMP counts the processors then, and its threads wait differently on fewer than they are.
                self.ask(name, "info")
                self.turns.servers[name].stay_on(self.processors)
        return name

    def package(self):
        """The environment in which our Python package is found."""
        library = self.binary.parents[1] / "capi/libpolyhead_c.so"
        return {"PYTHONPATH": str(HERE.parent / "python"), "POLYHEAD_LIBRARY": str(library), "PYTHONDONTWRITEBYTECODE": "1"}

    def ask(self, name, *words):
        return self.turns.ask(self.server(name), *words)

    def check(self, name, cell, allowed=ALLOWED_ERROR):
        """Whether a server computes what the others do; raises PeerError if not."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "output"
            self.ask(name, "output", cell, path)
            error = self.ask("numpy", "check", cell, path)["error"]
        if not error <= allowed:
            raise PeerError(f"{name}: error {error:.1e} at {cell}")

    def measure(self, entries, skip=None):
        for server, *_ in entries.values():
            self.server(server)
        return rounds(self.turns, entries, self.round_count, skip)

    def release(self, names):
        self.turns.release(*(name for name in names if name in self.turns.servers and name not in ("sgemm", "numpy")))


def progress(text):
    print(text, file=sys.stderr, flush=True)


def flops(cell):
    b, h, t, d = map(int, cell.partition("/")[0].split(","))
    return (10 if "backward" in cell else 4) * b * h * t * t * d / (2 if "causal" in cell else 1)


def micro(times):
    """Median in microseconds, three digits."""
    value = statistics.median(times) / 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def closing(name, values):
    return f"{name} worst {min(values):.2f} geomean {geomean(values):.2f}"


# --- beside the peers -------------------------------------------------------------------------------------------------

def share_target(cell):
    """The least share of the sgemm rate that is asked for, None where none is."""
    shape, option = cell.split("/")
    _, _, t, d = map(int, shape.split(","))
    if t >= 1024:
        return 0.72 if option == "causal" else 0.85 if d == 128 else 0.80
    return {"8,12,128,64/plain": 0.75, "8,12,128,64/causal": 0.55, "64,4,32,32/plain": 0.60}.get(cell)


def sgemm_size(bench):
    """The size at which the yardstick is fastest; None without OpenBLAS."""
    if not bench.has_blas:
        return None
    rate = {n: n**3 / bench.ask("sgemm", "sgemm", n, 5)["ns"] for n in (2048, 3072)}
    return max(rate, key=rate.get)


def able(bench, peers, cell, allowed=ALLOWED_ERROR):
    """The peers that compute this cell, and rightly: within `allowed`, ours always within what f32 allows."""
    bench.check("ours", cell, ALLOWED_GRADIENT_ERROR if "backward" in cell else ALLOWED_ERROR)
    found = []
    for peer in bench.peers(peers):
        try:
            bench.check(peer, cell, allowed)
            found.append(peer)
        except PeerError as error:
            progress(f"left out: {error}")
    return found


def hopeless(times):
    """Peers that take twice the time of the best: three rounds show as much."""
    peers = [key for key in times if key not in ("ours", "sgemm", "read") and key not in UNCOUNTED]
    best = min(statistics.median(times[peer]) for peer in peers)
    return [key for key in [*peers, *UNCOUNTED] if key in times and statistics.median(times[key]) > 2 * best]


def best_of(times, peers):
    return min((peer for peer in peers if peer in times), key=lambda peer: statistics.median(times[peer]))


def forward(bench, peers=PEERS):
    """Every cell beside the peers, and beside sgemm where a share of its rate is asked for. Without peers the latter
    alone."""
    size, cells = sgemm_size(bench), {}
    for cell in [f"{shape}/{option}" for option in ("plain", "causal") for shape in SHAPES]:
        if not peers and not share_target(cell):
            continue
        present = able(bench, peers + (UNCOUNTED if peers and "causal" in cell else []), cell)
        entries = {name: (name, "time", cell) for name in ["ours", *present]}
        if size and share_target(cell):
            entries["sgemm"] = ("sgemm", "sgemm", size)
        times, _ = bench.measure(entries, hopeless if present else None)
        bench.release(entries)
        cells[cell] = times
        progress(f"{cell}: " + ", ".join(f"{name} {micro(t)}" for name, t in times.items()) + " us")
    families = [forward_table(bench, cells)] if peers else []
    return families + [share_table(cells, size)]


def forward_table(bench, cells):
    rows, bounds = [], {}
    for cell, times in cells.items():
        present = [peer for peer in PEERS if peer in times]
        best = best_of(times, present)
        paired = ratios(times[best], times["ours"])
        bounds[cell] = lower_bound(paired)
        rows.append([cell, micro(times["ours"]), f"{flops(cell) / statistics.median(times['ours']):.0f}",
                     *(micro(times[peer]) if peer in times else "-" for peer in PEERS + UNCOUNTED), best,
                     f"{statistics.median(paired):.2f}", f"{bounds[cell]:.2f}"])
    every = list(bounds.values())
    causal = [bound for cell, bound in bounds.items() if "causal" in cell]
    other = [bound for cell, bound in bounds.items() if "causal" not in cell]
    bars = [("forward, worst", "1.0 (from 0.97)", f"{min(every):.2f}", min(every) >= PASSES_AS_ONE),
            ("forward, geomean", "1.6", f"{geomean(every):.2f}", geomean(every) >= 1.6),
            ("causal cells, geomean", "1.8", f"{geomean(causal):.2f}", geomean(causal) >= 1.8)]
    columns = ["B,H,T,D", "ours", "GF/s", *PEERS, *(f"({peer})" for peer in UNCOUNTED), "best peer", "median", "R"]
    return Family("forward", "Forward, beside the peers (µs a call)", columns, rows, bars,
                  [closing("forward-noncausal", other), closing("forward-causal", causal), closing("forward", every)],
                  [empty_calls(bench), "(ort-gqa) is causal only and not one of the peers that R is taken against."],
                  cells)


def empty_calls(bench):
    """What a call costs that has next to nothing to do."""
    cell = "1,1,1,8/plain"
    times, _ = bench.measure({name: (name, "time", cell) for name in ["ours", *bench.peers(PEERS)]})
    bench.release(times)
    return ("An empty call (1,1,1,8), for the cells under 50 µs: "
            + ", ".join(f"{name} {micro(t)} µs" for name, t in times.items()) + ".")


def share_table(cells, size):
    columns = ["B,H,T,D", "ours GF/s", "sgemm GF/s", "share", "lower bound", "asked", ""]
    title = "Share of the sgemm rate"
    if not size:
        return Family("sgemm-share", title, columns, [[c, "no OpenBLAS", *[""] * 5] for c in cells if share_target(c)])
    rows, reached = [], []
    for cell, times in cells.items():
        target = share_target(cell)
        if not target:
            continue
        work = flops(cell) / (2 * size**3)
        shares = [work * share for share in ratios(times["sgemm"], times["ours"])]
        reached.append(lower_bound(shares) / target)
        rows.append([cell, f"{flops(cell) / statistics.median(times['ours']):.0f}",
                     f"{2 * size**3 / statistics.median(times['sgemm']):.0f}", f"{statistics.median(shares):.3f}",
                     f"{lower_bound(shares):.3f}", f"{target:.2f}", "pass" if reached[-1] >= 1 else "FAIL"])
    bars = [("every share of sgemm, relative to what is asked", "1.0", f"{min(reached):.2f}", min(reached) >= 1)]
    return Family("sgemm-share", title, columns, rows, bars, [closing("sgemm-share", reached)],
                  [f"The yardstick is OpenBLAS, {size}³, on as many threads, in the same rounds."], cells)


# --- the backward pass ------------------------------------------------------------------------------------------------

def backward(bench):
    """dq, dk and dv beside torch."""
    rows, bounds, raw = [], {}, {}
    for cell in [f"{shape}/{option}+backward" for option in ("plain", "causal") for shape in SHAPES]:
        present = able(bench, TRAINING_PEERS, cell, ALLOWED_GRADIENT_ERROR)
        times, _ = bench.measure({name: (name, "time", cell) for name in ["ours", *present]}, hopeless)
        bench.release(times)
        raw[cell] = times
        best = best_of(times, present)
        paired = ratios(times[best], times["ours"])
        bounds[cell] = lower_bound(paired)
        rows.append([cell.removesuffix("+backward"), micro(times["ours"]),
                     f"{flops(cell) / statistics.median(times['ours']):.0f}",
                     *(micro(times[peer]) if peer in times else "-" for peer in TRAINING_PEERS), best,
                     f"{statistics.median(paired):.2f}", f"{bounds[cell]:.2f}"])
        progress("backward " + " ".join(rows[-1]))
    every = list(bounds.values())
    bars = [("backward, worst", "1.0 (from 0.97)", f"{min(every):.2f}", min(every) >= PASSES_AS_ONE),
            ("backward, geomean", "1.5", f"{geomean(every):.2f}", geomean(every) >= 1.5)]
    beside = Family("backward", "Backward, beside torch (µs a call)",
                    ["B,H,T,D", "ours", "GF/s", *TRAINING_PEERS, "best peer", "median", "R"], rows, bars,
                    [closing("backward", every)],
                    ["The forward pass is not timed: ours is given its output and lse, torch keeps its graph. Flops are "
                     "10·B·H·T²·D, causal half of that."], raw)
    return [beside]


def backward_ratios(bench):
    """What the gates' gradients and large logits cost, and what a second thread brings to one long head."""
    rows, reached = [], []
    for shape in SHAPES:
        times, _ = bench.measure({"gates": ("ours", "time", f"{shape}/gate_gradients+backward"),
                                  "plain": ("ours", "time", f"{shape}/gates_on+backward")})
        bench.release(["ours"])
        tax = 1 / lower_bound(ratios(times["plain"], times["gates"]))
        reached.append(1.03 / tax)
        rows.append([f"{shape}, gate gradients", f"{statistics.median(ratios(times['gates'], times['plain'])):.3f}",
                     f"{tax:.3f}", "≤ 1.03", "pass" if tax <= 1.03 else "FAIL"])
    for shape, variance in itertools.product(("1,12,1024,64", "1,32,2048,128"), (16, 64)):
        times, _ = bench.measure({"large": ("ours", "time", f"{shape}/variance_{variance}+backward"),
                                  "plain": ("ours", "time", f"{shape}/plain+backward")})
        bench.release(["ours"])
        tax = 1 / lower_bound(ratios(times["plain"], times["large"]))
        reached.append(1.15 / tax)
        rows.append([f"{shape}, q and k of variance {variance}",
                     f"{statistics.median(ratios(times['large'], times['plain'])):.3f}", f"{tax:.3f}", "≤ 1.15",
                     "pass" if tax <= 1.15 else "FAIL"])
    times, _ = bench.measure({name: (name, "time", "1,1,8192,64/plain+backward") for name in ("ours", "ours-one-thread")})
    bench.release(times)
    gain = lower_bound(ratios(times["ours-one-thread"], times["ours"]))
    reached.append(gain / 1.7)
    rows.append(["1,1,8192,64, two threads over one",
                 f"{statistics.median(ratios(times['ours-one-thread'], times['ours'])):.3f}", f"{gain:.3f}", "≥ 1.7",
                 "pass" if gain >= 1.7 else "FAIL"])
    return [Family("backward-ratios", "Backward: gates, large logits and threads", ["what", "median", "bound", "asked", ""], rows,
                   [("gates, large logits and threads, relative to what is asked", "1.0", f"{min(reached):.2f}", min(reached) >= 1)],
                   [closing("backward-ratios", reached)])]


# --- our own ratios ---------------------------------------------------------------------------------------------------

def statistics_tax(bench):
    rows, reached, raw = [], {"light": [], "full": []}, {}
    allowed = {"light": 1.15, "full": 1.30}
    for cell in [f"{s}/{o}" for o in ("plain", "causal") for s in SHAPES if int(s.split(",")[2]) >= 128]:
        times, _ = bench.measure({key: ("ours", "time", cell + suffix)
                                  for key, suffix in (("none", ""), ("light", "+light"), ("full", "+full"))})
        bench.release(["ours"])
        raw[cell] = times
        row = [cell, micro(times["none"])]
        for key, most in allowed.items():
            tax = 1 / lower_bound(ratios(times["none"], times[key]))
            reached[key].append(most / tax)
            row += [f"{statistics.median(ratios(times[key], times['none'])):.3f}", f"{tax:.3f}",
                    "pass" if tax <= most else "FAIL"]
        rows.append(row)
        progress("statistics " + " ".join(row))
    bars = [(f"{key} set, times the plain forward", f"≤ {most}", f"{most / min(reached[key]):.3f}",
             min(reached[key]) >= 1) for key, most in allowed.items()]
    columns = ["B,H,T,D", "plain µs", "light", "upper bound", "≤ 1.15", "full", "upper bound", "≤ 1.30"]
    return [Family("statistics", "Statistics: time relative to the plain forward", columns, rows, bars,
                   [closing(f"statistics-{key}", r) for key, r in reached.items()]
                   + [closing("statistics", reached["light"] + reached["full"])], raw=raw)]


def memory(bench):
    """Peak memory in fresh processes, at a length where the matrix of one head alone takes 1 GiB."""
    shape, limit, rows, extras = "1,12,16384,64", 64e6, [], []
    ways = [("ours", f"{shape}/plain"), ("ours", f"{shape}/light"), ("ours", f"{shape}/full"),
            ("torch-materialised", f"{shape}/plain")]
    for name, cell in ways:
        alone = Bench(bench.binary, bench.python, bench.threads, 1)
        with alone.turns:
            reply = alone.ask(name, "memory", cell)
        if name == "ours":
            extras.append(max(reply["extra"], 1))
        rows.append([f"{name} {cell}", f"{reply['ns'] / 1e9:.2f}", f"{reply['extra'] / 1e6:.1f}"])
        progress("memory " + " ".join(rows[-1]))
    found = max(extras)
    return [Family("memory", f"Memory beyond inputs and outputs at {shape}", ["way", "seconds", "MB"], rows,
                   [("most of ours", "< 64 MB", f"{found / 1e6:.1f} MB", found < limit)],
                   [closing("memory", [limit / extra for extra in extras])],
                   ["torch-materialised takes output and light statistics from the softmax matrix, one head at a time so "
                    "that it fits; all heads at once would hold twelve times as much."])]


OPTIONS = dict.fromkeys(["causal", "window", "alibi", "softcap", "sink_logit", "lengths", "packed", "grouped"], 0.75)
OPTIONS |= dict.fromkeys(["keep", "bias", "dropout"], 0.5)


def options_tax(bench):
    shape, rows, reached, raw = "1,12,1024,64", [], [], {}
    pairs = [("plain", option, target) for option, target in OPTIONS.items()] + [("gates_on", "gates_half", 1.8)]
    for base, option, target in pairs:
        times, replies = bench.measure({key: ("ours", "time", f"{shape}/{key}") for key in (base, option)})
        gates = base == "gates_on"  # there it is the plain ratio of times
        work = 1 if gates else replies[option]["visible"] / replies[base]["visible"]
        found = [work * ratio for ratio in ratios(times[base], times[option])]
        reached.append(lower_bound(found) / target)
        raw[option] = times
        rows.append([option, micro(times[option]), "" if gates else f"{work:.3f}", f"{statistics.median(found):.3f}",
                     f"{lower_bound(found):.3f}", f"{target}", "pass" if reached[-1] >= 1 else "FAIL"])
        progress("options " + " ".join(rows[-1]))
    bench.release(["ours"])
    return [Family("options", f"Options at {shape}: rate per visible score, relative to plain",
                   ["option", "µs", "visible", "rate", "lower bound", "asked", ""], rows,
                   [("every option, relative to what is asked", "1.0", f"{min(reached):.2f}", min(reached) >= 1)],
                   [closing("options", reached)],
                   ["window: 128 to each side. keep: a tenth hidden at random, one mask for all heads. "
                    "bias: [1,H,T,T]. lengths: 811 of 1024. packed: 100, 200, 300, 424. grouped: 4 kv heads. "
                    "gates_half: the time with all gates at 1 over that with half of them at 0."], raw)]


# --- the build --------------------------------------------------------------------------------------------------------

def build(bench):
    """Clean builds for the CPU, in folders of their own."""
    rows, reached = [], []
    for what, option, limit in (("library alone", "-DPOLYHEAD_LIBRARY_ONLY=ON", 180),
                                ("library and command", "-DPOLYHEAD_DEVELOPER=OFF", 180),
                                ("with tests, examples, bench", "-DPOLYHEAD_DEVELOPER=ON", 360)):
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            for command in (["cmake", "-G", "Ninja", "-S", HERE.parent, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                             "-DPOLYHEAD_CUDA=OFF", option],
                            ["cmake", "--build", folder, "--parallel", str(min(2, os.cpu_count()))]):
                subprocess.run(command, check=True, stdout=sys.stderr)
            seconds = time.monotonic() - start
        reached.append(limit / seconds)
        rows.append([what, f"{seconds:.0f}", limit, "pass" if seconds <= limit else "FAIL"])
    return [Family("build", "Clean build on two cores", ["what", "seconds", "at most", ""], rows,
                   [(row[0], f"≤ {row[2]} s", f"{row[1]} s", row[3] == "pass") for row in rows],
                   [closing("build", reached)])]
