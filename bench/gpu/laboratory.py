#!/usr/bin/env python3
"""The laboratory on a GPU, beside torch and transformers on the same one: passes over texts with and without statistics of every
head, the damage of every head, decoding, training steps, and how soon commands begin. FOLDER is where CMake built.

    bench/gpu/laboratory.py build/release [--only prefill,damage,decode,training,startup] [--models small,large] [--gguf FILE] [--out FILE]

Models are random Llamas in bf16, made here by transformers and read by both sides: small has the shape of SmolLM2-135M, large of
Llama 3 8B (16 GB, in the folder --scratch). Times are medians of rounds in which both sides take turns; a ratio is theirs over ours,
so above 1 we are ahead. --gguf is a real model for the commands; without it they are left out. The table is printed and written as JSON.
"""
import argparse
import ctypes
import datetime
import gc
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel

from racing import paired

sys.path += [str(pathlib.Path(__file__).resolve().parents[1])]  # bench: the GPT that training is compared by
import torch_gpt  # noqa: E402

SHAPES = {
    "small": dict(hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536,
                  vocab_size=49152, rope_theta=100000.0, tie_word_embeddings=True),
    "large": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336,
                  vocab_size=128256, rope_theta=500000.0, tie_word_embeddings=False),
}
CONTEXT, SHORT_CONTEXT = 33024, 4352  # tokens: for passes, and for decoding, which takes memory for all of them
TRAINED = {"(6,384,6,256,64)": (6, 384, 6, 256, 64), "GPT-2 124M (12,768,12,1024,16)": (12, 768, 12, 1024, 16)}
F32, TF32, BF16 = 0, 1, 2
ROWS = []


def row(what, ours, theirs=None, peer="", unit="ms", rounds=None, **more):
    """One line of the table. Seconds become milliseconds; rounds are the pairs that a ratio comes from."""
    ratio, bound = paired(*rounds) if rounds else (theirs / ours if theirs else None, None)
    scale = 1e3 if unit == "ms" else 1
    ROWS.append({"what": what, "unit": unit, "ours": ours * scale, "theirs": theirs * scale if theirs else None, "peer": peer,
                 "ratio": ratio, "R": bound, **more})
    print(line(ROWS[-1]), flush=True)


def line(found):
    number = lambda x: "" if x is None else f"{x:.2f}" if x < 1000 else f"{x:,.0f}"  # noqa: E731
    notes = ", ".join(f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
                      for key, value in found.items() if key not in ("what", "unit", "ours", "theirs", "peer", "ratio", "R"))
    return (f"| {found['what']} | {number(found['ours'])} {found['unit']} | {number(found['theirs'])} | {found['peer']} "
            f"| {number(found['ratio'])} | {number(found['R'])} | {notes} |")


class Ours:
    """libpolyhead_gpu_calls.so."""

    def __init__(self, folder):
        self.library = ctypes.CDLL(str(folder / "bench/libpolyhead_gpu_calls.so"))

    def call(self, name, *arguments):
        function = getattr(self.library, f"polyhead_gpu_{name}")
        function.restype = ctypes.c_char_p
        said = function(*arguments)
        if said:
            raise RuntimeError(f"{name}: {said.decode()}")

    def wait(self):
        self.call("wait")

    def model(self, path, precision=BF16):
        self.call("model", os.fsencode(path), ctypes.c_int64(precision))

    @staticmethod
    def shape(tokens):
        return ctypes.c_void_p(tokens.data_ptr()), ctypes.c_int64(tokens.shape[0]), ctypes.c_int64(tokens.shape[1])

    def prefill(self, tokens, statistics_set=0, logits=None):
        """Tokens i32 [B,T] on the host; statistics: 0 none, 1 light, 2 full."""
        self.call("prefill", *self.shape(tokens), ctypes.c_int64(statistics_set),
                  None if logits is None else ctypes.c_void_p(logits.data_ptr()))

    def decode(self, count, batch):
        tokens = torch.empty(count, batch, dtype=torch.int32)
        self.call("decode", ctypes.c_int64(count), ctypes.c_void_p(tokens.data_ptr()))
        return tokens


