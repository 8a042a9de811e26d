"""Polyhead beside `transformers`, for random models of every family and for the models named. The error of our logits, or
of what an encoder leaves, of what every layer reads and of the weights of every head, against theirs in float64, is at
most twice that of theirs in float32; the likeliest tokens after a prompt are the same. Folders that `polyhead prune` writes for
transformers give the logits there that its own give here, also those of GGUF files, whose tokenizer comes along.
usage: tests/parity/model_parity.py BUILD [MODEL ...]     (a MODEL is a folder or a GGUF file)"""
import json
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
    """The output whose error is largest beside the most that it may be: that share, and its name.

    The error is the root of the mean square. The largest deviation of all is luck where a model magnifies rounding (of twelve batches to
    gemma2 it was 0.4 to 4.2 times theirs): it may be five times theirs, which one wrong number is not."""
    shares = []
    for name, expected in double.items():
        ulp = float(np.spacing(np.float32(np.abs(expected).max())))
        mine, theirs = (np.abs(made[name] - expected) for made in (found, single))
        shares.append((np.sqrt((mine**2).mean()) / (2 * np.sqrt((theirs**2).mean()) + ulp), name))
        shares.append((mine.max() / (5 * theirs.max() + 2 * ulp), name))
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


PRUNED = {"llama": True, "llama_one_kv": True, "mistral": True, "qwen2": True, "qwen3_window": True, "gemma2": True, "gemma3": True,
          "gpt2": False, "gpt_neox": False}  # whether a head can leave: not where the head dim is width / heads
WINDOWS, WINDOW = 96, 5  # within the sliding windows of all


def write_text(path, file):
    """A text that the model knows, so that it has something to lose: windows of its own likeliest tokens, a sign of their own each."""
    model = loaded(path)
    signs = [chr(0x4E00 + n) for n in range(model.config.vocab_size)]
    vocabulary = {"type": "BPE", "vocab": {sign: n for n, sign in enumerate(signs)}, "merges": []}
    (path / "tokenizer.json").write_text(json.dumps({"model": vocabulary, "decoder": {"type": "Fuse"}}))
    model.generation_config.eos_token_id = None
    first = torch.arange(WINDOWS)[:, None] % model.config.vocab_size
    tokens = model.generate(first, attention_mask=torch.ones_like(first), do_sample=False, pad_token_id=0, max_new_tokens=WINDOW - 1)
    file.write_text("".join(signs[n] for n in tokens.flatten().tolist()))


def prune(command, path, text, layout, out, options=("--length", str(WINDOW), "--budget", "40")):
    """The folder that `polyhead prune` leaves of a model; None if it is refused."""
    ran = subprocess.run([command, "prune", path, "--text", text, *options, "--order", "random", "--layout", layout, "--out", out],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out if ran.returncode == 0 else None


def check_pruned(build, path, possible, draw):
    """What transformers computes of a pruned folder is what polyhead computes of its own, from which the same heads are gone."""
    text = path.with_name(f"{path.name}-text")
    write_text(path, text)
    theirs = prune(build / "cli/polyhead", path, text, "transformers", path.with_name(f"{path.name}-theirs"))
    if theirs is None or not possible:
        return (theirs is not None) == possible, "refused" if theirs is None else "written"
    own = prune(build / "cli/polyhead", path, text, "polyhead", path.with_name(f"{path.name}-own"))
    return same_logits(build, theirs, own, draw)


def same_logits(build, theirs, own, draw):
    model = loaded(theirs)
    tokens = draw.integers(0, model.config.vocab_size, (SEQUENCES, LENGTH))
    single, double = (random_models.outputs(model, tokens, dtype) for dtype in (torch.float32, torch.float64))
    with tempfile.TemporaryDirectory() as out:
        found = ours(build / "tests/model/model_outputs", own, tokens, pathlib.Path(out))
    share, _ = worst(found, {"output": single["output"]}, {"output": double["output"]})
    # How well we round is judged on whole models. Here it is which heads are gone: a wrong one would be off by orders of magnitude.
    return share <= 10, f"{share:.2f} of the error allowed, {model.config.num_attention_heads} heads a layer"


def check_pruned_gguf(build, path, folder, draw):
    """The same of a GGUF file, of which config, names and tokenizer are made: its tokens are those of the file."""
    text, few = pathlib.Path(__file__).resolve().parents[2] / "LICENSE", ("--length", "16", "--samples", "2", "--budget", "10")
    theirs, own = (prune(build / "cli/polyhead", path, text, layout, folder / layout, few) for layout in ("transformers", "polyhead"))
    words = text.read_text() + " 12345 déjà vu 日本語\t<|im_start|>user\n  x"
    ran = subprocess.run([build / "tests/text/tokenize_lines", path], input=json.dumps(words) + "\n", check=True, capture_output=True, text=True)
    expected = [token[0] for token in json.loads(ran.stdout)["special"]]
    if transformers.AutoTokenizer.from_pretrained(theirs)(words)["input_ids"] != expected:
        return False, "other tokens"
    return same_logits(build, theirs, own, draw)


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
    build = pathlib.Path(sys.argv[1])
    program = build / "tests/model/model_outputs"
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
        for name, possible in PRUNED.items():
            right, words = check_pruned(build, folder / f"{name}-float32", possible, draw)
            print(f"{name}, pruned for transformers: {words}{'' if right else '; WRONG'}", flush=True)
            failed = failed or not right
        for path in (path for path in sys.argv[2:] if path.endswith(".gguf")):
            right, words = check_pruned_gguf(build, path, folder, draw)
            print(f"{pathlib.Path(path).name}, pruned for transformers: {words}{'' if right else '; WRONG'}", flush=True)
            failed = failed or not right
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
