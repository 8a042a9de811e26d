"""What is measured of decoding, products and the layer."""
import statistics

from families import (PASSES_AS_ONE, able, best_of, closing, hopeless, micro, progress)
from report import Family
from servers import geomean, lower_bound, ratios


def beside(bench, cell, peers, allowed=None, extra=None):
    """Times of ours, of the peers that compute the cell, and of whatever else takes part; and who they are."""
    present = able(bench, peers, cell, **({"allowed": allowed} if allowed else {}))
    entries = {name: (name, "time", cell) for name in ["ours", *present]} | (extra or {})
    times, _ = bench.measure(entries, hopeless)
    bench.release(entries)
    return times, present


# --- decoding ---------------------------------------------------------------------------------------------------------

def decode(bench):
    """One new query over cached keys: beside the peers, and beside the memory's read bandwidth where it is the limit."""
    rows, bounds, shares, raw = [], [], [], {}
    for batch, kv_heads, keys, storage in [(b, g, s, t) for b in (1, 8) for g in (32, 8)
                                           for s in (1024, 4096, 16384) for t in ("f32", "f16")]:
        size = 2 * batch * kv_heads * keys * 128 * (4 if storage == "f32" else 2)
        limited = size > 128e6
        cell = f"decode:{batch},32,{kv_heads},{keys},128,{storage}/plain"
        peers = ["ort-gqa", "torch-sdpa"] + (["torch-matmul"] if size < 1e9 else [])  # each holds a cache of its own
        # The peers' queries are of the storage type, so with f16 they are off by as much as f16 is.
        times, present = beside(bench, cell, peers, 2e-3 if storage == "f16" else None,
                                {"read": ("ours", "read", size)} if limited else None)
        raw[cell] = times
        best = best_of(times, present)
        paired = ratios(times[best], times["ours"])
        bounds.append(lower_bound(paired))
        row = [f"{batch},{kv_heads},{keys},{storage}", f"{size / 1e6:.0f}", micro(times["ours"]),
               f"{size / statistics.median(times['ours']):.1f}", best, micro(times[best]),
               f"{statistics.median(paired):.2f}", f"{bounds[-1]:.2f}"]
        if limited:
            share = ratios(times["read"], times["ours"])
            shares.append(lower_bound(share))
            row += [f"{size / statistics.median(times['read']):.1f}", f"{statistics.median(share):.2f}",
                    f"{shares[-1]:.2f}"]
        rows.append(row + [""] * (11 - len(row)))
        progress("decode " + " ".join(rows[-1]))
    bars = [("decode, worst", "1.0 (from 0.97)", f"{min(bounds):.2f}", min(bounds) >= PASSES_AS_ONE),
            ("share of the read bandwidth, worst", "0.8", f"{min(shares):.2f}", min(shares) >= 0.8)]
    return [Family("decode", "Decoding: one query of 32 heads of 128 over cached keys (µs a call)",
                   ["B,G,keys,storage", "MB", "ours", "GB/s", "best peer", "µs", "median", "R", "read GB/s", "share",
                    "bound"], rows, bars, [closing("decode", bounds), closing("decode-bandwidth", shares)],
                   ["Peers: onnxruntime's GroupQueryAttention with past and present in one buffer, torch's SDPA, and matmul, "
                    "softmax, matmul. With f16 storage theirs are f16 queries, ours f32. Read bandwidth: a sum over as many "
                    "bytes on as many threads, in the same rounds."], raw)]


# --- products ---------------------------------------------------------------------------------------------------------

def gemm(bench):
    rows, reached, raw = [], [], {}
    for cell, asked in (("2048,2304,768", 0.95), ("2048,2048,2048", 0.95), ("64,512,512", 1.2)):
        entries = {"ours": ("ours", "gemm", cell), "torch-linear": ("torch-linear", "gemm", cell)}
        if bench.has_blas:
            entries["OpenBLAS"] = ("sgemm", "sgemm", cell)
        times, _ = bench.measure(entries)
        bench.release(["ours", "torch-linear"])
        raw[cell] = times
        best = best_of(times, list(times)[1:])
        paired = ratios(times[best], times["ours"])
        reached.append(lower_bound(paired) / asked)
        m, n, k = map(int, cell.split(","))
        rows.append([f"[{m},{k}]x[{k},{n}]", micro(times["ours"]),
                     f"{2 * m * n * k / statistics.median(times['ours']):.0f}", micro(times["torch-linear"]),
                     micro(times["OpenBLAS"]) if bench.has_blas else "-", best, f"{statistics.median(paired):.2f}", f"{lower_bound(paired):.2f}",
                     f"{asked}", "pass" if reached[-1] >= 1 else "FAIL"])
        progress("gemm " + " ".join(rows[-1]))
    return [Family("gemm", "Products: y = x Wᵀ + b, W packed once (µs a call)",
                   ["shape", "ours", "GF/s", "torch-linear", "OpenBLAS", "best peer", "median", "R", "asked", ""], rows,
                   [("every product, relative to what is asked", "1.0", f"{min(reached):.2f}", min(reached) >= 1)],
                   [closing("gemm", reached)], ["OpenBLAS adds no bias."], raw)]


# --- the layer --------------------------------------------------------------------------------------------------------

LAYERS = ["128,4,32,64", "512,8,128,16", "768,12,1024,4"]
MODES = {"forward": (["torch-mha", "torch-packed", "ort-layer"], 1.15), "training": (["torch-mha", "torch-packed"], 1.3),
         "weights": (["torch-mha", "torch-packed"], 1.5)}


def layer_flops(cell, mode):
    width, _, tokens, batch = map(int, cell.split(","))
    products, attention = 8 * batch * tokens * width**2, 4 * batch * tokens**2 * width
    return 3 * products + 3.5 * attention if mode == "training" else products + attention


def layer(bench):
    peers = ["torch-mha", "torch-packed", "ort-layer"]
    rows, bars, lines, raw = [], [], [], {}
    for mode, (asked_peers, asked) in MODES.items():
        bounds = []
        for cell in LAYERS:
            times, present = beside(bench, f"layer:{cell}/{mode}", asked_peers)
            raw[f"{cell}/{mode}"] = times
            best = best_of(times, present)
            paired = ratios(times[best], times["ours"])
            bounds.append(lower_bound(paired))
            rows.append([f"{cell}/{mode}", micro(times["ours"]),
                         f"{layer_flops(cell, mode) / statistics.median(times['ours']):.0f}",
                         *(micro(times[peer]) if peer in times else "-" for peer in peers), best,
                         f"{statistics.median(paired):.2f}", f"{bounds[-1]:.2f}"])
            progress("layer " + " ".join(rows[-1]))
        if mode != "weights":
            bars.append((f"{mode}, worst", "1.0 (from 0.97)", f"{min(bounds):.2f}", min(bounds) >= PASSES_AS_ONE))
        bars.append((f"{mode}, geomean", f"{asked}", f"{geomean(bounds):.2f}", geomean(bounds) >= asked))
        lines.append(closing(f"layer-{mode}", bounds))
    return [Family("layer", "The layer: projections, attention, W_O (µs a call)",
                   ["C,H,T,B", "ours", "GF/s", *peers, "best peer", "median", "R"], rows, bars, lines,
                   ["training: forward and backward with the gradients of input and parameters. weights: forward with the "
                    "weights of every head. torch-mha is nn.MultiheadAttention, torch-packed one product, SDPA and W_O, "
                    "ort-layer onnxruntime's Attention operator and MatMul."], raw)]
