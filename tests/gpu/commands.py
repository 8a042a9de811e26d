#!/usr/bin/env python3
"""Every command that takes a device, on a GPU and on the CPU: the same answers, or a refusal that says why.

    tests/gpu/commands.py build/release/cli/polyhead [--gguf FILE] [--device cpu] [WORD ...]

Models are made here: three that the command trains, and random ones of families that others save. --gguf adds a real one. --device
cpu tries the script itself without a GPU. Words are parts of names of checks to run.

In f32 numbers may differ by F32 of the largest in their column, or of 1 if that is more; roles and removed heads are the same, and
tables that people read differ by one unit of the last printed place at most. In 16 bits numbers may differ by HALF, and a role may
change only where its score is that near to its threshold. Which head is most like another, and correlations of ranks, hang on
comparisons of almost equal numbers: they are judged in f32 alone, by LOOSE.
"""
import argparse
import array
import base64
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BYTE = 2.01 / 255  # by which a weight that is kept as a byte may differ: it may have been rounded to the byte beside
F32, HALF = 5e-5, {"tf32": 5e-3, "bf16": 4e-2, "f16": 5e-3}
LOOSE = {"agreement": 0.02, "rank_correlation_gradient_zero": 0.1, "rank_correlation_gradient_mean": 0.1,
         "rank_correlation_zero_mean": 0.1, "sinks": 0.01}
UNJUDGED = re.compile("most_similar|seconds|_ms$|speed|time|^device$|^precision$")  # near ties, what a clock said, and where
LETTERS = "abcdefghijklmnop"
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Lab:
    """The command, its device, and models to run it on."""

    def __init__(self, arguments, folder):
        self.polyhead, self.device, self.folder = arguments.polyhead.resolve(), arguments.device, pathlib.Path(folder)
        self.gguf = arguments.gguf.resolve() if arguments.gguf else None

    def run(self, *words, code=0, environment=None):
        """What it printed; throws unless it ends with that code."""
        done = subprocess.run([str(self.polyhead), *map(str, words)], cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**os.environ, **(environment or {})})
        assert done.returncode == code, f"{' '.join(map(str, words))}: expected {code}, found {done.returncode}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def on(self, precision, *words):
        """On the GPU in that precision, or on the CPU if it is none."""
        where = ["--device", self.device] + (["--precision", precision] if precision != "f32" else [])
        return self.run(*words, *(where if precision else ["--threads", "4"]))

    def found(self, precision, *words):
        return json.loads(self.on(precision, *words, "--format", "json"))

    def precisions(self):
        return ("f32", "tf32", "bf16", "f16") if self.device == "cuda" else ("f32",)

    def make(self):
        """The models, as names in the folder."""
        draw = random.Random(1)
        (self.folder / "letters.txt").write_text("".join(phrase * draw.randint(1, 3) for phrase in (
            "".join(draw.choices(LETTERS, k=draw.randint(4, 30))) for _ in range(400))))
        (self.folder / "lines.txt").write_text("\n".join("".join(draw.choices(LETTERS, k=draw.randint(3, 90))) for _ in range(70)) + "\n")
        small = ["--layers", 2, "--width", 128, "--heads", 2, "--threads", 4]
        todo = [["train", "copy", *small, "--steps", 250, "--out", "copies"],
                ["train", "classify", *small, "--steps", 60, "--out", "classes"],
                ["train", "text", "--file", "letters.txt", *small, "--context", 128, "--steps", 60, "--out", "book"],
                ["train", "text", "--file", "letters.txt", *small, "--context", 128, "--steps", 60, "--seed", 2, "--out", "other"]]
        with concurrent.futures.ThreadPoolExecutor(len(todo)) as pool:
            list(pool.map(lambda words: self.run(*words), todo))
        inner = {"intermediate_size": (7, 384), "max_position_embeddings": (13, 256)}
        self.enlarge("llama", {"hidden_size": (12, 128), "head_dim": (6, 64), **inner}, {24: 256})
        self.enlarge("bert", {"hidden_size": (12, 192), **inner}, {})
        self.enlarge("gpt2", {"n_embd": (12, 192), "n_inner": (10, 256), "n_positions": (13, 256)}, {36: 576})

    def enlarge(self, name, sizes, other):
        """A random model with the tensors of a fixture: those of its sizes made larger, and a tokenizer of letters."""
        fixture, folder = ROOT / "tests/fixtures/models" / name, self.folder / name
        folder.mkdir()
        config = json.loads((fixture / "config.json").read_text())
        for key, (small, large) in sizes.items():
            assert config[key] == small, f"{name}: {key} is {config[key]}"
            config[key] = large
        (folder / "config.json").write_text(json.dumps(config))
        larger = dict(sizes.values()) | other
        with open(fixture / "model.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        draw, data, tensors = random.Random(name), bytearray(), {}
        for tensor, about in header.items():
            if tensor == "__metadata__":
                continue
            shape = [larger.get(size, size) for size in about["shape"]]
            norm = len(shape) == 1 and tensor.endswith("weight")
            spread = 0.1 if len(shape) == 1 else shape[-1] ** -0.5
            numbers = array.array("f", (norm + draw.gauss(0, spread) for _ in range(math.prod(shape))))
            tensors[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(numbers)]}
            data += numbers.tobytes()
        text = json.dumps(tensors).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        vocabulary = {letter: n for n, letter in enumerate(LETTERS)}
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": vocabulary, "merges": []},
                                                           "decoder": {"type": "Fuse"}}))


