"""attn_implementation="polyhead" in tiny random models of every config class of transformers: each agrees, or refuses by name.

every_model.py BUILD [MODEL_TYPE ..]    some, or all of them; --jobs N; --chosen: those of `make parity`

One that agrees says how many comparisons were made, and how many calls of our attention: 0 if it has none, or computes it rightly by
itself. One that is refused is so too if it is made with eager attention and set_attn_implementation() asks for ours then. "part": its
config is of a part of a model, which is none by itself. "unbuilt": tiny_kinds.py does not know how, or another package is wanted.

A model agrees if by the rule of docs/semantics.md its error against eager attention in float64 is at most twice that of eager
attention in float32, for gradients three times, and two last places more: without padding, with each mask that it takes leaving out
something on either side, at batch 1 and 3, in cached generation, and in its gradients. Where eager attention itself fails, or two
tokens are tied, nothing can be compared, which is said; without the plain calls and the gradients nothing is judged. A model may agree
with sdpa instead of eager: some mean another thing by padding.
"""

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

SECONDS, MOST_PARAMETERS, MEMORY = 300, 30_000_000, 10 << 30  # seconds of a processor, for each

# Those of `make parity`: of all kinds, and what is to become of each.
CHOSEN = {
    "agrees": """llama gpt2 gpt_oss gemma2 gemma3_text gemma4_text mistral mixtral qwen2 qwen3 qwen3_moe qwen3_next phi phi3 bamba jamba nemotron_h
                 deepseek_v3 olmo2 cohere2 starcoder2 stablelm opt gpt_neox gpt_bigcode llama4_text glm4 granite granite_swa lfm2 smollm3 biogpt
                 t5 t5gemma2 bart marian pegasus m2m_100 blenderbot whisper longt5
                 bert roberta albert distilbert electra modernbert esm xlm-roberta
                 vit clip_vision_model siglip_vision_model siglip swin detr sam2 dinov2 beit deit vit_mae videomae qwen2_5_vl_vision
                 wav2vec2 hubert audio-spectrogram-transformer wav2vec2-conformer
                 clip llava qwen2_5_vl inkling_text""".split(),
    "refused": """bloom mpt falcon gptj gpt_neox_japanese big_bird roformer megatron-bert convbert mpnet longformer led xglm imagegpt sam
                  data2vec-vision gemma4_audio recurrent_gemma deepseek_v32 deepseek_v4 doge rembert ibert nystromformer squeezebert
                  tapas canine visual_bert axk2 glm_moe_dsa hy_v4 mistral_large4_text mvp trocr""".split(),
}


def worker():
    """Model types from stdin, a line of JSON for each to stdout."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    out, sys.stdout = sys.stdout, sys.stderr
    import warnings

    warnings.filterwarnings("ignore")
    import trial

    for line in sys.stdin:
        kind, role, name = json.loads(line)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + SECONDS, resource.RLIM_INFINITY))
        print(json.dumps([kind, role, *trial.judge(kind, role, name, MOST_PARAMETERS)]), file=out, flush=True)


class Worker:
    """A process that tries models; a new one after a crash, or where one took too long."""

    def __init__(self):
        self.process = None

    def start(self):
        self.process = subprocess.Popen([sys.executable, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def ask(self, task):
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer:
            return json.loads(answer)
        code, self.process = self.process.wait(), None
        if code == -signal.SIGXCPU:
            return [*task[:2], "unbuilt", f"took more than {SECONDS} s of a processor"]
        return [*task[:2], "crashed", f"the process ended with {code}"]


def run(tasks, jobs, verbose):
    results, waiting, lock = [], list(reversed(tasks)), threading.Lock()

    def serve():
        one = Worker()
        while True:
            with lock:
                if not waiting:
                    break
                task = waiting.pop()
            began = time.monotonic()
            found = one.ask(task)
            with lock:
                results.append(found)
                if verbose:
                    print(f"{found[0]:32} {found[1]:8} {found[2]:8} {time.monotonic() - began:5.1f} s  {found[3]}", flush=True)
        if one.process is not None:
            one.process.stdin.close()
            one.process.wait()

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--chosen", action="store_true")
    asked = parser.parse_intermixed_args()
    os.environ.setdefault("POLYHEAD_LIBRARY", str((asked.build / "capi/libpolyhead_c.so").resolve()))
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "python")
    os.environ["OMP_NUM_THREADS"] = "1"
    import tiny_models

    wanted = {kind: verdict for verdict, kinds in CHOSEN.items() for kind in kinds} if asked.chosen else asked.kinds
    tasks = [task for task in tiny_models.kinds_of() if not wanted or task[0] in wanted]
    results = run(tasks, asked.jobs, True)
    for verdict in ("agrees", "refused", "part", "unbuilt", "wrong", "crashed"):
        found = sorted(result for result in results if result[2] == verdict)
        print(f"\n{verdict}: {len(found)}")
        for kind, role, _, said in found:
            if verdict != "agrees" or "not compared" in said:
                print(f"  {kind} ({role}): {said}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    versions = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch"))
    print(f"\n{time.strftime('%Y-%m-%d')}, {versions}: {len(results)} tries, {(used.ru_utime + used.ru_stime) / 60:.0f} minutes of processors")
    bad = [result for result in results if result[2] in ("wrong", "crashed")]
    if asked.chosen:
        bad += [result for result in results if result[2] != wanted[result[0]]]
        bad += [kind for kind in wanted if kind not in {result[0] for result in results}]
    if bad:
        print("\nnot as it should be:", *bad, sep="\n  ")
    sys.exit(1 if bad or len(results) != len(tasks) else 0)


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["--worker"] else main()
