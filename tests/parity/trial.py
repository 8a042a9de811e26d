"""One tiny model with polyhead's attention beside the same with eager attention, in all the ways that every_model.py names."""

import copy

import torch
import transformers as hf
from transformers.masking_utils import eager_mask

import polyhead
import polyhead.transformers as ours
from tiny_models import Part, class_of, config_of, inputs_of, ways_of

hf.logging.set_verbosity_error()
torch.set_num_threads(1)
calls = 0
narrowed = True
bent = False


def counted(module, query, *args, scaling=None, **kwargs):
    global calls
    calls += 1
    if bent:
        scaling = 1.5 * (scaling or query.shape[-1] ** -0.5)
    return ours._attention(module, query, *args, scaling=scaling, **kwargs)


def narrow(*args, dtype=torch.float32, **kwargs):
    """Eager attention takes its softmax in float32, where the smallest float64 is -inf: rows of padding would be NaN."""
    return eager_mask(*args, dtype=torch.float32 if narrowed and dtype == torch.float64 else dtype, **kwargs)


hf.AttentionInterface.register("polyhead", counted)
hf.AttentionMaskInterface.register("eager", narrow)


class Unbuilt(Exception):
    pass


def said(error):
    if isinstance(error, Unbuilt):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def made(kind, name, widths, most):
    """The class, the config, and the model with eager attention."""
    cls = class_of(kind, name)
    config = config_of(kind, widths)
    with torch.device("meta"):
        count = sum(x.numel() for x in cls._from_config(copy.deepcopy(config), attn_implementation="eager").parameters())
    if count > most:
        raise Unbuilt(f"{count:,} parameters")
    torch.manual_seed(0)
    return cls, config, cls._from_config(copy.deepcopy(config), attn_implementation="eager", dtype=torch.float32).eval()


def liven(model):
    """Larger weights, so that attention looks somewhere."""
    with torch.no_grad():
        for name, x in model.named_parameters():
            if x.dim() > 1 and x.is_floating_point():
                x.normal_(0, 0.1)
            elif "sink" in name or "bias" in name:
                x.normal_(0, 0.1)
            elif "scale" in name and x.dim() == 1:  # of what a layer adds, which would vanish
                x.fill_(1)


def floats(found):
    """All tensors of floating type in an output, by name."""
    if isinstance(found, torch.Tensor):
        return {"output": found} if found.is_floating_point() else {}
    parts = found.items() if hasattr(found, "items") else enumerate(found) if isinstance(found, (tuple, list)) else ()
    return {f"{name}.{inner}": x for name, part in parts for inner, x in floats(part).items()}


def widened(x):
    if isinstance(x, list):
        return [widened(part) for part in x]
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def ran(model, inputs, double=False):
    inputs = {name: widened(x) for name, x in inputs.items()} if double else inputs
    torch.manual_seed(7)
    return floats(model(**inputs))


def first(found, name=None):
    """The numbers of that name, or a pair: the first ones and their name."""
    if not found:
        raise Unbuilt("its output has no numbers")
    return found[name] if name else next(iter(found.items()))


def there(x, inputs):
    """The rows of x that belong to tokens that are no padding, if x has a row for each, or one more after them."""
    mask = inputs.get("attention_mask")
    if mask is None or "decoder_input_ids" in inputs or x.dim() < 2 or x.shape[0] != mask.shape[0]:
        return x
    more = x.shape[1] - mask.shape[1]
    return x[torch.nn.functional.pad(mask, (0, more), value=1).bool()] if more in (0, 1) else x


def off(found, right):
    if found.shape != right.shape:
        return float("inf")
    error = (found.double() - right).abs().max().item() if right.numel() else 0.0
    return float("inf") if error != error else error


def agree(where, mine, theirs, right):
    """Whether, and in which numbers. Where float64 has no numbers, within what rounding makes of those of float32."""
    if not theirs.isfinite().all():
        return None
    exact = right.isfinite().all()
    right = right if exact else theirs.double()
    scale = max(1.0, right.abs().max().item() if right.numel() else 0.0)
    a, b = off(mine, right), off(theirs, right)
    return a <= (max(4 * b, 3e-6 * scale) if exact else 2e-5 * scale), f"{where}: off by {a:.1e}, eager by {b:.1e} of {scale:.1g}"


