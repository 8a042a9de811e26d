"""The cases by name and their tensors, the same numbers as attention_bench makes."""
import math

import numpy as np


def parse(case):
    """'2,8,10,64/causal+backward' -> ((2, 8, 10, 64), True, True)"""
    shape, _, option = case.partition("/")
    option, _, more = option.partition("+")
    if option not in ("plain", "causal") or more not in ("", "backward"):
        raise ValueError(f"{case}: expected /plain or /causal, and perhaps +backward")
    return tuple(int(n) for n in shape.split(",")), option == "causal", more == "backward"


def parse_decode(case):
    """'decode:8,32,4,1024,128,f16/plain' -> ((8, 32, 4, 1024, 128), np.float16)"""
    shape, _, option = case.removeprefix("decode:").partition("/")
    *sizes, storage = shape.split(",")
    if len(sizes) != 5 or storage not in ("f32", "f16") or option != "plain":
        raise ValueError(f"{case}: expected decode:B,H,G,S,D,f32/plain or f16")
    return tuple(int(n) for n in sizes), {"f32": np.float32, "f16": np.float16}[storage]


def parse_layer(case):
    """'layer:512,8,128,16/training' -> ((512, 8, 128, 16), 'training')"""
    sizes, _, mode = case.removeprefix("layer:").partition("/")
    if mode not in ("forward", "weights", "training"):
        raise ValueError(f"{case}: expected layer:C,H,T,B/forward, weights or training")
    return tuple(int(n) for n in sizes.split(",")), mode


def stream_bits(seed, count, first=0):
    """24 bits a number from splitmix64, from place `first` of the stream; attention_bench makes the same ones."""
    x = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    x += np.uint64(seed << 32)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x >> np.uint64(40)


def uniform(seed, shape, first=0):
    """Numbers of variance 1; attention_bench makes the same ones, bit for bit."""
    unit = stream_bits(seed, math.prod(shape), first).astype(np.float32) * np.float32(2**-23) - np.float32(1)
    return (unit * np.float32(1.7320508)).reshape(shape)


def inputs(shape):
    return [uniform(seed, shape) for seed in (1, 2, 3)]


def layer_inputs(sizes):
    """x and dy [B,T,C]; in_proj_weight, in_proj_bias, out_proj.weight and out_proj.bias."""
    width, _, tokens, batch = sizes
    shapes = (3 * width, width), (3 * width,), (width, width), (width,)
    parameters = [uniform(11 + i, shape) * np.float32(0.05) for i, shape in enumerate(shapes)]
    return [uniform(seed, (batch, tokens, width)) for seed in (1, 2)], parameters


def decode_inputs(sizes, storage):
    """q [B,H,1,D] in f32; k and v [B,G,S,D] in their storage, made head by head: they may be large."""
    batch, heads, kv_heads, length, dim = sizes
    caches = []
    for seed in (2, 3):
        cache = np.empty((batch * kv_heads, length, dim), dtype=storage)
        for row in range(len(cache)):
            cache[row] = uniform(seed, (length, dim), row * length * dim)
        caches.append(cache.reshape(batch, kv_heads, length, dim))
    return uniform(1, (batch, heads, 1, dim)), *caches
