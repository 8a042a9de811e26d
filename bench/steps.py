#!/usr/bin/env python3
"""Training steps with polyhead's attention beside the same steps with torch's: forward, backward, AdamW.

    PYTHONPATH=python POLYHEAD_LIBRARY=build/release/capi/libpolyhead_c.so python3 bench/steps.py [--device cuda] [word ..]

`module` rows replace nn.MultiheadAttention by polyhead.torch.MultiheadAttention in blocks of attention and feed-forward;
`transformers` rows set attn_implementation="polyhead" beside "sdpa", or beside "eager" where every head's entropy is wanted, which
torch makes from the weights. Both sides run in one process and take turns; a turn lasts 30 ms or one step. Shown are the least
times, and of the ratios (torch / polyhead) of neighbouring turns the median and its lower 95 % bound. Words choose rows by parts of
their names. On a GPU models are in bf16, and a turn ends with a wait. On a busy machine OpenMP's threads wait for each other without
end: there, --threads 1 --processor-time counts the time of the process instead of the clock's.
"""
import argparse
import itertools
import json
import platform
import statistics
import time

import torch
from torch import nn

import polyhead
import polyhead.torch
from servers import lower_bound

VOCABULARY, WIDTH, HEADS, LAYERS = 512, 256, 4, 2
SHAPES = ((1, 64), (16, 64), (4, 256), (1, 1024), (4, 1024))  # batch, tokens
WANTS = ("causal", "causal dropout", "padding", "padding dropout", "weights", "weights of heads", "padding weights", "statistics",
         "padding statistics")
IN_TRANSFORMERS = ("causal", "causal dropout", "padding", "statistics")
DROPOUT = 0.1


class Block(nn.Module):
    def __init__(self, kind, want):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = kind(WIDTH, HEADS, dropout=DROPOUT if "dropout" in want else 0.0, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.want, self.seen = want, None

    def forward(self, x, masks):
        normal = self.norms[0](x)
        return self.feed(x + self.attend(normal, masks))

    def feed(self, x):
        return x + self.feed_forward(self.norms[1](x))

    def attend(self, x, masks):
        ours = isinstance(self.attention, polyhead.torch.MultiheadAttention)
        if "statistics" in self.want and ours:
            output, _, found = self.attention(x, x, x, need_weights=False, statistics="light", **masks)
            self.seen = found.entropy
            return output
        by_heads = "statistics" in self.want or "heads" in self.want
        output, weights = self.attention(x, x, x, need_weights=by_heads or "weights" in self.want, average_attn_weights=not by_heads,
                                         **masks)
        self.seen = entropy(weights) if "statistics" in self.want else weights
        return output


def entropy(weights):
    """Of each head, as HeadStatistics has it: a mean over the rows, on the host."""
    weights = weights.detach()
    return -torch.special.xlogy(weights, weights).sum(-1).mean((0, 2)).cpu()


class Blocks(nn.Module):
    def __init__(self, kind, want):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(kind, want) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, masks):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, masks)
        return self.head(x)