# ---- What is the same ----


def is_number(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def largest(values):
    return max((abs(x) for x in values if is_number(x)), default=0)


def differences(a, b, bound, where="", scale=1.0, judged=LOOSE):
    """Where two answers differ by more than the bound, in words; texts must be equal."""
    key = where.rsplit(".", 1)[-1]
    if UNJUDGED.search(key) or (key in LOOSE and judged is None):
        return []
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        scale = scale if isinstance(scale, dict) else {}
        return [x for k in a for x in differences(a[k], b[k], bound, f"{where}.{k}", scale.get(k, 1.0), judged)]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        rows = [x for x in a if isinstance(x, dict)]
        columns = {k: max(1.0, largest(row.get(k) for row in rows)) for row in rows[:1] for k in row}
        scale = columns or max(1.0, largest(a))
        return [d for n, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, bound, f"{where}[{n}]", scale, judged)]
    if is_number(a) and is_number(b) and abs(a - b) <= (LOOSE[key] if key in LOOSE else bound * max(scale, abs(a))):
        return []
    return [] if a == b else [f"{where}: {a!r} on the CPU, {b!r} on the GPU"]


def expect_same(a, b, bound, judged=LOOSE):
    found = differences(a, b, bound, judged=judged)
    assert not found, f"{len(found)} differences beyond {bound}:\n  " + "\n  ".join(found[:12])


def expect_same_text(a, b):
    """Tables as people read them: words are equal, numbers up to one unit of their last place."""
    number = re.compile(r"-?\d+(?:\.\d+)?")
    for one, other in zip(a.splitlines(), b.splitlines(), strict=True):
        assert number.sub("#", one).split() == number.sub("#", other).split(), f"{one}\n{other}"
        for x, y in zip(number.findall(one), number.findall(other), strict=True):
            unit = 10.0 ** -len(x.partition(".")[2])
            assert abs(float(x) - float(y)) < 1.5 * unit, f"{x} and {y} in\n{one}\n{other}"


def expect_same_roles(a, b, bound):
    """Every score of every role; whether it holds may change only where it is that near to its threshold or control."""
    for x, y in zip(a["roles"], b["roles"], strict=True):
        assert (x["head"], x["role"]) == (y["head"], y["role"]), f"{x}\n{y}"
        assert abs(x["score"] - y["score"]) <= bound, f"{x}\n{y}"
        near = min(abs(x["score"] - x[other]) for other in ("threshold", "control") if x[other] is not None)
        assert x["holds"] == y["holds"] or near <= bound, f"{x}\n{y}"


def in_half(answer):
    """Without what 16 bits may change: the names of roles, notes that count them, and the order of what is expected. A list of
    numbers stays as it is."""
    if isinstance(answer, list):
        return answer
    kept = {k: v for k, v in answer.items() if k not in ("roles", "notes", "roles_found", "roles_untrained")}
    if isinstance(kept.get("samples"), list):
        kept["samples"] = [{k: [[p for _, p in row] for row in v] if k == "predictions" else v for k, v in sample.items()}
                           for sample in kept["samples"]]
    if "heads" in kept:
        kept["heads"] = [{k: v for k, v in row.items() if not k.startswith("role")} for row in kept["heads"]]
    return kept


