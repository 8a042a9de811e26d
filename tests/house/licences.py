"""The licences that a portable build is shipped with name all that it holds: every library on the lines that link it, and every
package whose headers were compiled.

    python3 tests/house/licences.py BUILD

BUILD is a folder that `make package` or `make wheel` has built in (install.py's BUILD-wheel).
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INTERFACES = {"libc6-dev", "linux-libc-dev"}  # of the C library, which is linked dynamically, and of the system


def printed(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def owner(path):
    """What a file belongs to, as cmake/licences.cmake calls it; None for our own."""
    path = Path(path).resolve()
    if ".portable" in path.parts:
        return path.parts[path.parts.index(".portable") + 1]
    if any(part.startswith("cuda") or part == "cu13" for part in path.parts) and ROOT / "src" not in path.parents:
        return "cuda"
    if ROOT in path.parents or re.search(r"/include/python3\.\d+/", str(path)):  # of Python we call what is there, and hold nothing
        return None
    package = printed("dpkg", "-S", path).split(":")[0]
    return re.sub(r"^libgcc-(\d+)-dev", r"libstdc++-\1-dev", package)


def held(build):
    """Owners of all that was compiled and linked there."""
    headers = {line.strip() for line in printed("ninja", "-C", build, "-t", "deps").splitlines() if line.startswith("    ")}
    told = {}  # one file of each folder tells whose it is, except where all meet
    for header in headers:
        path = (build / header).resolve()
        told[path if path.parent == Path("/usr/include") else path.parent] = path
    owners = {owner(path) for path in told.values()}
    targets = [line.split(":")[0] for line in printed("ninja", "-C", build, "-t", "targets", "all").splitlines()]
    targets = [name for name in targets if name.endswith(("/polyhead", "/_native.abi3.so")) or "/libpolyhead_c.so" in name]
    links = [line for line in printed("ninja", "-C", build, "-t", "commands", *targets).splitlines() if "python-zig cc" in line]
    assert links, f"expected lines by which zig links in {build}, found none: is it a portable build?"
    for line in links:
        owners |= {"zig", "glibc"} | ({"libunwind"} if "-lunwind" in line.split() else set())
        archives = {word for word in line.split() if word.endswith(".a")}
        owners |= {owner(build / word) for word in archives if (build / word).resolve().parent.parent != build}
    return owners - INTERFACES - {None}


def main():
    build = Path(sys.argv[1]).resolve()
    text = (build / "copyright").read_text()
    named = set(re.findall(r"^======== .* \((\S+)\) ========$", text, re.MULTILINE))
    found = held(build)
    assert len(found) > 8, f"expected libraries of others, found {found}"
    assert found == named, f"held and not named: {sorted(found - named)}; named and not held: {sorted(named - found)}"
    for sentence in ("GNU LESSER GENERAL PUBLIC LICENSE", "GCC RUNTIME LIBRARY EXCEPTION", "Permission is hereby granted", "Apache License"):
        assert sentence in text, f"expected the words '{sentence}', found none"
    print(f"{build}: the licences of all {len(found)} are there: {', '.join(sorted(found))}")


if __name__ == "__main__":
    main()