def gradients(model, inputs, double=False):
    model.zero_grad()
    name, x = first(ran(model, inputs, double))
    upstream = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).to(x.dtype)
    (x * upstream).sum().backward()
    found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(found) if found else torch.zeros(0)


def generated(model, inputs, cache):
    """Logits of every step, and the tokens."""
    model.generation_config.eos_token_id = None
    result = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0, use_cache=True,
                            return_dict_in_generate=True, output_logits=True, cache_implementation=cache, disable_compile=True)
    return torch.stack(result.logits, 1), result.sequences


class Trial:
    single = None

    def __init__(self, role):
        self.role = role

    def build(self, kind, name, most):
        """The first of some ways to make it small and to ask it that eager attention runs with."""
        role, why = self.role, None
        base = None if role == "base" else hf.models.auto.modeling_auto.MODEL_MAPPING_NAMES.get(kind)
        names = [name] + ([base] if isinstance(base, str) and base != name else []) + ([None] if name else [])
        for name, widths in [(name, widths) for name in names for widths in (True, False)]:
            try:
                self.cls, self.config, self.single = made(kind, name, widths, most)
                self.model = self.polyhead()
            except polyhead.Error:
                raise
            except Part:
                if why is None:
                    raise
                continue
            except Exception as error:
                why = why or said(error)
                continue
            for self.way in ways_of(self.single):
                try:
                    return self.prepare()
                except Exception as error:
                    why = why or said(error)
        raise Unbuilt(why)

    def prepare(self):
        global narrowed
        narrowed, self.wide = True, True
        state = copy.deepcopy(self.single.state_dict())
        liven(self.single)
        inputs = self.inputs(1)
        self.output, x = first(self.eager(self.single, inputs))
        if not x.isfinite().all():
            self.single.load_state_dict(state)
            self.output, x = first(self.eager(self.single, inputs))
            if not x.isfinite().all():
                raise Unbuilt("eager attention makes no finite numbers")
        self.double = copy.deepcopy(self.single).double()
        try:
            self.eager(self.double, inputs, True)
        except RuntimeError:  # it adds the smallest float64 to the mask itself
            narrowed = False
            try:
                self.eager(self.double, inputs, True)
            except RuntimeError:  # it makes float32 of what it is given: then rounding says how far off is allowed
                self.double, self.wide = self.single, False

    def choose_output(self):
        """One that shows if attention is wrong, as another scale would make it: its first, unless another one shows it more."""
        global bent, calls
        inputs = self.inputs(1)
        right = self.eager(self.model, inputs)
        bent = True
        try:
            moved = self.eager(self.model, inputs)
        finally:
            bent = False
        shown = {name: off(moved[name], x) / max(1.0, x.abs().max().item()) for name, x in right.items() if x.numel() and x.isfinite().all()}
        most = max(shown, key=shown.get, default=self.output)
        if calls and shown.get(most, 0) < 3e-5:
            raise Unbuilt("nothing in its output shows what its attention computes")
        calls = 0
        if shown.get(self.output, 0) < 1e-4:
            self.output = most

    def inputs(self, batch, side=None):
        return inputs_of(self.single, self.role, self.way, batch, side)

    @staticmethod
    def eager(model, inputs, double=False):
        with torch.no_grad():
            return ran(model, inputs, double)

    def polyhead(self):
        return self.cls._from_config(copy.deepcopy(self.config), attn_implementation="polyhead", dtype=torch.float32).eval()

    def sdpa(self):
        """For what eager and sdpa do not agree on."""
        model = self.cls._from_config(copy.deepcopy(self.config), attn_implementation="sdpa", dtype=torch.float32).eval()
        model.load_state_dict(self.single.state_dict())
        return model

    def compare(self, where, inputs, result):
        """Of what `result` makes of a model; None if eager attention does not take it."""
        try:
            right, theirs = result(self.double, inputs, self.wide), result(self.single, inputs)
        except Exception:
            return None
        mine = result(self.model, inputs)
        judged = agree(where, mine, theirs, right)
        if judged is None or judged[0]:
            return judged
        moved = self.rounding(result, inputs, right)
        good, words = off(mine, right) <= 2 * moved, f"{judged[1]}, by rounding alone {moved:.1e}"
        try:
            other = result(self.sdpa(), inputs).double()
        except Exception:
            return good, words
        good = good or off(mine, other) <= max(4 * off(theirs, right), 3e-6 * max(1.0, other.abs().max().item()))
        return good, f"{words}, from sdpa by {off(mine, other):.1e}"

    def rounding(self, result, inputs, right, draws=16):
        """How far eager attention is off at most if weights differ in their last bits: far where a model magnifies what its layers
        round, or where the gradient of a ReLU jumps."""
        whole, farthest = copy.deepcopy(self.single.state_dict()), 0.0
        for seed in range(draws):
            torch.manual_seed(seed)
            with torch.no_grad():
                for x in self.single.parameters():
                    x.mul_(1 + torch.randint(-1, 2, x.shape) * 2.0**-23)
            farthest = max(farthest, off(result(self.single, inputs), right))
            self.single.load_state_dict(whole)
        return farthest

    def answer(self, model, inputs, double=False):
        with torch.no_grad():
            return there(first(ran(model, inputs, double), self.output), inputs)

    def run(self):
        self.model.load_state_dict(self.single.state_dict())
        self.choose_output()
        for batch in (1, 3):
            for side in (None, "left", "right"):
                inputs = self.inputs(batch, side)
                if inputs is not None:
                    yield self.compare(f"batch {batch}, padding {side}", inputs, self.answer)
        if calls:  # else there is no attention in it, or none that asks us
            yield from self.generation()
            yield self.compare("gradients", self.inputs(3), gradients)

    def generations(self):
        """What a model that generates begins with, and each cache that it may have."""
        if self.role in ("causal", "seq2seq") and self.single.can_generate():
            inputs = self.inputs(3, "left") or self.inputs(3)
            inputs.pop("decoder_input_ids", None), inputs.pop("position_ids", None)
            yield from ((inputs, cache) for cache in (("dynamic", "static") if self.role == "causal" else ("dynamic",)))

    def generation(self):
        for inputs, cache in self.generations():
            with torch.no_grad():
                try:
                    right, tokens = generated(self.double, inputs, cache)
                    theirs, others = generated(self.single, inputs, cache)
                except Exception:  # eager itself does not generate so
                    continue
                mine, found = generated(self.model, inputs, cache)
            if torch.equal(tokens, others):  # else there was a tie, and nothing is to be compared after it
                good, words = agree(f"generation, {cache} cache", mine, theirs, right) or (True, "")
                yield good and torch.equal(found, tokens), words