def npy(path):
    """The numbers of an f32 array."""
    data = path.read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    return array.array("f", data[begin:]).tolist()


# ---- The commands ----


def compare_heads(lab, model, *words):
    command = ["heads", model, *words]
    exact = [*command, "--precision", "f32"]  # else products for damage are rounded
    cpu = lab.found(None, *exact)
    for precision in lab.precisions():
        if precision == "f32":
            expect_same(cpu, lab.found("f32", *exact), F32)
            expect_same_text(lab.on(None, *exact), lab.on("f32", *exact))
        else:
            gpu = lab.found(precision, *command)
            expect_same(in_half(cpu), in_half(gpu), HALF[precision], None)
            expect_same_roles(cpu, gpu, HALF[precision])


@check
def heads_of_a_trained_model(lab):
    compare_heads(lab, "copies", "--samples", 64)


@check
def heads_of_a_classifier(lab):
    compare_heads(lab, "classes", "--samples", 64)


@check
def heads_of_llama(lab):
    compare_heads(lab, "llama", "--text", "letters.txt", "--length", 100, "--samples", 16, "--damage")


@check
def heads_of_bert(lab):
    compare_heads(lab, "bert", "--text", "letters.txt", "--length", 100, "--samples", 16, "--damage")


@check
def patch(lab):
    texts = ["--clean", "abcdefabcd", "--corrupted", "abxdefabcd".replace("x", "n"), "--answer", "c", "--instead", "n"]
    for model in ("llama", "gpt2"):
        cpu = lab.found(None, "patch", model, *texts)
        by_head = lambda answer: {**answer, "heads": sorted(answer["heads"], key=lambda row: row["head"])}  # noqa: E731
        for precision in lab.precisions():
            bound = F32 if precision == "f32" else HALF[precision]
            expect_same(by_head(cpu), by_head(lab.found(precision, "patch", model, *texts)), 4 * bound)


@check
def prune(lab):
    for model, words in (("copies", ["--samples", 128]), ("llama", ["--text", "letters.txt", "--length", 64, "--samples", 32])):
        command = ["prune", model, *words, "--dry-run", "--budget", 3]
        expect_same(lab.found(None, *command), lab.found("f32", *command), F32)


@check
def prune_writes_the_same_model(lab):
    for precision, out in ((None, "small_cpu"), ("f32", "small_gpu")):
        lab.on(precision, "prune", "copies", "--samples", 128, "--budget", 3, "--out", out)
    one, other = (lab.folder / out / "model.safetensors" for out in ("small_cpu", "small_gpu"))
    assert one.read_bytes() == other.read_bytes(), "the smaller models differ"


@check
def compare(lab):
    command = ["compare", "book", "other", "--samples", 16]
    expect_same(lab.found(None, *command), lab.found("f32", *command), F32)


@check
def score(lab):
    for model in ("book", "llama", "gpt2"):
        command = ["score", model, "--text", "letters.txt", "--length", 100]
        cpu = lab.found(None, *command)
        for precision in lab.precisions():
            expect_same(cpu, lab.found(precision, *command), F32 if precision == "f32" else HALF[precision])


@check
def embed(lab):
    lab.on(None, "embed", "bert", "--text", "lines.txt", "--out", "cpu.npy")
    for precision in lab.precisions():
        lab.on(precision, "embed", "bert", "--text", "lines.txt", "--out", f"{precision}.npy")
        expect_same(npy(lab.folder / "cpu.npy"), npy(lab.folder / f"{precision}.npy"), F32 if precision == "f32" else HALF[precision])


@check
def generate(lab):
    for model in ("book", "llama", "gpt2", "copies"):
        prompt = ["--prompt", "abcabc"] if model != "copies" else []
        for temperature in (0, 0.7):
            command = ["generate", model, *prompt, "--temperature", temperature, "--seed", 3]
            cpu, gpu = lab.on(None, *command), lab.on("f32", *command)
            assert cpu == gpu, f"{command}\n{cpu!r} on the CPU\n{gpu!r} on the GPU"
        for precision in lab.precisions()[1:]:
            command = ["generate", model, *prompt, "--seed", 3]
            assert lab.on(precision, *command) == lab.on(precision, *command), f"{command} {precision}: another text the second time"


