"""The model of tests/support/training_run.h in torch, from the same weights and batches."""
import numpy as np
import torch
from torch.nn import functional

from inputs import stream_bits, uniform

VOCABULARY, BATCHES, RATE = 64, 16, 1e-3


def parse_training(case):
    """'train:2,64,4,64,64/step' -> (2, 64, 4, 64, 64): layers, width, heads, tokens, batch"""
    sizes, _, mode = case.removeprefix("train:").partition("/")
    if mode != "step" or sizes.count(",") != 4:
        raise ValueError(f"{case}: expected train:L,C,H,T,B/step")
    return tuple(int(n) for n in sizes.split(","))


def parameter_shapes(sizes):
    """In the order of model::Transformer::parameters."""
    layers, width, _, tokens, _ = sizes
    norm = {"weight": (width,), "bias": (width,)}
    block = {**{f"attention_norm.{key}": shape for key, shape in norm.items()},
             "attention.in_proj_weight": (3 * width, width), "attention.in_proj_bias": (3 * width,),
             "attention.out_proj.weight": (width, width), "attention.out_proj.bias": (width,),
             **{f"feed_forward_norm.{key}": shape for key, shape in norm.items()},
             "feed_forward.up.weight": (4 * width, width), "feed_forward.up.bias": (4 * width,),
             "feed_forward.down.weight": (width, 4 * width), "feed_forward.down.bias": (width,)}
    return {"tokens.weight": (VOCABULARY, width), "positions.weight": (tokens, width),
            **{f"blocks.{layer}.{name}": shape for layer in range(layers) for name, shape in block.items()},
            **{f"final_norm.{key}": shape for key, shape in norm.items()}, "output.weight": (VOCABULARY, width)}


def initial(name, shape, seed):
    """f32 whatever the model is, so that models of both types begin at one place."""
    middle = np.float32(1 if name.endswith("norm.weight") else 0)
    return torch.from_numpy(middle + uniform(seed, shape) * np.float32(0.02))


def batch_of(sizes, number):
    """Tokens and targets [B,T]: three tokens of four follow from the one before."""
    *_, tokens, batch = sizes
    bits = stream_bits(1000 + number, batch * (tokens + 1)).astype(np.int64).reshape(batch, tokens + 1)
    rows, token = np.empty_like(bits), np.zeros(batch, dtype=np.int64)
    for t in range(tokens + 1):
        token = np.where(bits[:, t] % 4 != 0, 5 * token + 17, bits[:, t] // 4) % VOCABULARY
        rows[:, t] = token
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())


class Gpt(torch.nn.Module):
    """Pre-norm blocks, learned positions, GELU by tanh, one product for q, k and v."""

    def __init__(self, sizes, dtype):
        super().__init__()
        self.layers, self.width, self.heads, *_ = sizes
        shapes = parameter_shapes(sizes)
        self.places = {name: i for i, name in enumerate(shapes)}
        self.values = torch.nn.ParameterList(initial(name, shape, 100 + i).to(dtype)
                                             for i, (name, shape) in enumerate(shapes.items()))

    def value(self, name):
        return self.values[self.places[name]]

    def linear(self, x, name):
        return functional.linear(x, self.value(f"{name}.weight"), self.value(f"{name}.bias"))

    def norm(self, x, name):
        return functional.layer_norm(x, (self.width,), self.value(f"{name}.weight"), self.value(f"{name}.bias"), 1e-5)

    def attention(self, x, name):
        batch, tokens, width = x.shape
        qkv = functional.linear(x, self.value(f"{name}.in_proj_weight"), self.value(f"{name}.in_proj_bias"))
        q, k, v = qkv.view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.linear(heads.transpose(1, 2).reshape(batch, tokens, width), f"{name}.out_proj")

    def forward(self, tokens, targets):
        """The mean loss."""
        x = functional.embedding(tokens, self.value("tokens.weight")) + self.value("positions.weight")
        for layer in range(self.layers):
            block = f"blocks.{layer}"
            x = x + self.attention(self.norm(x, f"{block}.attention_norm"), f"{block}.attention")
            up = self.linear(self.norm(x, f"{block}.feed_forward_norm"), f"{block}.feed_forward.up")
            x = x + self.linear(functional.gelu(up, approximate="tanh"), f"{block}.feed_forward.down")
        logits = functional.linear(self.norm(x, "final_norm"), self.value("output.weight"))
        return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


class TrainingRun:
    """A step is a call; it gives the loss before the step."""

    def __init__(self, sizes, dtype=torch.float32, compiled=False, autocast=False):
        self.model, self.autocast = Gpt(sizes, dtype), autocast
        self.loss_of = torch.compile(self.model, dynamic=False) if compiled else self.model
        groups = [{"params": [p for p in self.model.values if p.dim() > 1], "weight_decay": 0.01},
                  {"params": [p for p in self.model.values if p.dim() == 1], "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99), eps=1e-8, fused=True)
        self.batches = [batch_of(sizes, number) for number in range(BATCHES)]
        self.steps = 0

    def __call__(self):
        batch = self.batches[self.steps % BATCHES]
        self.steps += 1
        self.optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.loss_of(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.values, 1.0)
        self.optimiser.step()
        return loss.detach()

    def losses(self, count):
        return [float(self()) for _ in range(count)]
