"""Polyhead beside `transformers`, for random models of every family and for the models named. The error of our logits, or
of what an encoder leaves, of what every layer reads and of the weights of every head, against theirs in float64, is at
most twice that of theirs in float32; the likeliest tokens after a prompt are the same.
usage: tests/parity/model_parity.py BUILD [MODEL ...]     (a MODEL is a folder or a GGUF file)"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

import random_models

SEQUENCES, LENGTH, GENERATED = 6, 29, 8


def ours(program, path, tokens, folder):
    """Outputs by name, as random_models.outputs has them."""
    subprocess.run([program, path, folder, str(LENGTH), *map(str, tokens.flatten().tolist())], check=True)
    return {file.stem: np.load(file).astype(np.float64) for file in folder.glob("*.npy")}


def worst(found, single, double):
    """The output whose error is largest beside the most that it may be: that share, and its name."""
    shares = []
    for name, expected in double.items():
        ulp = float(np.spacing(np.float32(np.abs(expected).max())))
        most = 2 * np.abs(single[name] - expected).max() + 2 * ulp
        shares.append((np.abs(found[name] - expected).max() / most, name))
    return max(shares)


def generated(model, tokens):
    if not model.can_generate():
        return None
    model.generation_config.eos_token_id = None
    prompt = torch.tensor(tokens[:1, :LENGTH // 2])
    return model.float().generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, pad_token_id=0,
                                  max_new_tokens=GENERATED)[0, LENGTH // 2:].numpy()


def loaded(path):
    path = pathlib.Path(path)
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    if path.suffix != ".gguf":
        kind = random_models.kind_of(transformers.AutoConfig.from_pretrained(path))
        return kind.from_pretrained(path, **options).eval()
    # What is loaded from GGUF counts as quantised and cannot be converted, though its weights are floats.
    stored = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, **options)
    stored.config.__dict__.pop("quantization_config", None)
    model = transformers.AutoModelForCausalLM.from_config(stored.config, **options)
    model.load_state_dict(stored.state_dict())
    return model.eval()


def save_random(folder):
    paths = []
    for number, make in enumerate(random_models.ALL):
        model = random_models.make(make(), number)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):  # as stored
            paths.append(folder / f"{make.__name__}-{str(dtype)[6:]}")
            model.to(dtype).save_pretrained(paths[-1], max_shard_size="20KB")
    return paths


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    program = pathlib.Path(sys.argv[1]) / "tests/model/model_outputs"
    draw = np.random.default_rng(13)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path in [*save_random(folder), *sys.argv[2:]]:
            model = loaded(path)
            tokens = draw.integers(2, model.config.vocab_size, (SEQUENCES, LENGTH))
            with tempfile.TemporaryDirectory() as out:
                found = ours(program, path, tokens, pathlib.Path(out))
            single, double = (random_models.outputs(model, tokens, dtype) for dtype in (torch.float32, torch.float64))
            share, where = worst(found, single, double)
            same = np.array_equal(found.get("generated"), generated(model, tokens))
            print(f"{pathlib.Path(path).name}: {share:.2f} of the error allowed, in {where}"
                  f"{'' if same else '; GENERATES SOMETHING ELSE'}", flush=True)
            failed = failed or not share <= 1 or not same
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