def page_data(text):
    return json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)[1])


def weights_opened(data):
    """The same with weights, which are bytes: 255 times their square roots, of every head deflated."""
    numbers = lambda data: [(x / 255) ** 2 for x in data]  # noqa: E731
    if isinstance(data, dict):
        found = {k: weights_opened(v) for k, v in data.items() if k not in ("about", "seconds", "weights")}
        weights = data.get("weights", [])
        found["weights"] = (numbers(base64.b64decode(weights)) if isinstance(weights, str) else
                            [numbers(zlib.decompress(base64.b64decode(head))) for head in weights])
        return found
    return [weights_opened(x) for x in data] if isinstance(data, list) else data


def expect_same_weights(a, b, bound):
    """Of two pages the bytes of the weights alone: numbers and names beside them are those of other commands."""
    weights = [[sample["weights"] for model in page["models"] for sample in model["samples"]] for page in (a, b)]
    assert weights[0], "no weights"
    expect_same(*weights, bound)


@check
def view(lab):
    for model in ("llama", "bert", "copies"):
        words = ["--prompt", "abcdefghabcd"] if model != "copies" else []
        pages = {}
        for precision in (None, *lab.precisions()):
            lab.on(precision, "view", model, *words, "--off", "0.1", "--out", f"{model}_{precision}.html")
            pages[precision] = weights_opened(page_data((lab.folder / f"{model}_{precision}.html").read_text()))
        expect_same(pages[None], pages["f32"], BYTE)
        for precision, page in pages.items():
            expect_same_weights(pages[None], page, HALF.get(precision, F32) + BYTE)


