#!/usr/bin/env python3
"""One peer of the benchmark as a server: a request a line on stdin, one line of JSON back; asleep in between.

  time CASE WARM CALLS   {"ns": median of CALLS calls after WARM unmeasured ones, "min": the least}
  output CASE PATH       writes the results to PATH, f32 and raw: the output [B,H,T,D], or dq, dk, dv
  check CASE PATH        (numpy) largest error of such a file against float64, {"error": ...}
  memory CASE            (torch-materialised) one call: {"ns": time, "extra": peak bytes beyond inputs and outputs}
  losses CASE STEPS      (torch-eager, torch-compiled, torch-f64) of training from its beginning: {"losses": [...]}
  gemm M,N,K WARM CALLS  (torch-linear) y = x W^T + b, x [M,K] and W [N,K]: {"ns": median, "min": the least}
  threads N              (torch) from now on
  info                   versions
  release                forgets all prepared cases

CASE is B,H,T,D/plain or B,H,T,D/causal, with +backward for the backward pass alone; or decode:B,H,G,S,D,f32/plain (or
f16), one new query over S cached keys of G kv heads (torch-sdpa, torch-matmul, ort-gqa, numpy); or layer:C,H,T,B/forward,
/weights or /training (torch-mha, torch-packed, ort-layer, numpy); or train:L,C,H,T,B/step (torch-eager, torch-compiled,
torch-f64); or model:WHAT:PATH, see models.h (torch-transformers).
usage: peers.py PEER THREADS, PEER a key of PEERS below
"""
import gc
import json
import math
import statistics
import sys
import time

import numpy as np

from inputs import decode_inputs, inputs, layer_inputs, parse, parse_decode, parse_layer, uniform
from ort_peers import OrtAttention, OrtGqa, OrtLayer, OrtMha
from timing import sample


class Torch:
    """A case is a callable without arguments that returns the output, or the gradients."""

    def __init__(self, threads):
        import torch
        self.torch = torch
        self.threads(threads)

    def threads(self, number):
        self.torch.set_num_threads(int(number))
        return {}

    def info(self):
        return {"torch": self.torch.__version__, "torch SIMD": self.torch.backends.cpu.get_cpu_capability()}

    def array(self, result, shape):
        results = result if isinstance(result, tuple) else (result,)
        return np.concatenate([part.detach().float().contiguous().numpy().ravel() for part in results])

    def prepare_decode(self, sizes, storage):
        q, k, v = (self.torch.from_numpy(x) for x in decode_inputs(sizes, storage))
        attend, q = self.decoding(sizes), q.to(k.dtype)

        def forward():
            with self.torch.inference_mode():
                return attend(q, k, v)
        return forward

    def tensor(self, numbers):
        return self.torch.from_numpy(numbers)

    def prepare(self, shape, causal, backward):
        q, k, v = (self.tensor(x) for x in inputs(shape))
        attend = self.attention(shape, causal)
        if not backward:
            def forward():
                with self.torch.inference_mode():
                    return attend(q, k, v)
            return forward
        leaves = [x.requires_grad_() for x in (q, k, v)]
        output, dout = attend(*leaves), self.tensor(uniform(6, shape))
        return lambda: self.torch.autograd.grad(output, leaves, dout, retain_graph=True)


class TorchSdpa(Torch):
    def attention(self, shape, causal):
        sdpa = self.torch.nn.functional.scaled_dot_product_attention
        return lambda q, k, v: sdpa(q, k, v, is_causal=causal)

    def decoding(self, sizes):
        sdpa, grouped = self.torch.nn.functional.scaled_dot_product_attention, sizes[2] < sizes[1]
        return lambda q, k, v: sdpa(q, k, v, enable_gqa=grouped)


class TorchMatmul(Torch):
    """softmax(q k^T / sqrt(D) + mask) v, as people write it; the mask is made beforehand."""

    def attention(self, shape, causal):
        torch, scale = self.torch, 1 / math.sqrt(shape[3])
        if not causal:
            return lambda q, k, v: torch.softmax(torch.matmul(q * scale, k.transpose(-2, -1)), -1) @ v
        mask = torch.full((shape[2], shape[2]), -math.inf).triu(1)
        return lambda q, k, v: torch.softmax(torch.matmul(q * scale, k.transpose(-2, -1)).add_(mask), -1) @ v

    def decoding(self, sizes):
        """The queries that share a kv head are the rows of one product."""
        torch, (batch, _, kv_heads, _, dim) = self.torch, sizes
        scale = 1 / math.sqrt(dim)

        def attend(q, k, v):
            rows = q.view(batch, kv_heads, -1, dim) * scale
            return torch.softmax(torch.matmul(rows, k.transpose(-2, -1)), -1) @ v
        return attend