def module_step(ours, want, batch, length, device):
    torch.manual_seed(0)
    model = Blocks(polyhead.torch.MultiheadAttention if ours else nn.MultiheadAttention, want).to(device, dtype_on(device))
    tokens = torch.randint(VOCABULARY, (batch, length), device=device)
    masks = {}
    if "padding" in want:
        kept = torch.linspace(length // 2, length, batch, device=device)
        masks["key_padding_mask"] = torch.arange(length, device=device) >= kept[:, None]
    else:
        masks["attn_mask"] = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
        masks["is_causal"] = True
    return stepper(model, lambda: nn.functional.cross_entropy(model(tokens, masks).flatten(0, 1).float(), tokens.flatten()))


def transformers_step(ours, want, batch, length, device):
    import polyhead.transformers
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    drop = DROPOUT if "dropout" in want else 0.0
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=length, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, attn_pdrop=drop,
                        resid_pdrop=0.0, embd_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0)
    watched = want == "statistics"
    model = GPT2LMHeadModel._from_config(config, attn_implementation="polyhead" if ours else "eager" if watched else "sdpa")
    model = model.to(device, dtype_on(device)).train()
    tokens = torch.randint(VOCABULARY, (batch, length), device=device)
    masks = {}
    if "padding" in want:
        kept = torch.linspace(length // 2, length, batch, device=device)
        masks["attention_mask"] = (torch.arange(length, device=device) < kept[:, None]).long()

    def loss():
        if not watched:
            return model(tokens, labels=tokens, **masks).loss
        if not ours:
            found = model(tokens, labels=tokens, output_attentions=True)
            [entropy(weights) for weights in found.attentions]
            return found.loss
        with polyhead.transformers.watch(model) as heads:
            found = model(tokens, labels=tokens)
            [layer.entropy for layer in heads]
            return found.loss

    return stepper(model, loss)


def dtype_on(device):
    return torch.bfloat16 if device == "cuda" else torch.float32


def stepper(model, loss):
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def step():
        optimiser.zero_grad()
        found = loss()
        found.backward()
        optimiser.step()

    return step


def compare(make, rounds, clock, wait):
    """Milliseconds of a step, (polyhead's, torch's), for every round."""
    def timed(step, count):
        start = clock()
        for _ in range(count):
            step()
        wait()
        return (clock() - start) / count / 1e6

    steps = [make(ours) for ours in (True, False)]
    for step in steps:
        timed(step, 2)
    count = max(int(30 / timed(steps[1], 1)), 1)
    found = [[timed(step, count) for step in (steps if n % 2 else steps[::-1])] for n in range(rounds)]
    return [pair if n % 2 else pair[::-1] for n, pair in enumerate(found)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    polyhead.set_threads(asked.threads)
    wait = torch.cuda.synchronize if asked.device == "cuda" else lambda: None
    clock = time.process_time_ns if asked.processor_time else time.perf_counter_ns
    rows = [("module", module_step, *row) for row in itertools.product(WANTS, SHAPES)]
    rows += [("transformers", transformers_step, *row) for row in itertools.product(IN_TRANSFORMERS, SHAPES)]
    place = torch.cuda.get_device_name() if asked.device == "cuda" else f"{asked.threads} threads"
    say = (lambda *_, **__: None) if asked.json else print
    say(f"polyhead {polyhead.__version__}, torch {torch.__version__}, Python {platform.python_version()}, {place}; {LAYERS} layers of "
          f"{HEADS} heads of {WIDTH // HEADS}\n| step, ms | batch, tokens | polyhead | torch | median | R |\n|---|---|---:|---:|---:|---:|", flush=True)
    bounds, raw = {}, {}
    for kind, make, want, (batch, length) in rows:
        name = f"{kind}, {want}"
        if asked.words and not any(word in f"{name} {batch},{length}" for word in asked.words):
            continue
        pairs = compare(lambda ours: make(ours, want, batch, length, asked.device), asked.rounds, clock, wait)
        ratios = [theirs / ours for ours, theirs in pairs]
        raw[f"{name} {batch},{length}"] = pairs
        bounds[f"{name} {batch},{length}"] = lower_bound(ratios)
        ours, theirs = (min(side) for side in zip(*pairs))
        say(f"| {name} | {batch},{length} | {ours:.2f} | {theirs:.2f} | {statistics.median(ratios):.2f} | {lower_bound(ratios):.2f} |", flush=True)
    if bounds:
        worst = min(bounds, key=bounds.__getitem__)
        say(f"\nworst R {bounds[worst]:.2f} ({worst}); geomean {statistics.geometric_mean(bounds.values()):.2f} of {len(bounds)}")
    if asked.json:
        print(json.dumps(raw))


if __name__ == "__main__":
    main()
