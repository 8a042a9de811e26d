"""What a new user does: `pip install .` in a clean virtual environment, then the README's Python block, the command by its two
names, and the notebook in a folder of its own. And the wheel of `make wheel` has the one tag it should have, is small, holds the
licences of all that is in it, and does the same.

    python3 tests/python/install.py BUILD

builds once for each, without the kernels for GPUs, in the folders BUILD-source and BUILD-wheel, which the next time saves most of
the minutes. Part of make check. Times are those of processors: the machine may be busy.
"""

import json
import os
import pty
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAG = "cp310-abi3-manylinux_2_27_x86_64.manylinux_2_28_x86_64"
MOST_BYTES = 40_000_000
MOST_SECONDS = 2 * 4 * 60  # two processors for four minutes, to compile all of it
MOST_TO_IMPORT = 0.150
MOST_BESIDE_NUMPY = 1.75  # times what NumPy takes, of which `import polyhead` holds one: for a busy machine, where all takes longer


def run_on_a_terminal(words, around):
    """What it says there, and the seconds that it took of processors."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execvpe(words[0], words, around)
    said = b""
    while True:
        try:
            said += os.read(terminal, 1 << 16)
        except OSError:  # it has come to an end
            break
    _, status, used = os.wait4(pid, 0)
    said = said.decode(errors="replace")
    assert status == 0, f"{words}: exit code {os.waitstatus_to_exitcode(status)}\n{said}"
    return said, used.ru_utime + used.ru_stime


def environment(folder, *to_install):
    """Its Python, with those packages. All are made by one Python: another may name another compiler, and all is built anew."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    around = {name: value for name, value in os.environ.items() if not name.endswith("_COMPILER_LAUNCHER")}  # nothing from a cache
    said, seconds = run_on_a_terminal([str(folder / "bin/pip"), "install", *map(str, to_install)], around)
    return folder / "bin/python", said, seconds


def printed(folder, *words):
    """Elsewhere, where the checkout's package cannot be found."""
    around = {**os.environ, "PATH": "/usr/bin:/bin", "POLYHEAD_CACHE": str(ROOT / "models")}
    return subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True, env=around).stdout


def seconds_of(python, statement):
    """Of a processor, the least of ten processes."""
    took = []
    for _ in range(10):
        pid = os.posix_spawn(python, [python, "-c", statement], os.environ)
        _, status, used = os.wait4(pid, 0)
        assert status == 0, statement
        took.append(used.ru_utime + used.ru_stime)
    return min(took)


def try_import(python):
    nothing = seconds_of(python, "pass")
    own, numpy = (seconds_of(python, f"import {name}") - nothing for name in ("polyhead", "numpy"))
    most = max(MOST_TO_IMPORT, MOST_BESIDE_NUMPY * numpy)
    assert own <= most, f"import polyhead: expected at most {most:.3f} s, found {own:.3f}"
    others = "import sys, polyhead; print(*sorted({'torch', 'transformers', 'IPython', 'matplotlib'} & set(sys.modules)))"
    found = printed(ROOT, python, "-c", others).strip()
    assert not found, f"import polyhead: expected no other package than NumPy, found {found}"
    return f"import polyhead takes {1e3 * own:.0f} ms, import numpy {1e3 * numpy:.0f}"


def try_child(command, folder):
    """What the command calls, here a tool of Hugging Face's, sees the environment that the user has set."""
    tool = folder / "tools/hf"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f'#!/bin/sh\nprintf "$MARK" > {folder}/mark\nexit 1\n')
    tool.chmod(0o755)
    around = {**os.environ, "PATH": f"{tool.parent}:/usr/bin:/bin", "MARK": "here", "POLYHEAD_CACHE": str(folder / "cache")}
    subprocess.run([command, "get", "hf:some/model"], env=around, stderr=subprocess.DEVNULL)
    found = (folder / "mark").read_text()
    assert found == "here", f"expected that a program called by {command} sees the environment, found '{found}'"
    (folder / "mark").unlink()