class TorchLinear(Torch):
    """A linear layer, asked for by `gemm`."""

    def product(self, rows, columns, inner):
        linear, inference = self.torch.nn.functional.linear, self.torch.inference_mode
        x, w, b = (self.tensor(uniform(seed, shape)) for seed, shape in
                   ((1, (rows, inner)), (2, (columns, inner)), (3, (columns,))))

        def forward():
            with inference():
                return linear(x, w, b)
        return forward


class TorchMha(Torch):
    """nn.MultiheadAttention, self-attention."""

    def layer(self, sizes, parameters):
        layer = self.torch.nn.MultiheadAttention(sizes[0], sizes[1], batch_first=True)
        with self.torch.no_grad():
            for parameter, values in zip(layer.parameters(), parameters):
                parameter.copy_(self.torch.from_numpy(values))
        return layer

    def prepare_layer(self, sizes, mode):
        (x, dy), parameters = layer_inputs(sizes)
        x, dy, layer = self.tensor(x), self.tensor(dy), self.layer(sizes, parameters)
        if mode == "training":
            leaves = [x.requires_grad_(), *layer.parameters()]

            def train():
                output = self.run(layer, x, False)
                return output, *self.torch.autograd.grad(output, leaves, dy)
            return train
        layer.eval()

        def forward():
            with self.torch.inference_mode():
                return self.run(layer, x, mode == "weights")
        return forward

    def run(self, layer, x, weights):
        return layer(x, x, x, need_weights=weights, average_attn_weights=False)[0]


class TorchPacked(TorchMha):
    """One product for q, k and v, then SDPA (or matmul, softmax, matmul where weights are wanted), then W_O."""

    def layer(self, sizes, parameters):
        torch, parameters = self.torch, [self.tensor(values) for values in parameters]

        class Packed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.heads = sizes[1]
                for name, values in zip(("qkv_weight", "qkv_bias", "out_weight", "out_bias"), parameters):
                    setattr(self, name, torch.nn.Parameter(values))
        return Packed()

    def run(self, layer, x, weights):
        functional = self.torch.nn.functional
        batch, tokens, width = x.shape
        qkv = functional.linear(x, layer.qkv_weight, layer.qkv_bias).view(batch, tokens, 3, layer.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if weights:
            heads = self.torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v
        else:
            heads = functional.scaled_dot_product_attention(q, k, v)
        return functional.linear(heads.transpose(1, 2).reshape(batch, tokens, width), layer.out_weight, layer.out_bias)


class TorchBf16(TorchPacked, TorchSdpa, TorchLinear):
    """Attention, products and layers with everything stored in bf16."""

    def tensor(self, numbers):
        return self.torch.from_numpy(numbers).bfloat16()


class TorchEager(Torch):
    """A step of training; the first ten are not measured."""
    dtype, compiled = "float32", False

    def prepare_training(self, case):
        run = self.run(case)
        run.losses(10)
        return run

    def run(self, case):
        from torch_gpt import TrainingRun, parse_training
        return TrainingRun(parse_training(case), getattr(self.torch, self.dtype), self.compiled)

    def losses(self, case, steps):
        return {"losses": self.run(case).losses(int(steps))}


class TorchAutocast(TorchEager):
    """With products and attention in bf16, as torch.autocast chooses."""

    def run(self, case):
        from torch_gpt import TrainingRun, parse_training
        return TrainingRun(parse_training(case.removesuffix("+bf16")), autocast=True)


class TorchCompiled(TorchEager):
    """With torch.compile, which needs a C++ compiler and Python's headers."""
    compiled = True

    def run(self, case):
        import torch._inductor.config
        torch._inductor.config.compile_threads = 1  # no processes beside this one
        torch._dynamo.reset()  # after eight models it would give up compiling
        return super().run(case)


class TorchF64(TorchEager):
    """Not timed."""
    dtype = "float64"


class TorchMaterialised(Torch):
    """The light statistics from the softmax matrix, one head at a time: all at once would take H times as much."""

    def memory(self, case):
        torch = self.torch
        shape, causal, _ = parse(case)
        q, k, v = (torch.from_numpy(x) for x in inputs(shape))
        output, sums = torch.zeros(shape), torch.zeros(*shape[:2], 8)
        before, start = status("VmRSS"), time.perf_counter_ns()
        for b in range(shape[0]):
            for h in range(shape[1]):
                self.head(q[b, h], k[b, h], v[b, h], causal, output[b, h], sums[b, h])
        return {"ns": time.perf_counter_ns() - start, "extra": max(0, status("VmHWM") - before)}

    def head(self, q, k, v, causal, output, sums):
        torch = self.torch
        scores = (q / math.sqrt(q.shape[-1])) @ k.T
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), -math.inf)
        sums[0] = scores.max()
        weights = torch.softmax(scores, -1)
        del scores
        torch.matmul(weights, v, out=output)
        sums[1] = torch.special.entr(weights).sum()
        largest, place = weights.max(-1)
        sums[2] = largest.sum()
        sums[3] = (place - torch.arange(len(place))).sum()
        sums[4] = weights[:, 0].sum()
        for slot, offset in enumerate((0, -1, 1), 5):
            sums[slot] = weights.diagonal(offset).sum()


