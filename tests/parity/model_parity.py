"""Logits of polyhead beside those of `transformers`, for random models of every family and for the models named: the
error of ours against theirs in float64 is at most twice that of theirs in float32.
usage: tests/parity/model_parity.py BUILD [MODEL ...]     (a MODEL is a folder or a GGUF file)"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

import random_models


def compare(program, path, model, tokens, folder):
    """The error of ours, and the most that it may be."""
    single, double = (random_models.logits(model, tokens, dtype) for dtype in (torch.float32, torch.float64))
    out = folder / "logits.npy"
    subprocess.run([program, path, out, *map(str, tokens)], check=True)
    ours = np.load(out)[0].astype(np.float64)
    ulp = np.spacing(np.float32(np.abs(double).max()))
    return np.abs(ours - double).max(), 2 * np.abs(single - double).max() + 2 * float(ulp)


def loaded(path):
    path = pathlib.Path(path)
    if path.suffix != ".gguf":
        return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    # What is loaded from GGUF counts as quantised and cannot be converted, though its weights are floats.
    stored = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    stored.config.__dict__.pop("quantization_config", None)
    model = transformers.AutoModelForCausalLM.from_config(stored.config, dtype=torch.float32)
    model.load_state_dict(stored.state_dict())
    return model.eval()


def main():
    program = pathlib.Path(sys.argv[1]) / "tests/model/model_logits"
    draw = np.random.default_rng(13)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cases = []
        for number, make in enumerate(random_models.ALL):
            model = random_models.make(make(), number)
            for dtype in (torch.float32, torch.bfloat16, torch.float16):  # as stored
                path = folder / f"{make.__name__}-{str(dtype)[6:]}"
                model.to(dtype).save_pretrained(path, max_shard_size="20KB")
                cases.append(path)
        for path in [*cases, *sys.argv[2:]]:
            model = loaded(path)
            tokens = draw.integers(0, model.config.vocab_size, 29).tolist()
            error, most = compare(program, path, model, tokens, folder)
            print(f"{pathlib.Path(path).name}: error {error:.2e}, allowed {most:.2e}", flush=True)
            failed = failed or not error <= most
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
