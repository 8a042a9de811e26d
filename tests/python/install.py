"""What a new user does: `pip install .` in a clean virtual environment, then the README's Python block. And the wheel of
`make wheel` has the one tag it should have, and does the same.

    python3 tests/python/install.py BUILD

builds once, without the kernels for GPUs, in the folder BUILD, which the next time saves most of the minutes. Part of make check.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAG = "cp310-abi3-manylinux_2_36_x86_64"


def environment(folder, *to_install):
    """Its Python, with those packages. All are made by one Python: another may name another compiler, and all is built anew."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", *to_install], cwd=ROOT, check=True)
    return folder / "bin/python"


def try_readme(python, folder):
    """Elsewhere, where the checkout's package cannot be found."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    shown = subprocess.run([python, "-c", block], cwd=folder, check=True, capture_output=True, text=True).stdout
    assert len(shown.splitlines()) == 5, f"expected a table of four heads, found\n{shown}"
    where = subprocess.run([python, "-c", "import polyhead; print(polyhead.__file__, len(polyhead.__version__))"], cwd=folder,
                           check=True, capture_output=True, text=True).stdout
    assert str(folder) in where, f"expected the package of {folder}, found {where}"


def main():
    build = Path(sys.argv[1]).resolve()
    settings = [f"--config-settings=build-dir={build}", "--config-settings=cmake.define.POLYHEAD_CUDA=OFF"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        try_readme(environment(folder / "source", *settings, "."), folder)
        print("pip install .: the README's example runs")
        subprocess.run(["make", "wheel", f"WHEEL_SETTINGS={' '.join(settings)}"], cwd=ROOT, check=True)
        wheels = [wheel.name for wheel in (ROOT / "build/wheel").iterdir()]
        assert len(wheels) == 1 and wheels[0].endswith(f"-{TAG}.whl"), f"expected one wheel for {TAG}, found {wheels}"
        try_readme(environment(folder / "wheel", ROOT / "build/wheel" / wheels[0]), folder)
        print(f"make wheel: {wheels[0]}; the README's example runs")


if __name__ == "__main__":
    main()
