"""Tensors of GGUF files as `polyhead inspect` writes them beside those of the gguf package, bit by bit: of a file with
every type, and of the files named.   usage: tests/parity/gguf_parity.py BUILD [FILE.gguf ...]"""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np


def fixtures():
    path = str(pathlib.Path(__file__).resolve().parents[2] / "tools/gguf-fixtures")
    loader = importlib.machinery.SourceFileLoader("gguf_fixtures", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def compare(program, path, folder):
    """The names of the tensors, and of those that differ."""
    names, differ = [], []
    for tensor in gguf.GGUFReader(path).tensors:
        out = folder / "tensor.npy"
        subprocess.run([program, "inspect", path, "--tensor", tensor.name, "--out", out], check=True)
        found = np.load(out).astype(np.float32)
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        names.append(tensor.name)
        if found.shape != expected.shape or not np.array_equal(found.view(np.uint32), expected.view(np.uint32)):
            differ.append(tensor.name)
    return names, differ


def main():
    program = pathlib.Path(sys.argv[1]) / "cli/polyhead"
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fixtures().write(folder, rows=64, blocks=17, seed=1)
        for path in [folder / "types.gguf", *sys.argv[2:]]:
            names, differ = compare(program, path, folder)
            print(f"{pathlib.Path(path).name}: {len(names)} tensors, {len(differ)} differ {' '.join(differ[:5])}", flush=True)
            failed = failed or bool(differ)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