def try_all(python, folder):
    try_child(python.parent / "polyhead", folder)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    printed(folder, python.parent / "polyhead", "get", "smollm2")
    shown = "".join(printed(folder, python, "-c", block) for block in blocks)
    assert shown.startswith("orbit") and "entropy" in shown, f"expected how the model goes on, and a table, found\n{shown}"
    where, version = printed(folder, python, "-c", "import polyhead; print(polyhead.__file__, polyhead.__version__)").split()
    assert str(folder) in where, f"expected the package of {folder}, found {where}"
    for words in ([python.parent / "polyhead"], [python, "-m", "polyhead"]):
        found = printed(folder, *words, "--version")
        assert found == f"polyhead {version}\n", f"{words}: expected the version of the package, {version}, found {found}"
    book = json.loads((ROOT / "examples/heads.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    own = folder / f"notebook-{python.parents[1].name}"
    own.mkdir()
    found = printed(own, python, "-c", "\n".join(cells) + "\nprint(type(model).__name__)")
    assert found.endswith("Model\n") and (own / "run").is_dir(), f"expected that the notebook trains its model, found\n{found}"
    return try_import(python)


def try_source(build, folder):
    anew = not build.exists()
    settings = [f"--config-settings=build-dir={build}", "--config-settings=cmake.define.POLYHEAD_CUDA=OFF"]
    python, said, seconds = environment(folder / "source", *settings, ".")
    if anew:
        assert "polyhead: compiled" in said, f"expected a line now and then that says how far it is, found\n{said}"
        assert seconds <= MOST_SECONDS, f"pip install .: expected {MOST_SECONDS} s of processors, found {seconds:.0f}"
    told = try_all(python, folder)
    print(f"pip install .: {seconds:.0f} s of processors{'' if anew else ', much of it built before'}; the README's example, the command "
          f"and the notebook run; {told}")  # fmt: skip


def try_symbols(wheel, folder):
    """What its binaries leave to others is glibc's, with a version, or Python's. auditwheel does not see a symbol without one, which
    a later glibc had when it was linked."""
    zipfile.ZipFile(wheel).extractall(folder / "unpacked")
    for file in (folder / "unpacked").rglob("*"):
        if file.is_file() and file.read_bytes()[:4] == b"\x7fELF":
            lines = subprocess.run(["nm", "-D", "--undefined-only", file], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
            open_ones = [line.split()[1] for line in lines if line.split()[0] == "U" and "@" not in line]
            unknown = [name for name in open_ones if not re.match("_?Py|polyhead_", name)]
            assert not unknown, f"{file.name}: expected symbols of a glibc's version or of Python, found {', '.join(unknown)}"


def try_wheel(build, folder):
    subprocess.run(["make", "wheel", f"WHEEL_SETTINGS=--config-settings=build-dir={build}"], cwd=ROOT, check=True)
    (wheel,) = (ROOT / "build/wheel").glob("*.whl")
    assert wheel.name.endswith(f"-{TAG}.whl"), f"expected a wheel for {TAG}, found {wheel.name}"
    assert wheel.stat().st_size <= MOST_BYTES, f"expected at most {MOST_BYTES} bytes, found {wheel.stat().st_size}"
    try_symbols(wheel, folder)
    subprocess.run([sys.executable, ROOT / "tests/house/licences.py", build], check=True)
    (licences,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/licenses/copyright"))
    assert zipfile.ZipFile(wheel).read(licences) == (build / "copyright").read_bytes(), f"{licences}: expected the text of the build"
    (sources,) = (ROOT / "build/wheel").glob("*-source.tar.xz")
    names = [Path(name).name for name in tarfile.open(sources).getnames()]
    assert {"CMakeLists.txt", "licences.cmake"} <= set(names) and any(re.fullmatch(r"libmicrohttpd_.*\.orig\.tar\..*", name) for name in names), names
    told = try_all(environment(folder / "wheel", wheel)[0], folder)
    print(f"make wheel: {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB; the same runs; {told}")


def main():
    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        try_source(Path(f"{build}-source"), folder)
        try_wheel(Path(f"{build}-wheel"), folder)


if __name__ == "__main__":
    main()
