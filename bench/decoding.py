#!/usr/bin/env python3
"""Generating and reading with a GGUF model beside llama.cpp (xllamacpp, from PyPI): tokens a second of one sequence, in
turns in which the other is asleep. What counts is the lower bound of the ratios paired by round.

    pip install xllamacpp
    bench/decoding.py build/release/bench/polyhead_bench MODEL.gguf [--threads 1,2] [--rounds 15]
"""
import argparse
import datetime
import importlib.metadata
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
GENERATED = 48  # tokens that llama.cpp makes in a turn
CELLS = {"decode at 64": ("decode", 64), "decode at 450": ("decode", 450), "decode at 1,500": ("decode", 1500),
         "prompt of 450": ("prefill", 450)}
BARS = {"decode": 1.0, "prefill": 2.0}


def serve_llama(model, threads):
    """Answers "prefill N" and "decode N" with the nanoseconds of a token, as llama.cpp counts them."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    settings.n_ctx, settings.n_parallel, settings.cache_prompt = 2048, 1, False
    server = xllamacpp.Server(settings)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        what, length = line.split()
        answer = server.handle_completions({
            "prompt": [200 + n * 7919 % 48000 for n in range(int(length))], "n_predict": GENERATED if what == "decode" else 1,
            "ignore_eos": True, "temperature": 0, "top_k": 1, "samplers": ["top_k"], "cache_prompt": False})
        timings = (answer if isinstance(answer, dict) else json.loads(answer))["timings"]
        milliseconds = timings["predicted_per_token_ms"] if what == "decode" else timings["prompt_per_token_ms"]
        print(json.dumps({"ns": milliseconds * 1e6}), flush=True)


def measured(turns, ours, what, length, count):
    """Nanoseconds of a token, ours and llama.cpp's, round by round."""
    cell, tokens = f"model:{what},{length}:{ours}", 1 if what == "decode" else length
    calls = (4, GENERATED) if what == "decode" else (0, 1)
    turns.ask("ours", "time", cell, *calls)
    turns.ask("llama", what, length)
    times = {"ours": [], "llama": []}
    for number in range(count):
        for name in (("ours", "llama"), ("llama", "ours"))[number % 2]:
            reply = turns.measure(name, *(("time", cell, *calls) if name == "ours" else (what, length)))
            times[name].append(reply["ns"] / (tokens if name == "ours" else 1))
    turns.release("ours")
    return times


def main():
    from report import machine, table
    from servers import Turns, geomean, lower_bound, ratios

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cells", default=",".join(map(str, range(len(CELLS)))), help="numbers of cells, from 0 on")
    arguments = parser.parse_args()
    model = arguments.model.resolve()
    rows, bounds = [], []
    for threads in map(int, arguments.threads.split(",")):
        with Turns() as turns:
            turns.add("ours", [arguments.binary.resolve(), threads], OPENBLAS_NUM_THREADS="1")
            turns.add("llama", [sys.executable, HERE / "decoding.py", "--serve", model, threads])
            turns.servers["llama"].answer(("its beginning",))
            if not rows:
                facts = machine() | {name: value for name, value in turns.ask("ours", "info").items()
                                     if name in ("polyhead SIMD", "compiler")}
                facts["xllamacpp"] = importlib.metadata.version("xllamacpp")
                print(f"{datetime.date.today()}: {model.name}: " + ", ".join(f"{name} {value}" for name, value in facts.items()))
            for number in map(int, arguments.cells.split(",")):
                label, (what, length) = list(CELLS.items())[number]
                times = measured(turns, model, what, length, arguments.rounds)
                paired = ratios(times["llama"], times["ours"])
                bound, bar = lower_bound(paired), BARS[what]
                if what == "decode":
                    bounds.append(bound)
                rows.append([label, str(threads), *(f"{1e9 / statistics.median(times[name]):.0f}" for name in ("ours", "llama")),
                             f"{statistics.median(paired):.2f}", f"{bound:.2f}", f"{bar}", "met" if bound >= bar else "**fail**"])
                print(" ".join(rows[-1]), file=sys.stderr, flush=True)
            note = turns.quietness()
    print("\n" + table(["what", "threads", "ours, tokens/s", "llama.cpp", "median", "R", "bar", ""], rows))
    if bounds:
        print(f"\nDecoding: worst {min(bounds):.2f}, geomean {geomean(bounds):.2f} (bar 1.3). {note}")


if __name__ == "__main__":
    serve_llama(sys.argv[2], int(sys.argv[3])) if sys.argv[1:2] == ["--serve"] else main()