class Served:
    """A server that is there for a while."""

    def __init__(self, lab, precision, model):
        where = ["--device", lab.device, "--precision", precision] if precision not in (None, "f32") else \
            ["--device", lab.device] if precision else ["--threads", "2"]
        self.process = subprocess.Popen([str(lab.polyhead), "serve", model, *where], cwd=lab.folder, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()

    def ask(self, what, question):
        request = urllib.request.Request(self.address + what, json.dumps(question).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                data = answer.read()  # the weights of a head are bytes
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{what} {question}: {error.code} {error.read().decode()}") from error
        return weights_opened(json.loads(data)) if what == "read" else [(x / 255) ** 2 for x in data]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(20) == 0, "the server ended with an error"
        self.process.stdout.close()


@check
def serve(lab):
    questions = [("read", {"text": "abcdefghabcd"}), ("read", {"text": "abcdefghabcd", "gates": [[0, 1, 0.0]]}),
                 ("head", {"text": "abcdefghabcd", "head": [1, 0]})]
    with Served(lab, None, "llama") as cpu:
        wanted = [cpu.ask(*question) for question in questions]
    for precision in lab.precisions():
        with Served(lab, precision, "llama") as gpu:
            with concurrent.futures.ThreadPoolExecutor(8) as crowd:  # several at once get what each gets alone
                answers = list(crowd.map(lambda question: gpu.ask(*question), questions * 8))
        for n, answer in enumerate(answers):
            if precision == "f32":
                expect_same(wanted[n % len(wanted)], answer, BYTE, None)
            else:
                expect_same(in_half(wanted[n % len(wanted)]), in_half(answer), max(BYTE, 2 * HALF[precision]), None)


def losses(lab, folder):
    return [json.loads(line)["loss"] for line in (lab.folder / folder / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]


@check
def train(lab):
    words = ["--layers", 2, "--width", 128, "--heads", 2, "--steps", 40, "--batch", 16]
    for task in ("copy", "classify"):
        lab.on(None, "train", task, *words, "--out", f"{task}_cpu")
        for precision in lab.precisions()[:3]:
            lab.on(precision, "train", task, *words, "--out", f"{task}_{precision}")
            bound = 1e-3 if precision == "f32" else 5e-2  # rounding adds up over the steps
            expect_same(losses(lab, f"{task}_cpu"), losses(lab, f"{task}_{precision}"), bound)
        lab.on("f32", "train", task, *words, "--out", f"{task}_again")
        one, other = ((lab.folder / f"{task}_{name}/model.safetensors").read_bytes() for name in ("f32", "again"))
        assert one == other, f"{task}: the same run has other bits the second time"


@check
def a_run_goes_on_elsewhere(lab):
    words = ["--layers", 1, "--width", 64, "--heads", 1, "--steps", 20, "--batch", 8]
    lab.on("f32", "train", "copy", *words, "--out", "moving")
    lab.on(None, "train", "--resume", "--out", "moving", "--steps", 40)
    lab.on(None, "train", "copy", *words[:-4], "--steps", 40, "--batch", 8, "--out", "staying")
    assert len(losses(lab, "moving")) == len(losses(lab, "staying"))


@check
def study(lab):
    if lab.device != "cuda":
        return
    found = lab.found("f32", "study", "--quick", "--out", "study")
    assert len(found["findings"]) > 3, found
    assert (lab.folder / "study/report.html").stat().st_size > 100_000


@check
def info(lab):
    found = json.loads(lab.run("info", "--format", "json"))
    assert found["cuda"] is (lab.device == "cuda"), found["cuda_reason"]
    hidden = json.loads(lab.run("info", "--format", "json", environment={"CUDA_VISIBLE_DEVICES": ""}))
    assert hidden["cuda"] is False and hidden["cuda_reason"], hidden


@check
def what_is_refused(lab):
    commands = {"heads": ["llama", "--text", "letters.txt"], "score": ["llama", "--text", "letters.txt"],
                "generate": ["llama", "--prompt", "a"], "view": ["llama", "--prompt", "a", "--out", "never.html"],
                "embed": ["bert", "--text", "lines.txt", "--out", "never.npy"], "compare": ["book", "other"],
                "patch": ["llama", "--clean", "ab", "--corrupted", "ba"], "prune": ["copies", "--out", "never"],
                "train": ["copy", "--steps", "1", "--out", "never"], "study": ["--quick", "--out", "never"], "serve": ["llama"]}
    for name, words in commands.items():
        said = lab.run(name, *words, "--device", "cuda", code=5, environment={"CUDA_VISIBLE_DEVICES": ""})
        assert "GPU" in said, f"{name}: {said}"
        said = lab.run(name, *words, "--device", "gpu", code=2)
        assert "cuda" in said, f"{name}: {said}"
        said = lab.run(name, *words, "--precision", "bf16", code=2)
        assert "--precision" in said, f"{name}: {said}"
    assert "f16" in lab.run("train", "copy", "--out", "never", "--device", "cuda", "--precision", "f16", code=2)
    if lab.device == "cuda":
        said = lab.run("generate", "llama", "--prompt", "a", "--device", "cuda", code=3, environment={"POLYHEAD_CUDA_KERNELS": "fast"})
        assert "POLYHEAD_CUDA_KERNELS" in said, said
    assert not list(lab.folder.glob("never*")), "something was written all the same"


@check
def a_real_model(lab):
    if not lab.gguf:
        return
    text = ROOT / "docs/semantics.md"
    compare_heads(lab, lab.gguf, "--text", text, "--samples", 4)
    for precision in lab.precisions():
        expect_same(lab.found(None, "score", lab.gguf, "--text", text), lab.found(precision, "score", lab.gguf, "--text", text),
                    F32 if precision == "f32" else HALF[precision])
    command = ["generate", lab.gguf, "--prompt", "The heads of a layer", "--temperature", 0, "--tokens", 40]
    assert lab.on(None, *command) == lab.on("f32", *command), "another text"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("polyhead", type=pathlib.Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--gguf", type=pathlib.Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--jobs", type=int, default=6)
    arguments = parser.parse_args()
    chosen = [one for one in CHECKS if not arguments.words or any(word in one.__name__ for word in arguments.words)]
    chosen.sort(key=lambda one: one is not study)  # which takes the longest
    failed = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        lab = Lab(arguments, folder)
        lab.make()

        def verdict(function):
            begin = time.monotonic()
            try:
                function(lab)
                return "", time.monotonic() - begin
            except Exception:  # the next check runs all the same
                return traceback.format_exc(), time.monotonic() - begin

        for function, (wrong, seconds) in zip(chosen, pool.map(verdict, chosen)):
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok    '}  {function.__name__} ({seconds:.1f} s)\n{wrong}".rstrip(), flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
