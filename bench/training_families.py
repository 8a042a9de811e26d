"""What is measured of training: a step beside torch, and how far the losses are from torch in float64."""
import itertools
import statistics

from families import best_of, closing, micro, progress
from report import Family
from servers import PeerError, geomean, lower_bound, ratios

MODELS = ["2,64,4,64,64", "2,256,8,64,32", "4,128,4,32,64", "6,384,6,256,8"]
PEERS = ["torch-eager", "torch-compiled"]
VOCABULARY = 64
ALLOWED_ERROR = 2e-5  # of a loss after two steps, against float64
STEPS, ALLOWED_TIMES = 100, 3


def step_flops(model):
    """Of the products and of attention; the backward pass has twice as many, in attention two and a half times."""
    layers, width, _, tokens, batch = map(int, model.split(","))
    products = 2 * batch * tokens * width * (layers * 12 * width + VOCABULARY)
    return 3 * products + 3.5 * layers * 2 * batch * tokens**2 * width


def losses(bench, name, model, steps):
    found = bench.ask(name, "losses", f"train:{model}/step", steps)["losses"]
    bench.release([name])
    return found


def able(bench, model):
    """The peers that train here, and what keeps the others from it. All that train must have the same losses."""
    exact, present, absent = losses(bench, "torch-f64", model, 3), [], {}
    for name in ["ours", *PEERS]:
        try:
            error = max(abs(a - b) for a, b in zip(losses(bench, name, model, 3), exact))
            if not error <= ALLOWED_ERROR:
                raise PeerError(f"{name}: the losses of three steps are off by {error:.1e}")
            present.append(name)
        except PeerError as error:
            if name == "ours":
                raise
            absent[name] = str(error).splitlines()[0]
            progress(f"left out: {absent[name]}")
    return present[1:], absent


def training(bench):
    """A step: forward, loss, backward, clipping, AdamW."""
    rows, bounds, raw, absent = [], [], {}, {}
    for model in MODELS:
        present, missing = able(bench, model)
        absent |= missing
        times, _ = bench.measure({name: (name, "time", f"train:{model}/step") for name in ["ours", *present]})
        bench.release(times)
        raw[model] = times
        best = best_of(times, present)
        paired = ratios(times[best], times["ours"])
        bounds.append(lower_bound(paired))
        rows.append([model, micro(times["ours"]), f"{step_flops(model) / statistics.median(times['ours']):.0f}",
                     *(micro(times[peer]) if peer in times else "-" for peer in PEERS), best,
                     f"{statistics.median(paired):.2f}", f"{bounds[-1]:.2f}"])
        progress("training " + " ".join(rows[-1]))
    bars = [("training step, worst", "1.05", f"{min(bounds):.2f}", min(bounds) >= 1.05),
            ("training step, geomean", "1.5", f"{geomean(bounds):.2f}", geomean(bounds) >= 1.5)]
    notes = [f"A GPT with a vocabulary of {VOCABULARY}, learned positions, LayerNorm, GELU (tanh), biases and an "
             "output of its own. A step is forward, cross-entropy, backward, clipping at 1 and AdamW. torch has "
             "one product for q, k and v, SDPA with is_causal and AdamW(fused=True); torch-compiled has the model "
             "in torch.compile. Before anything is timed, three losses from the same weights and batches are "
             "compared with torch in float64."]
    notes += [f"{name} did not work here: {why}" for name, why in absent.items()]
    return [Family("training", "Training: a step beside torch (µs)",
                   ["L,C,H,T,B", "ours", "GF/s", *PEERS, "best peer", "median", "R"], rows, bars,
                   [closing("training", bounds)], notes, raw)]


def worst_ratio(ours, torch, exact):
    """The largest of our deviations over the largest that torch in f32 has had so far: at a single step that one may
    happen to be next to nothing, but what has once been lost does not come back."""
    own, theirs = ([abs(a - b) for a, b in zip(found, exact)] for found in (ours, torch))
    return max(mine / most for mine, most in zip(own, itertools.accumulate(theirs, max)))


def training_losses(bench):
    """From the same weights and batches, step by step."""
    rows, reached, raw = [], [], {}
    for model in MODELS:
        found = {name: losses(bench, name, model, STEPS) for name in ("ours", "torch-eager", "torch-f64")}
        raw[model] = found
        exact = found["torch-f64"]
        off = {name: max(abs(a - b) for a, b in zip(found[name], exact)) for name in ("ours", "torch-eager")}
        worst = worst_ratio(found["ours"], found["torch-eager"], exact)
        reached.append(ALLOWED_TIMES / worst)
        rows.append([model, f"{exact[0]:.3f}", f"{exact[-1]:.3f}", f"{off['ours']:.1e}", f"{off['torch-eager']:.1e}",
                     f"{worst:.2f}", "pass" if worst <= ALLOWED_TIMES else "FAIL"])
        progress("training-losses " + " ".join(rows[-1]))
    bars = [("deviation of any loss, times that of torch in f32", f"≤ {ALLOWED_TIMES}",
             f"{ALLOWED_TIMES / min(reached):.2f}", min(reached) >= 1)]
    return [Family("training-losses", f"Training: the losses of {STEPS} steps beside torch in float64",
                   ["L,C,H,T,B", "first loss", "last", "ours off by", "torch f32 off by", "worst ratio", "≤ 3"], rows,
                   bars, [closing("training-losses", reached)],
                   ["The ratio at a step is our deviation over the largest that torch in f32 has had up to that step."],
                   raw)]