def race(calls, rounds, least=0.02):
    """{name: [seconds of every round]}, the order rotating, after a round that does not count; calls is {name: (call, wait)}."""
    def taken(call, wait, count):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        return (time.perf_counter() - begin) / count

    counts = {}
    for name, (call, wait) in calls.items():
        taken(call, wait, 1)
        counts[name] = max(1, round(least / taken(call, wait, 1)))
    times, names = {name: [] for name in calls}, list(calls)
    for turn in range(rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            times[name].append(taken(*calls[name], counts[name]))
    return times


def beside(what, times, ours="ours", **more):
    """The row of a race: ours beside the fastest of the others."""
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    best = min((name for name in times if not name.startswith("ours")), key=middle.get)
    row(what, middle[ours], middle[best], best, rounds=(times[best], times[ours]), **more)
    return middle


# ---- Models of both sides ----


def make_model(scratch, name):
    """Saves a random model, and returns its folder; the same weights with less context lie in FOLDER-short."""
    folder = scratch / name
    if (folder / "config.json").exists():
        return folder
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SHAPES[name], max_position_embeddings=CONTEXT, rms_norm_eps=1e-5)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    short = scratch / f"{name}-short"
    short.mkdir()
    for path in folder.iterdir():
        if path.name == "config.json":
            short.joinpath(path.name).write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": SHORT_CONTEXT}))
        else:
            short.joinpath(path.name).symlink_to(path)
    del model
    clear()
    return folder


def clear():
    gc.collect()
    torch.cuda.empty_cache()


def their_model(folder, attention="sdpa", dtype=torch.bfloat16):
    with torch.device("cuda"):
        return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention).cuda().eval()


def off_by(found, wanted):
    """Of the norm."""
    return ((found - wanted).norm() / wanted.norm()).item()


def expect_right_logits(ours, theirs, folder, name, length):
    """Ours [V] may be off twice as far as theirs from those of the same weights in f32; returns both distances."""
    tokens = random_tokens(name, 1, length)
    found = torch.empty(1, SHAPES[name]["vocab_size"])
    ours.prefill(tokens, 0, found)
    with torch.no_grad():
        beside = theirs(tokens.long().cuda(), use_cache=False, logits_to_keep=1).logits[0].float().cpu()
        exact = their_model(folder, dtype=torch.float32)
        wanted = exact(tokens.long().cuda(), use_cache=False, logits_to_keep=1).logits[0].cpu()
    del exact
    clear()
    off, theirs_off = off_by(found, wanted), off_by(beside, wanted)
    if not off < 2 * theirs_off:
        raise RuntimeError(f"{name}, {length} tokens: logits are off by {off} of their norm, transformers' by {theirs_off}")
    return off, theirs_off


def random_tokens(name, batch, length):
    return torch.randint(0, SHAPES[name]["vocab_size"], (batch, length), dtype=torch.int32, generator=torch.Generator().manual_seed(1))


# ---- The parts ----


