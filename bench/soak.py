#!/usr/bin/env python3
"""Runs every op at many thread counts for a while and looks out for a hang. Needs polyhead_bench and nothing else.

  bench/soak.py --minutes 10
  bench/soak.py --threads 8,16,64 --minutes 1

A call that gives no answer for --patience seconds hangs: the stacks of all its threads are printed, by gdb or cuda-gdb
where there is one, and the status is 1. Status 0: no hang.
"""
import argparse
import os
import pathlib
import selectors
import shutil
import subprocess
import sys
import time

from servers import PeerError, Server

HERE = pathlib.Path(__file__).resolve().parent
TURN = 0.25  # seconds that a request should take

# Long rows and few heads make the threads of a backward pass wait for each other most.
BACKWARD = ("1,1,2048,64", "1,1,8192,64", "4,12,1024,64", "1,32,2048,128", "8,12,128,64", "64,4,32,32")
FORWARD = ("1,1,1024,64", "4,12,1024,64", "8,12,128,64", "64,4,32,32", "4,4,16,128")
CASES = [("time", f"{shape}/{mask}+backward") for shape in BACKWARD for mask in ("plain", "causal")]
CASES += [("time", f"{shape}/{options}") for shape in FORWARD for options in ("plain", "causal", "plain+light")]
CASES += [("time", "decode:1,32,32,4096,128,f32/plain"), ("time", "decode:8,32,8,1024,64,bf16/plain"),
          ("gemm", "2048,768,768"), ("gemm", "64,512,512"), ("gemm", "512,2048,2048"),
          ("time", "layer:512,8,128,16/forward"), ("time", "layer:512,8,128,16/training"),
          ("time", "layer:128,4,32,64/training"), ("time", "train:2,128,4,64,16/step")]


class Hang(RuntimeError):
    pass


class Watched(Server):
    """A server whose answers are waited for only so long."""

    def __init__(self, name, command, patience):
        super().__init__(name, command)
        self.patience = patience
        self.ready = selectors.DefaultSelector()
        self.ready.register(self.process.stdout, selectors.EVENT_READ)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        if not self.ready.select(self.patience):
            raise Hang(f"{self.name}: no answer for {self.patience} s to '{' '.join(map(str, words))}'")
        return self.answer(words)

    def stacks(self):
        """Of all threads, as a debugger shows them; without one, what the kernel says that each waits for."""
        debugger = shutil.which("gdb") or shutil.which("cuda-gdb")
        if debugger:
            command = [debugger, "-p", str(self.process.pid), "-batch", "-ex", "thread apply all backtrace"]
            return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        return "\n".join(self.threads("wchan"))


def usual_threads():
    """Powers of two and their neighbours, to four times the processors."""
    most = 4 * len(os.sched_getaffinity(0))
    counts = {n + step for n in (2**i for i in range(1, 11)) if n <= most for step in (-1, 0, 1)}
    return sorted(n for n in counts if 2 <= n <= most)


def soak(server, deadline):
    """Asks for every case in turn until it is time; gives the number of calls."""
    calls = {}
    total = 0
    while True:
        for case in CASES:
            if time.monotonic() > deadline:
                return total
            if case not in calls:
                calls[case] = max(1, round(TURN * 1e9 / server.ask(*case, 0, 1)["ns"]))
            server.ask(*case, 0, calls[case])
            total += calls[case]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=usual_threads(),
                        help="such as 2,4,64; each gets the same share of the time")
    parser.add_argument("--patience", type=float, default=30, help="seconds without an answer that make a hang")
    parser.add_argument("--binary", default=HERE.parent / "build/release/bench/polyhead_bench", type=pathlib.Path)
    return parser.parse_args()


def main():
    args = arguments()
    start = time.monotonic()
    for number, threads in enumerate(args.threads, 1):
        server = Watched(f"{threads} threads", [args.binary.resolve(), threads], args.patience)
        try:
            calls = soak(server, start + 60 * args.minutes * number / len(args.threads))
        except Hang as hang:
            print(f"HANG: {hang}", server.stacks(), sep="\n", flush=True)
            server.process.kill()
            return 1
        except PeerError as error:
            sys.exit(f"soak.py: {error}")
        server.close()
        print(f"{threads:4} threads: {calls:8} calls, no hang", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
