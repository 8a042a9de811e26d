"""What is measured of real models: encoding, reading a prompt and decoding beside transformers; statistics of all heads;
a long prompt; loading; the command `polyhead heads`."""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

from families import HERE, PASSES_AS_ONE, closing, progress
from report import Family
from servers import PeerError, geomean, lower_bound, ratios

ROOT = HERE.parent
MINILM = ROOT / "models/minilm"
SMOLLM2 = ROOT / "models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CELLS = [("MiniLM, encode 1 x 32", f"model:encode,1,32:{MINILM}"), ("MiniLM, encode 32 x 128", f"model:encode,32,128:{MINILM}"),
         ("SmolLM2, prefill 512", f"model:prefill,512:{SMOLLM2}"), ("SmolLM2, decode at 64", f"model:decode,64:{SMOLLM2}"),
         ("SmolLM2, decode at 2,048", f"model:decode,2048:{SMOLLM2}"),
         ("SmolLM2, statistics of a prompt of 512", f"model:statistics,512:{SMOLLM2}")]
PEER = "torch-transformers"
ALLOWED_DIFFERENCE = 1e-3  # of the largest output


def milli(times):
    return f"{statistics.median(times) / 1e6:.1f}"


def check(bench, cell):
    """Both compute the same."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name in ("ours", PEER):
            path = pathlib.Path(folder) / name
            bench.ask(name, "output", cell, path)
            found.append(np.fromfile(path, dtype=np.float32))
    if found[0].shape != found[1].shape or not np.abs(found[0] - found[1]).max() <= ALLOWED_DIFFERENCE * np.abs(found[1]).max():
        raise PeerError(f"ours and transformers differ at {cell}")


def fetch_models(bench):
    subprocess.run([bench.command, "get", "minilm", "smollm2"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "POLYHEAD_CACHE": str(ROOT / "models")})


def models(bench):
    """Beside transformers, in f32."""
    fetch_models(bench)
    rows, bounds, raw, load = [], {}, {}, os.getloadavg()[0]
    for label, cell in CELLS:
        check(bench, cell)
        times, _ = bench.measure({name: (name, "time", cell) for name in ("ours", PEER)})
        bench.release(times)
        raw[label] = times
        paired = ratios(times[PEER], times["ours"])
        bounds[label] = lower_bound(paired)
        rows.append([label, milli(times["ours"]), milli(times[PEER]), f"{statistics.median(paired):.2f}", f"{bounds[label]:.2f}"])
        progress("models " + " ".join(rows[-1]))
    plain = [bound for label, bound in bounds.items() if "statistics" not in label]
    traced = [bound for label, bound in bounds.items() if "statistics" in label][0]
    bars = [("models, worst", "1.0 (from 0.97)", f"{min(plain):.2f}", min(plain) >= PASSES_AS_ONE),
            ("models, geomean", "1.3", f"{geomean(plain):.2f}", geomean(plain) >= 1.3),
            ("statistics of every head beside output_attentions and entropy", "2", f"{traced:.2f}", traced >= 2)]
    notes = ["transformers has SDPA, and eager attention with output_attentions=True followed by the entropy of every row "
             "for the statistics; a prompt ends in the logits of the next token. Before a cell is timed, both results are "
             f"compared. Load of the machine when it began: {load:.1f}."]
    return [Family("models", "Real models beside transformers, f32 (ms a call)", ["what", "ours", "transformers", "median", "R"],
                   rows, bars, [closing("models", plain)], notes, raw)]


def in_own_process(bench, cell, calls, memory=False):
    """Times and, if wanted, the peak memory of a case in a fresh process."""
    words = f"time {cell} 0 {calls}\n" + (f"memory {cell}\n" if memory else "")
    made = subprocess.run([bench.binary, str(bench.threads)], input=words, capture_output=True, text=True, check=True)
    replies = [json.loads(line) for line in made.stdout.splitlines()]
    for reply in replies:
        if "error_text" in reply:
            raise PeerError(f"ours: {reply['error_text']}")
    return replies


def long_prompt(bench):
    """Reading 8,192 tokens with and without statistics, and what memory it takes."""
    fetch_models(bench)
    load, rows, raw = os.getloadavg()[0], [], {}
    for tokens in (2048, 8192):
        found = {}
        for what in ("plain", "statistics"):
            found[what] = in_own_process(bench, f"model:{what},{tokens}:{SMOLLM2}", 1 if tokens > 4096 else 3, memory=True)
        raw[tokens] = found
        (plain, room), (traced, more) = found["plain"], found["statistics"]
        rows.append([f"{tokens:,}", f"{plain['ns'] / 1e9:.2f}", f"{traced['ns'] / 1e9:.2f}", f"{traced['ns'] / plain['ns']:.3f}",
                     f"{room['peak'] / 2**20:.0f}", f"{more['peak'] / 2**20:.0f}"])
        progress("long-prompt " + " ".join(rows[-1]))
    cost = raw[8192]["statistics"][0]["ns"] / raw[8192]["plain"][0]["ns"]
    bars = [("extra cost of statistics at 8,192 tokens", "≤ 1.1", f"{cost:.3f}", cost <= 1.1)]
    notes = [f"SmolLM2-135M, each in a process of its own; the memory is the process's peak. Load when it began: {load:.1f}."]
    return [Family("long-prompt", "A long prompt, with the statistics of every head",
                   ["tokens", "plain s", "with statistics s", "ratio", "plain MiB", "with statistics MiB"], rows, bars, [], notes)]


GENERATED = 1024
GENERATION_BAR = 10


def generation(bench):
    """Tokens of a small model one by one, with the keys and values of those before at hand, and without."""
    load, cell = os.getloadavg()[0], f"{GENERATED}:gpt,6,384,6"
    seconds = {what: in_own_process(bench, f"model:{what},{cell}", calls)[0]["ns"] / 1e9
               for what, calls in (("generate", 3), ("regenerate", 1))}
    gain = seconds["regenerate"] / seconds["generate"]
    row = [f"{GENERATED:,}", f"{seconds['generate']:.2f}", f"{seconds['regenerate']:.2f}", f"{gain:.1f}"]
    progress("generation " + " ".join(row))
    bars = [(f"{GENERATED:,} tokens with the cache", f"≥ {GENERATION_BAR}", f"{gain:.1f}", gain >= GENERATION_BAR)]
    notes = ["6 layers of width 384 with 6 heads, random weights, a vocabulary of 1,000, one sequence. Without the cache every "
             f"token reads all those before it again and makes the logits of the last one alone. Load when it began: {load:.1f}."]
    return [Family("generation", "Generating with the KV cache, and without (s)", ["tokens", "with", "without", "ratio"], [row], bars,
                   [], notes)]


def commands(bench):
    """Loading, and `polyhead heads` with and without damage."""
    fetch_models(bench)
    load = os.getloadavg()[0]
    rows, bars = [], []
    reply = in_own_process(bench, f"model:load:{SMOLLM2}", 3)[0]
    seconds = {"load from GGUF": (reply["ns"] / 1e9, 2)}
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text"
        text.write_text((ROOT / "LICENSE").read_text())
        for label, extra, most in (("polyhead heads, 512 tokens, without damage", [], 5),
                                   ("polyhead heads, 512 tokens, damage of 270 heads", ["--damage"], 60)):
            if not bench.has_command:
                break
            start = time.monotonic()
            ran = subprocess.run([bench.command, "heads", SMOLLM2, "--text", text, "--length", "256", "--samples", "2", *extra],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder)
            if ran.returncode != 0:
                raise PeerError(f"polyhead heads: {ran.stderr}")
            seconds[label] = (time.monotonic() - start, most)
            progress(f"commands {label} {seconds[label][0]:.1f}")
    for label, (took, most) in seconds.items():
        rows.append([label, f"{took:.2f}", f"{most}"])
        bars.append((label, f"≤ {most} s", f"{took:.2f} s", took <= most))
    return [Family("commands", "Loading SmolLM2, and examining its heads (s)", ["what", "s", "at most"], rows, bars, [],
                   [f"Load of the machine when it began: {load:.1f}."])]