def clear(error):
    words = " ".join(str(error).split())
    return "expected" in words and "found" in words and "attn_implementation" in words


def refused_when_set(trial):
    """What is wrong, or nothing, if a model that refused polyhead is made with eager attention, and is then told to take it."""
    model = trial.single

    def calls_of_it():
        yield model.set_attn_implementation, ("polyhead",)
        for way in ways_of(model):
            for batch, side in ((1, None), (3, None), (3, "left"), (3, "right")):
                yield Trial.eager, (model, inputs_of(model, trial.role, way, batch, side) or {})
        for inputs, cache in trial.generations():
            yield generated, (model, inputs, cache)

    for call, arguments in calls_of_it():
        try:
            with torch.no_grad():
                call(*arguments)
        except polyhead.Error as error:
            return None if clear(error) else " ".join(str(error).split())
        except Exception:  # eager attention does not take it either
            continue
    return "is refused when it is made, and taken when it is set"


def judge(kind, role, name, most):
    """("agrees", "refused", "unbuilt" or "wrong", and why)."""
    global calls
    calls = 0
    count, trial = 0, Trial(role)
    try:
        trial.build(kind, name, most)
        for good, words in filter(None, trial.run()):
            count += 1
            if not good:
                return "wrong", words
    except Part as error:
        return "part", str(error)
    except Unbuilt as error:
        return "unbuilt", str(error)
    except polyhead.Error as error:
        words = " ".join(str(error).split())
        if not clear(error):
            return "wrong", words
        otherwise = refused_when_set(trial)
        return ("refused", words) if otherwise is None else ("wrong", f"{words} But it {otherwise}")
    except Exception as error:
        return "wrong", said(error)
    if count == 0:
        return "unbuilt", "eager attention itself makes nothing to compare with"
    return "agrees", f"{count} comparisons, {calls} calls of ours"
