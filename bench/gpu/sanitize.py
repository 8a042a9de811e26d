#!/usr/bin/env python3
"""The check of the GPU under compute-sanitizer, tool by tool. FOLDER is where CMake built.

    bench/gpu/sanitize.py build/release [--tools memcheck,racecheck,initcheck] [--filter TEXT] [--seconds 3600]
"""
import argparse
import pathlib
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tools", default="memcheck,racecheck,initcheck")
    parser.add_argument("--filter", default="", help="only items whose names have this in them")
    parser.add_argument("--seconds", type=int, default=3600, help="of each tool, at most")
    arguments = parser.parse_args()
    failed = []
    for tool in arguments.tools.split(","):
        print(f"== {tool}", flush=True)
        done = subprocess.run(["compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", "9",
                               arguments.folder / "tests/cuda/polyhead_gpu_check", "--filter", arguments.filter,
                               "--seconds", str(arguments.seconds), "--item-seconds", "600"])
        if done.returncode != 0:
            failed.append(tool)
    sys.exit(f"found errors: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
