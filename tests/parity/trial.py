"""One tiny model with polyhead's attention beside the same with eager attention, in all the ways that every_model.py names."""

import copy

import torch
import transformers as hf
from transformers.masking_utils import eager_mask

import polyhead
import polyhead.transformers as ours
from tiny_models import MASKS, Part, class_of, config_of, inputs_of, paddings_of, ways_of

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


class Diverged(Exception):
    """Another token was chosen, after which there is nothing to compare."""


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


def liven(model, spread):
    """Larger weights, so that attention looks somewhere."""
    with torch.no_grad():
        for name, x in model.named_parameters():
            if x.dim() > 1 and x.is_floating_point():
                x.normal_(0, spread)
            elif "sink" in name or "bias" in name:
                x.normal_(0, spread)
            elif ("scale" in name or name.endswith(".temp")) and x.dim() == 1:  # of what a layer adds, or of keys, which would vanish
                x.fill_(1)
        for name, x in model.named_buffers():
            if name.endswith("embed_sum"):  # a codebook, which training fills
                x.normal_(0, spread)


def floats(found):
    """All tensors of floating type in an output, by name."""
    if isinstance(found, torch.Tensor):
        return {"output": found} if found.is_floating_point() else {}
    parts = found.items() if hasattr(found, "items") else enumerate(found) if isinstance(found, (tuple, list)) else ()
    return {f"{name}.{inner}": x for name, part in parts for inner, x in floats(part).items()}


def widened(x):
    if isinstance(x, (list, tuple)):
        return type(x)(map(widened, x))
    if isinstance(x, dict):
        return {name: widened(part) for name, part in x.items()}
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def ran(model, inputs, double=False):
    inputs = widened(inputs) if double else inputs
    torch.manual_seed(7)
    return floats(model(**inputs))


def first(found, name=None):
    """The numbers of that name, or a pair: the first ones and their name."""
    if not found:
        raise Unbuilt("its output has no numbers")
    return found[name] if name else next(iter(found.items()))


def there(x, inputs):
    """The rows of x that belong to what is no padding, if x has a row for each place of the mask, or one more after them."""
    for name, mask in inputs.items():
        if name in MASKS and name != "encoder_attention_mask" and "decoder_input_ids" not in inputs and mask.dim() == 2 and x.dim() > 1:
            more = x.shape[1] - mask.shape[1]
            if x.shape[0] == mask.shape[0] and more in (0, 1):
                return x[torch.nn.functional.pad(mask, (0, more), value=1).bool()]
    return x


def off(found, right):
    if found.shape != right.shape:
        return float("inf")
    error = (found.double() - right).abs().max().item() if right.numel() else 0.0
    return float("inf") if error != error else error


def last_places(right):
    """Two units in the last place of float32 at the largest number."""
    return 2 * 2.0**-23 * (right.abs().max().item() if right.numel() else 0.0)


def gradients(model, inputs, double=False):
    model.zero_grad()
    name, x = first(ran(model, inputs, double))
    upstream = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).to(x.dtype)
    (x * upstream).sum().backward()
    found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(found) if found else torch.zeros(0)


STEPS = 5


def generated(model, inputs, cache, double=False):
    """Logits of every step, and the tokens."""
    model.generation_config.eos_token_id = None
    if model.generation_config.decoder_start_token_id is None and model.config.is_encoder_decoder:
        model.generation_config.decoder_start_token_id = 1
    inputs = widened(inputs) if double else inputs
    with torch.no_grad():
        result = model.generate(**inputs, max_new_tokens=STEPS, min_new_tokens=STEPS, do_sample=False, pad_token_id=0, use_cache=True,
                                return_dict_in_generate=True, output_logits=True, cache_implementation=cache, disable_compile=True)
    return torch.stack(result.logits, 1), result.sequences[:, -STEPS:]