class Numpy:
    """Not timed: float64, for every row of small shapes and a sample of the large ones."""

    def __init__(self, threads):
        pass

    def info(self):
        return {"numpy": np.__version__}

    def check(self, case, path):
        if case.startswith("decode:"):
            return {"error": self.decode_error(*parse_decode(case), path)}
        if case.startswith("layer:"):
            return {"error": self.layer_error(*parse_layer(case), np.fromfile(path, dtype=np.float32))}
        shape, causal, backward = parse(case)
        q, k, v = inputs(shape)
        if backward:
            return {"error": self.gradient_error(q, k, v, causal, np.fromfile(path, dtype=np.float32).reshape(3, *shape))}
        found = np.fromfile(path, dtype=np.float32).reshape(shape)
        random = np.random.default_rng(0)
        heads = [(b, h) for b in range(shape[0]) for h in range(shape[1])]
        heads = heads if len(heads) <= 64 else [heads[i] for i in random.choice(len(heads), 32, replace=False)]
        length = shape[2]
        rows = np.arange(length) if length <= 64 else np.unique(np.r_[0, length - 1, random.integers(0, length, 14)])
        return {"error": max(self.error(q[at], k[at], v[at], rows, causal, found[at]) for at in heads)}

    @staticmethod
    def error(q, k, v, rows, causal, found):
        scores = q[rows].astype(np.float64) @ k.astype(np.float64).T / math.sqrt(q.shape[-1])
        if causal:
            scores[np.arange(len(k)) > rows[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = weights @ v.astype(np.float64) / weights.sum(-1, keepdims=True)
        return float(np.abs(found[rows] - wanted).max())


    def decode_error(self, sizes, storage, path):
        batch, heads, kv_heads, *_ = sizes
        q, k, v = decode_inputs(sizes, storage)
        found = np.fromfile(path, dtype=np.float32).reshape(q.shape)
        chosen = np.random.default_rng(0).permutation(batch * heads)[:16]
        return max(self.error(q[b, h], k[b, g], v[b, g], np.arange(1), False, found[b, h])
                   for b, h in (divmod(int(i), heads) for i in chosen) for g in [h // (heads // kv_heads)])

    @staticmethod
    def layer_error(sizes, mode, found):
        """Of the output of the first sequence; training must also have brought a gradient for everything."""
        width, heads, tokens, batch = sizes
        (x, _), parameters = layer_inputs(sizes)
        expected = x.size + (x.size + sum(p.size for p in parameters) if mode == "training" else 0)
        if found.size != expected:
            return math.inf
        in_weight, in_bias, out_weight, out_bias = (p.astype(np.float64) for p in parameters)
        q, k, v = np.split(x[0].astype(np.float64) @ in_weight.T + in_bias, 3, axis=-1)
        q, k, v = (part.reshape(tokens, heads, -1).transpose(1, 0, 2) for part in (q, k, v))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        merged = (weights / weights.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(tokens, width)
        return float(np.abs(found[:tokens * width].reshape(tokens, width) - (merged @ out_weight.T + out_bias)).max())

    @staticmethod
    def gradient_error(q, k, v, causal, found):
        """Of the first and the last head."""
        dout, errors = uniform(6, q.shape), []
        for at in {(0, 0), (q.shape[0] - 1, q.shape[1] - 1)}:
            queries, keys, values, upstream = (x[at].astype(np.float64) for x in (q, k, v, dout))
            scale = 1 / math.sqrt(q.shape[-1])
            scores = queries @ keys.T * scale
            if causal:
                scores[np.triu_indices(len(scores), 1)] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            dweights = upstream @ values.T
            dscores = weights * (dweights - (weights * dweights).sum(-1, keepdims=True)) * scale
            wanted = (dscores @ keys, dscores.T @ queries, weights.T @ upstream)
            errors += [np.abs(found[i][at] - x).max() for i, x in enumerate(wanted)]
        return float(max(errors))


class TorchTransformers(Torch):
    """Real models as `transformers` runs them, f32: see models.h for the cases."""

    def info(self):
        import transformers
        return super().info() | {"transformers": transformers.__version__}

    def load(self, path, eager):
        import pathlib
        import transformers
        path, options = pathlib.Path(path), {"dtype": self.torch.float32, "attn_implementation": "eager" if eager else "sdpa"}
        if path.suffix == ".gguf":
            return transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, **options).eval()
        return transformers.AutoModel.from_pretrained(path, **options).eval()

    def prepare_model(self, name):
        _, what, path = name.split(":", 2)
        what, *sizes = what.split(",")
        sizes = [int(size) for size in sizes]
        model, torch = self.load(path, what == "statistics"), self.torch
        batch, length = sizes if what == "encode" else (1, sizes[0])
        tokens = torch.tensor([200 + n * 7919 % (model.config.vocab_size - 200) for n in range(batch * length + 1)])
        prompt = tokens[:-1].reshape(batch, length)
        if what == "encode":
            run = lambda: model(prompt).last_hidden_state
        elif what == "prefill":
            run = lambda: model(prompt, use_cache=True, logits_to_keep=1).logits
        elif what == "decode":
            cache = model(prompt, use_cache=True, logits_to_keep=1).past_key_values

            def run():
                logits = model(tokens[-1:].reshape(1, 1), past_key_values=cache, use_cache=True).logits
                cache.crop(-1)
                return logits
        else:
            def run():
                found = model(prompt, output_attentions=True, logits_to_keep=1)
                return torch.stack([-torch.special.xlogy(p, p).sum(-1).mean(-1)[0] for p in found.attentions])

        def call():
            with torch.inference_mode():
                return run()
        return call


PEERS = {"torch-sdpa": TorchSdpa, "torch-matmul": TorchMatmul, "torch-linear": TorchLinear, "torch-bf16": TorchBf16,
         "ort-attention": OrtAttention, "ort-mha": OrtMha, "ort-gqa": OrtGqa, "torch-materialised": TorchMaterialised,
         "numpy": Numpy, "torch-mha": TorchMha,
         "torch-packed": TorchPacked, "ort-layer": OrtLayer, "torch-eager": TorchEager,
         "torch-compiled": TorchCompiled, "torch-autocast": TorchAutocast, "torch-f64": TorchF64, "torch-transformers": TorchTransformers}


def status(field):
    """Bytes of a field of /proc/self/status."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


class Server:
    def __init__(self, peer):
        self.peer = peer
        self.cases = {}

    def case(self, name):
        if name not in self.cases:
            if name.startswith("decode:"):
                self.cases[name] = self.peer.prepare_decode(*parse_decode(name))
            elif name.startswith("layer:"):
                self.cases[name] = self.peer.prepare_layer(*parse_layer(name))
            elif name.startswith("train:"):
                self.cases[name] = self.peer.prepare_training(name)
            elif name.startswith("model:"):
                self.cases[name] = self.peer.prepare_model(name)
            elif name.startswith(("call:", "gpt:")):
                self.cases[name] = self.peer.prepare_python(name)
            else:
                self.cases[name] = self.peer.prepare(*parse(name))
        return self.cases[name]

    def time(self, case, warm, calls):
        return self.timed(self.case(case), warm, calls)

    def gemm(self, sizes, warm, calls):
        if sizes not in self.cases:
            self.cases[sizes] = self.peer.product(*map(int, sizes.split(",")))
        return self.timed(self.cases[sizes], warm, calls)

    @staticmethod
    def timed(call, warm, calls):
        sample(call, int(warm))
        times = sample(call, int(calls))
        return {"ns": statistics.median(times), "min": min(times)}

    def output(self, case, path):
        result = self.case(case)()
        if case.startswith("decode:"):
            batch, heads, _, _, dim = parse_decode(case)[0]
            array = self.peer.array(result, (batch, heads, 1, dim))
        elif case.startswith(("layer:", "model:")):
            array = self.peer.array(result, None)
        else:
            array = self.peer.array(result, parse(case)[0])
        array.astype(np.float32).tofile(path)
        return {}

    def release(self):
        self.cases.clear()
        gc.collect()
        return {}

    def answer(self, line):
        command, *words = line.split()
        own = command in ("time", "gemm", "output", "release")
        return getattr(self if own else self.peer, command)(*words)


def main(peers=PEERS):
    try:
        server = Server(peers[sys.argv[1]](int(sys.argv[2])))
    except ImportError as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    gc.disable()
    for line in sys.stdin:
        try:
            reply = server.answer(line)
        except Exception as error:  # whatever goes wrong is the answer; the driver decides
            reply = {"error_text": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
