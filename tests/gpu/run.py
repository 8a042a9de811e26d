#!/usr/bin/env python3
"""All tests that need a GPU, a line for each group. FOLDER is where CMake built: make test-gpu builds and runs this.

    tests/gpu/run.py build/release [--only kernels,commands] [--first SEED] [--draws N] [--gguf FILE] [--stamp FILE]

  kernels    every case of the catalogue, ops, models and queue, by the kernels that this GPU has
  portable   the same by those that every GPU has
  drawn      calls of all options together, drawn by seeds, by both kinds of kernels
  commands   every command that takes a device, beside the CPU (tests/gpu/commands.py)
  python     the Python package on CUDA tensors (tests/gpu/python_cuda.py), where torch is

A run of all groups writes tests/gpu/stamp.json, or what --stamp names: commit it if nothing failed. The machine with the GPU
needs no compiler: --pack gpu.tar.xz makes an archive of what a run needs of a build, to be taken there with tests/ and src/ and named in
place of the build.
"""
import argparse
import concurrent.futures
import datetime
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import stamp

HERE = pathlib.Path(__file__).resolve().parent
CHECK, LIBRARY, DIGESTS = "tests/cuda/polyhead_gpu_check", "capi/libpolyhead_c.so", "tests/cuda/gpu_sources.json"
PARTS = (CHECK, LIBRARY, DIGESTS, "capi/_native.abi3.so", "cli/polyhead")
SCRIPTS = ("commands", "python")  # groups of one process at a time
MEASURED = "bench/libpolyhead_gpu_calls.so"  # of bench/gpu/laboratory.py, which goes with them if it was built


def groups_of(arguments):
    """Of every group its commands, each with what it adds to the environment."""
    build = arguments.build
    portable = {"POLYHEAD_CUDA_KERNELS": "portable"}
    draws = [build / CHECK, "--filter", "drawn/", "--first", arguments.first, "--draws"]
    gguf = ["--gguf", arguments.gguf] if arguments.gguf else []
    library = {"PYTHONPATH": HERE.parents[1] / "python", "POLYHEAD_LIBRARY": build / LIBRARY}
    groups = {
        "kernels": [([build / CHECK, "--draws", 0], {})],
        "portable": [([build / CHECK, "--draws", 0], portable)],
        "drawn": [([*draws, arguments.draws], {}), ([*draws, arguments.draws // 2], portable)],
        "commands": [([sys.executable, HERE / "commands.py", build / "cli/polyhead", *gguf], {})],
        "python": [([sys.executable, HERE / "python_cuda.py", "--no-times"], library)],
    }
    if arguments.only:
        unknown = set(arguments.only.split(",")) - groups.keys()
        if unknown:
            sys.exit(f"--only: expected some of {', '.join(groups)}; found {', '.join(sorted(unknown))}")
        groups = {name: groups[name] for name in arguments.only.split(",")}
    return groups


def run(commands, verbose):
    """Passed and failed of a group; what failed is printed at once."""
    passed = failed = 0
    for words, environment in commands:
        done = subprocess.run([str(word) for word in words], env={**os.environ, **{k: str(v) for k, v in environment.items()}},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        counts = re.findall(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
        if verbose or done.returncode or not counts:
            print("\n".join(line for line in done.stdout.splitlines() if verbose or not line.startswith("ok ")), flush=True)
        passed += int(counts[-1][0]) if counts else 0
        failed += int(counts[-1][1]) if counts else 1
    return passed, failed


def of_the_gpu():
    """Name and driver."""
    found = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE,
                           text=True, check=True)
    return found.stdout.splitlines()[0].split(", ")


def libraries_of(program):
    """The shared libraries that a machine without our packages lacks: all but the compiler's and the system's own."""
    found = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    paths = re.findall(r"=> (/\S+)", found)
    return [path for path in paths if not re.match(r"lib(c|m|gcc_s|stdc\+\+|pthread|dl|rt)\.so", pathlib.Path(path).name)]


def pack(build, archive):
    parts = [*PARTS, MEASURED] if (build / MEASURED).exists() else PARTS
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive, "w:xz", preset=1) as tar:
        stripped = pathlib.Path(scratch) / "stripped"
        for part in parts:
            shutil.copy2(build / part, stripped)
            if not part.endswith(".json"):
                subprocess.run(["strip", stripped], check=True)
            tar.add(stripped, part)
        for library in {library for part in parts if not part.endswith(".json") for library in libraries_of(build / part)}:
            tar.add(pathlib.Path(library).resolve(), f"lib/{pathlib.Path(library).name}")


def opened(build, scratch):
    """The folder of a build; of an archive, what is in it. Programs find the libraries that lie beside them."""
    if not build.is_file():
        return build.resolve()
    with tarfile.open(build) as tar:
        tar.extractall(scratch)
    os.environ["LD_LIBRARY_PATH"] = f"{scratch}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return pathlib.Path(scratch)


def run_groups(arguments):
    """Returns 1 if something failed."""
    digests = json.loads((arguments.build / DIGESTS).read_text())
    old = stamp.changed(stamp.sources(), digests)
    if old:
        sys.exit(f"{arguments.build} was built from other sources: {', '.join(old)}; build polyhead_gpu_check again")
    groups = groups_of(arguments)
    if "python" in groups and importlib.util.find_spec("torch") is None:
        print("python     skipped: no torch", flush=True)
        del groups["python"]
    found, begin = {}, time.monotonic()

    def run_group(name):
        start = time.monotonic()
        passed, failed = run(groups[name], arguments.verbose)
        found[name] = {"passed": passed, "failed": failed}
        print(f"{name:10} {passed:6} passed {failed:4} failed {time.monotonic() - start:5.0f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor() as pool:  # the scripts beside the checks, which are many processes themselves
        for _ in pool.map(lambda lane: [run_group(name) for name in groups if (name in SCRIPTS) == lane], (False, True)):
            pass
    found = {name: found[name] for name in groups}
    passed, failed = (sum(group[word] for group in found.values()) for word in ("passed", "failed"))
    device, driver = of_the_gpu()
    print(f"{device}, driver {driver}: {passed} passed, {failed} failed, {time.monotonic() - begin:.0f} s", flush=True)
    if not arguments.only:
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        stamp.write({"device": device, "driver": driver, "date": today, "groups": found, "not_run": {}, "sources": digests},
                    arguments.stamp)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", help="groups, with commas between them; then no stamp is written")
    parser.add_argument("--first", type=int, default=1, help="the first seed of the draws")
    parser.add_argument("--draws", type=int, default=1500, help="how many seeds, each forward and backward; half as many by portable kernels")
    parser.add_argument("--gguf", type=pathlib.Path, help="a model for the commands, as SmolLM2's")
    parser.add_argument("--stamp", type=pathlib.Path, default=stamp.STAMP)
    parser.add_argument("--pack", type=pathlib.Path, help="make an archive of what a run needs, and run nothing")
    parser.add_argument("--verbose", action="store_true", help="print what every group prints")
    arguments = parser.parse_args()
    if arguments.pack:
        return pack(arguments.build, arguments.pack)
    with tempfile.TemporaryDirectory() as scratch:
        arguments.build = opened(arguments.build, scratch)
        sys.exit(run_groups(arguments))


if __name__ == "__main__":
    main()