class Trial:
    single = None

    def __init__(self, role):
        self.role, self.masks = role, set()

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

    def prepare(self, spread=0.1):
        global narrowed
        narrowed, self.wide = True, True
        state = copy.deepcopy(self.single.state_dict())
        liven(self.single, spread)
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
        """One that shows if attention is wrong, as another scale would make it: its first, unless another one shows it more. False if
        none does."""
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
            return False
        calls = 0
        if shown.get(self.output, 0) < 1e-4:
            self.output = most
        return True

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

    def compare(self, where, inputs, result, times=2):
        """(whether they agree, in which numbers) of what `result` makes of a model; or why nothing was compared."""
        try:
            right, theirs = result(self.double, inputs, self.wide), result(self.single, inputs)
        except Exception as error:
            return f"{where}, eager: {said(error)[:80]}"
        if not theirs.isfinite().all():
            return f"{where}, eager: no finite numbers"
        try:
            mine = result(self.model, inputs)
        except Diverged as error:
            return False, f"{where}: {error}"
        except polyhead.InvalidValueError as error:
            if not str(error).startswith("attention_mask: expected"):
                raise
            return f"{where}, refused: {said(error)[:120]}"  # a part of a model, which takes no mask as users give it
        right = right if right.isfinite().all() else theirs.double()  # float64 may have none: then rounding says what is plain
        good, words = self.held(mine, theirs, right, self.single, inputs, result, times)
        if not good:
            try:
                sdpa, wide = self.sdpa(), self.sdpa()
                wide = wide.double() if self.wide else wide
                right, theirs = result(wide, inputs, self.wide), result(sdpa, inputs)
                good, more = self.held(mine, theirs, right, sdpa, inputs, result, times)
                words += f"; beside sdpa {more}"
            except Exception:  # which the model does not have
                pass
        return good, f"{where}: {words}"

    def held(self, mine, theirs, right, model, inputs, result, times, draws=16):
        """By the rule of docs/semantics.md. The plain error is the worst of runs of the model that are equally plain: with weights that
        differ in their last bit, which matters where a model magnifies what its layers round, or where the gradient of a ReLU jumps."""
        error, plain, floor = off(mine, right), off(theirs, right), last_places(right)
        whole = copy.deepcopy(model.state_dict()) if error > times * plain + floor else None
        for seed in range(draws):
            if error <= times * plain + floor:
                break
            torch.manual_seed(seed)
            with torch.no_grad():
                for x in model.parameters():
                    x.mul_(1 + torch.randint(-1, 2, x.shape) * 2.0**-23)
            try:
                plain = max(plain, off(result(model, inputs), right))
            except Diverged:
                pass
            model.load_state_dict(whole)
        return error <= times * plain + floor, f"off by {error:.1e}, plain runs by {plain:.1e}, two last places are {floor:.1e}"

    def answer(self, model, inputs, double=False):
        with torch.no_grad():
            return there(first(ran(model, inputs, double), self.output), inputs)

    def padded(self, batch, side):
        """(name of a mask, inputs with it) that eager attention takes and that changes what it computes."""
        text = self.inputs(batch, side)
        seen = {"attention_mask"} if text is not None else set()
        if text is not None:
            yield "attention_mask", text
        whole = self.eager(self.single, self.inputs(batch))
        for name, inputs in paddings_of(self.single, self.role, self.way, batch, side):
            try:
                found = self.eager(self.single, inputs) if name not in seen else whole
            except Exception:  # a mask of another length, say
                continue
            if any(found[part].shape != x.shape or not torch.equal(found[part], x) for part, x in whole.items()):
                seen.add(name)
                yield name, inputs

    def run(self):
        self.model.load_state_dict(self.single.state_dict())
        if not self.choose_output():
            self.prepare(0.3)
            self.model.load_state_dict(self.single.state_dict())
            if not self.choose_output():
                raise Unbuilt("nothing in its output shows what its attention computes")
        for batch in (1, 3):
            yield self.compare(f"batch {batch}", self.inputs(batch), self.answer)
            for side in ("left", "right"):
                for name, inputs in self.padded(batch, side):
                    self.masks.add(name)
                    yield self.compare(f"batch {batch}, {name} {side}", inputs, self.answer)
        if calls:  # else there is no attention in it, or none that asks us
            yield from self.generation()
            yield self.compare("gradients", self.inputs(3), gradients, 3)

    def generations(self):
        """What a model that generates begins with, and each cache that it may have."""
        if self.role in ("causal", "seq2seq") and self.single.can_generate():
            inputs = self.inputs(3, "left") or self.inputs(3)
            inputs.pop("decoder_input_ids", None), inputs.pop("position_ids", None)
            yield from ((inputs, cache) for cache in (("dynamic", "static") if self.role == "causal" else ("dynamic",)))

    def generation(self):
        """Up to a tie between two tokens, where float32 and float64 choose different ones."""
        for inputs, cache in self.generations():
            where = f"generation, {cache} cache"
            try:
                tokens, others = (generated(model, inputs, cache, double)[1] for model, double in ((self.double, self.wide), (self.single, False)))
            except Exception as error:
                yield f"{where}, eager: {said(error)[:80]}"
                continue
            steps = int((tokens == others).all(0).cumprod(0).sum())

            def result(model, inputs, double=False):
                logits, found = generated(model, inputs, cache, double)  # noqa: B023
                if not torch.equal(found[:, :steps], tokens[:, :steps]):  # noqa: B023
                    raise Diverged("other tokens")
                return logits[:, : steps + 1]  # noqa: B023

            yield self.compare(where, inputs, result)
            if steps < STEPS:
                yield f"{where}: after {steps} steps there is a tie"


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
    made, missing, trial = [], [], Trial(role)
    try:
        trial.build(kind, name, most)
        for found in trial.run():
            if isinstance(found, str):
                missing.append(found)
            elif found[0]:
                made.append(found[1].split(":")[0])
            else:
                return "wrong", found[1]
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
    if not {"batch 1", "batch 3"} <= {*made} or calls and "gradients" not in made:
        return "unbuilt", f"eager attention itself makes too little to compare with: {'; '.join(missing)}"
    words = f"{len(made)} comparisons, {calls} calls of ours, padding by {', '.join(sorted(trial.masks)) or 'no mask'}"
    return "agrees", words + (f"; not compared: {'; '.join(missing)}" if missing else "")