def prefill(ours, scratch, name, rounds):
    folder = make_model(scratch, name)
    theirs = their_model(folder)
    begin = time.perf_counter()
    ours.model(folder)
    loading = time.perf_counter() - begin
    off, theirs_off = expect_right_logits(ours, theirs, folder, name, 2048)
    for length in (2048, 32768):
        tokens = random_tokens(name, 1, length)
        there = tokens.long().cuda()

        def run(backend=None):
            with torch.no_grad():
                if backend is None:
                    return theirs(there, use_cache=False, logits_to_keep=1).logits
                with sdpa_kernel([backend, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], set_priority=True):
                    return theirs(there, use_cache=False, logits_to_keep=1).logits

        calls = {"ours": (lambda: ours.prefill(tokens), ours.wait),
                 "ours, light": (lambda: ours.prefill(tokens, 1), ours.wait),
                 "ours, full": (lambda: ours.prefill(tokens, 2), ours.wait),
                 "sdpa": (run, torch.cuda.synchronize),
                 "sdpa, cuDNN": (lambda: run(SDPBackend.CUDNN_ATTENTION), torch.cuda.synchronize)}
        times = race(calls, rounds if name == "small" or length < 4096 else max(3, rounds // 3))
        middle = beside(f"{name}: pass over {length:,} tokens", times, off=off, theirs_off=theirs_off, load_s=loading)
        for kind in ("light", "full"):
            row(f"{name}: {length:,} tokens with {kind} statistics of every head", middle[f"ours, {kind}"],
                times=middle[f"ours, {kind}"] / middle["ours"])
        if name == "small" and length == 2048:
            entropy_by_weights(folder, there, middle["ours, light"])
    ours.call("model_end")
    del theirs
    clear()


def entropy_by_weights(folder, there, light):
    """What the statistics replace: every weight in memory."""
    eager = their_model(folder, "eager")

    def run():
        with torch.no_grad():
            weights = eager(there, use_cache=False, output_attentions=True, logits_to_keep=1).attentions
            return [-(w * w.clamp_min(1e-30).log()).sum(-1).mean(-1) for w in weights]

    taken = statistics.median(race({"weights": (run, torch.cuda.synchronize)}, 3)["weights"])
    row(f"small: entropy of every head, {there.shape[1]:,} tokens", light, taken, "output_attentions=True")
    del eager
    clear()


def damage(ours, scratch, name, rounds):
    """Of every head on 4 texts of 512 tokens; torch has no such call."""
    ours.model(make_model(scratch, name))
    tokens = random_tokens(name, 4, 512)
    heads = SHAPES[name]["num_hidden_layers"] * SHAPES[name]["num_attention_heads"]
    damages = torch.empty(heads, dtype=torch.float64)

    def run():
        ours.call("damage", *ours.shape(tokens), ctypes.c_void_p(damages.data_ptr()))

    times = race({"ours": (run, ours.wait)}, 3 if name == "small" else 1)["ours"]
    row(f"{name}: damage of {heads:,} heads, 4 x 512 tokens", statistics.median(times), unit="s", largest=damages.abs().max().item())
    ours.call("model_end")


def bandwidth():
    """Bytes a second that a copy reads and writes, together."""
    a, b = (torch.empty(2 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    return 2 * a.numel() / min(race({"copy": (lambda: b.copy_(a), torch.cuda.synchronize)}, 9)["copy"])


def decode(ours, scratch, name, rounds):
    folder = make_model(scratch, name)
    ours.model(f"{folder}-short")
    shape = SHAPES[name]
    inner = shape["hidden_size"] * (2 * shape["hidden_size"] + 3 * shape["intermediate_size"])
    head_dim = shape["hidden_size"] // shape["num_attention_heads"]
    kept = 2 * shape["num_key_value_heads"] * head_dim
    weights = 2 * (shape["num_hidden_layers"] * (inner + shape["hidden_size"] * kept) + shape["vocab_size"] * shape["hidden_size"])
    rate, count = bandwidth(), 64
    for batch, length in ((1, 512), (64, 4096)) if name == "large" else ((1, 512), (64, 512)):
        tokens = random_tokens(name, batch, length)
        ours.call("prompt", *ours.shape(tokens))
        taken = []
        for _ in range(4):
            begin = time.perf_counter()
            ours.decode(count // 2, batch)
            taken.append((time.perf_counter() - begin) / (count // 2))
        least = (weights + 2 * batch * length * shape["num_hidden_layers"] * kept) / rate
        theirs = compiled_decoding(folder, tokens, count) if name == "small" else None
        row(f"{name}: a token for each of {batch}, {length:,} cached", min(taken), theirs, "compiled, static cache" if theirs else "",
            of_copy_bandwidth=least / min(taken))
    ours.call("model_end")


def compiled_decoding(folder, tokens, count):
    """Seconds of a step: torch.compile over one token and a static cache, the likeliest token taken on the GPU."""
    model = their_model(folder)
    batch, length = tokens.shape
    cache = transformers.StaticCache(config=model.config, max_cache_len=length + count + 32)
    with torch.no_grad():
        token = model(tokens.long().cuda(), past_key_values=cache, logits_to_keep=1).logits[:, -1:].argmax(-1).squeeze(-1)[:, None]
        position = torch.tensor([length], device="cuda")

        def step(token, position):
            logits = model(token, past_key_values=cache, cache_position=position, position_ids=position.expand(batch, 1)).logits
            return logits[:, -1].argmax(-1, keepdim=True)

        fast = torch.compile(step, mode="reduce-overhead", fullgraph=False)
        taken = []
        for n in range(count):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            token = fast(token, position).clone()
            position = position + 1
            token.cpu()
            taken.append(time.perf_counter() - begin)
    del model, cache, fast
    torch._dynamo.reset()
    clear()
    return statistics.median(taken[count // 2:])


class TorchTraining(torch_gpt.TrainingRun):
    """Steps on the GPU, by the precision of products that is set, or under autocast."""

    def __init__(self, sizes, precision, compiled):
        super().__init__(sizes, compiled=compiled)
        self.precision = precision
        self.model.cuda()
        self.batches = [tuple(t.cuda() for t in batch) for batch in self.batches]

    def __call__(self):
        torch.set_float32_matmul_precision({F32: "highest", TF32: "high", BF16: "high"}[self.precision])
        with torch.autocast("cuda", torch.bfloat16, enabled=self.precision == BF16):
            return super().__call__()


def training(ours, _scratch, name, rounds):
    """The small GPT goes with the small model, the larger one with the large."""
    title = list(TRAINED)[name == "large"]
    loss = ctypes.c_double()

    def our_step():
        ours.call("training_step", ctypes.byref(loss))
        return loss.value

    for word, precision in (("f32", F32), ("tf32", TF32), ("bf16", BF16)):
        if name == "large" and precision != BF16:
            continue
        ours.call("training", (ctypes.c_int64 * 5)(*TRAINED[title]), ctypes.c_int64(precision))
        peers = {"eager": TorchTraining(TRAINED[title], precision, False)}
        if precision == BF16:
            peers["torch.compile"] = TorchTraining(TRAINED[title], precision, True)
        losses = [our_step() for _ in range(6)]
        for peer in peers.values():
            if not all(abs(a - b) < 0.05 for a, b in zip(losses, peer.losses(6))):
                raise RuntimeError(f"{title} {word}: losses differ")
        calls = {"ours": (our_step, ours.wait)} | {key: (lambda run=run: run().item(), torch.cuda.synchronize) for key, run in peers.items()}
        times = race(calls, rounds)
        middle = {key: statistics.median(taken) for key, taken in times.items()}
        for key in peers:
            row(f"training step {title} {word}", middle["ours"], middle[key], key, rounds=(times[key], times["ours"]))
    ours.call("training_end")
    torch.set_float32_matmul_precision("highest")
    clear()


def startup(command, model):
    """Seconds of whole commands that do next to nothing: what it takes until they begin to work."""
    text = pathlib.Path(__file__).resolve().parents[2] / "docs/notation.md"
    for words in (["generate", model, "--prompt", "It was", "--tokens", "1"], ["score", model, "--text", text],
                  ["heads", model, "--text", text, "--samples", "1", "--length", "64", "--no-gradient"]):
        taken = []
        for _ in range(4):
            begin = time.perf_counter()
            subprocess.run([command, *words, "--device", "cuda", "--precision", "bf16"], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            taken.append(time.perf_counter() - begin)
        row(f"polyhead {words[0]}, the whole command", min(taken), unit="s")


PARTS = {"prefill": prefill, "damage": damage, "decode": decode, "training": training}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default=",".join([*PARTS, "startup"]))
    parser.add_argument("--models", default="small,large")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--gguf", type=pathlib.Path, help="a model for the commands")
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/tmp/polyhead-laboratory"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT", ".")) / "laboratory.json")
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "transformers": transformers.__version__,
               "cuda": torch.version.cuda, "date": datetime.date.today().isoformat(), "rounds": arguments.rounds}
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print("| what | ours | theirs | peer | ratio | R | |\n|---|--:|--:|---|--:|--:|---|")
    ours, failed, begin = Ours(arguments.folder), [], time.perf_counter()
    parts = arguments.only.split(",")
    todo = [(part, name) for name in arguments.models.split(",") for part in PARTS if part in parts]
    for part, name in todo:
        start = time.perf_counter()
        try:
            PARTS[part](ours, arguments.scratch, name, arguments.rounds)
        except Exception as error:  # the next part is measured all the same
            failed.append(f"{part} {name}: {type(error).__name__}: {str(error)[:300]}")
        clear()
        print(f"<!-- {part} {name}: {time.perf_counter() - start:.0f} s -->", flush=True)
    if "startup" in parts and arguments.gguf:  # commands need a tokenizer
        startup(arguments.folder / "cli/polyhead", arguments.gguf)
    arguments.out.write_text(json.dumps({**machine, "rows": ROWS, "failed": failed}, indent=1) + "\n")
    print(f"\n{time.perf_counter() - begin:.0f} s in all; {arguments.out}")
    shutil.rmtree(arguments.scratch, ignore_errors=True)
    sys.exit("\n".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
