"""Models from disk: run, generate, and what their heads do.

In the examples "run" is the folder of a model of two layers that has learnt to go on with what it has seen before.
"""

import ctypes
import os
import struct
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _figures, _page
from ._errors import DTypeError, InputError, InvalidValueError, IOError, ShapeError
from ._library import FULL_STATISTICS, Arena, Handle, context, function, pointers, statistic_names, threads, version
from ._numbers import natural, number, whole
from ._tensors import result_array, tensor
from ._text import BEGINNING, ENDING, MARKS, Tokenizer, are_texts, integers, is_conversation, path_bytes, utf8

_load = pointers(function("polyhead_model_load"), 3)
_save = pointers(function("polyhead_model_save"), 2)
_describe = pointers(function("polyhead_model_describe"), 2)
_heads = pointers(function("polyhead_model_heads"), 2)
_forward = function("polyhead_model_forward")
_weights = function("polyhead_model_weights")
_tokenizer = pointers(function("polyhead_model_tokenizer"), 2)
_examples = function("polyhead_model_examples")
_create_generation = function("polyhead_generation_create")
_next = function("polyhead_generation_next")
_create_context = function("polyhead_context_create")
_score = function("polyhead_model_score")
_survey = function("polyhead_survey_heads")
_importance = function("polyhead_importance")
_prune = function("polyhead_prune")
_without = function("polyhead_without_heads")

_P, _SIZE, _I64, _U64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_uint64
_forward.raw.argtypes = _weights.raw.argtypes = [_P, _P, _P, _P, _P, _SIZE, _P]
_examples.raw.argtypes = [_P, _P, _P, _SIZE, _I64, _P]
_create_generation.raw.argtypes = [_P, _P, _P, _P, _SIZE, _I64, _P, ctypes.c_int32, _P]
_next.raw.argtypes = [_P, _P, _SIZE, _P]
_create_context.raw.argtypes = [ctypes.c_int, _P]
_score.raw.argtypes = [_P, _P, _P, _SIZE, _P, _SIZE, _P]
_survey.raw.argtypes = [_P, _P, _P, _P, _P, _SIZE, _U64, _P, _SIZE, _P, _SIZE]
_importance.raw.argtypes = [_P, _P, _P, _SIZE, _P, _SIZE]
_prune.raw.argtypes = [_P, _P, _P, _SIZE, _P, _SIZE, ctypes.c_double, ctypes.c_int32, _U64, _P, _P, _SIZE, _P, _P]
_without.raw.argtypes = [_P, _P, _SIZE, _P]

_INFO = struct.Struct("<Qii4q")
_SAMPLING = struct.Struct("<QdQqd4Q")
_EXAMPLES = struct.Struct("<4Q")
_ORDERS = ("iterative", "one_shot", "random", "damage")

_SURVEYED = np.dtype([("layer", "i8"), ("head", "i8"), ("role", "S32"), ("score", "f8")])
_ESTIMATE = np.dtype([("mean", "f8"), ("low", "f8"), ("high", "f8")])
_IMPORTANT = np.dtype([
    ("layer", "i8"), ("head", "i8"), ("gradient", "f8"), ("normalised", "f8"), ("zero", _ESTIMATE), ("mean", _ESTIMATE),
    ("accuracy_loss", "f8"), ("logit", _ESTIMATE)])
_ADDITION = np.dtype([("size", "u8"), ("prompt", "u8"), ("token", "i4"), ("last", "i4"), ("text", "u8"), ("text_size", "u8")])
_STEP = np.dtype([("layer", "i8"), ("head", "i8"), ("loss", "f8"), ("accuracy", "f8")])

Head = Tuple[int, int]
Heads = Union[Iterable[Head], np.ndarray]
_MOST_PAGE_BYTES = 2**25
_BATCH_TOKENS = 4096  # of texts that are read together


class Estimate(NamedTuple):
    """A mean over sequences with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass
class Examples:
    """Sequences with their right answers."""

    tokens: Any  # [B,T]
    targets: Any  # [B,T], the token that comes next, -1 where none counts; of a classifier the class, [B]
    lengths: Any = None  # [B]: tokens of each sequence that exist; for classifiers


Batches = Union[str, Sequence[str], Examples, Sequence[Examples]]


@dataclass
class SurveyedHead:
    """What a head does."""

    layer: int
    head: int
    role: Optional[str]  # "induction", "previous token" ...; None if no detector beats its control
    role_score: float
    sums: Dict[str, float]  # statistics over all rows, by name


@dataclass
class HeadImportance:
    """How much a model depends on a head."""

    layer: int
    head: int
    gradient: float  # mean over sequences of |d loss / d gate|
    normalised: float  # divided by the l2 norm of its layer's
    zero: Estimate  # how much the loss rises with its output set to 0
    mean: Estimate  # or to its mean over all tokens
    accuracy_loss: float
    logit: Estimate  # what it adds to the logit of the right answer


class PruneStep(NamedTuple):
    """A head that was removed, and the scores of the model without it and all before it."""

    head: Head
    loss: float
    accuracy: float


@dataclass
class PruneCurve:
    """Heads that were knocked out one after the other."""

    loss: float  # of the whole model
    accuracy: float
    steps: List[PruneStep]
    within_budget: int  # how many of the first steps may be taken

    @property
    def removed(self) -> List[Head]:
        """The heads of the steps within the budget."""
        return [step.head for step in self.steps[: self.within_budget]]

    def _rows(self):
        return [["none", f"{self.loss:.4f}", f"{self.accuracy:.4f}", "yes"]] + [
            [f"{step.head[0]}.{step.head[1]}", f"{step.loss:.4f}", f"{step.accuracy:.4f}", "yes" if n < self.within_budget else "no"]
            for n, step in enumerate(self.steps)]

    def __str__(self) -> str:
        return _table(self._rows(), _STEP_COLUMNS)

    def _repr_html_(self) -> str:
        accuracies = [self.accuracy] + [step.accuracy for step in self.steps]
        figure = _figures.curve(accuracies, "accuracy by heads removed", self.within_budget, "the budget ends")
        return figure + _figures.table(_STEP_COLUMNS, self._rows())


_STEP_COLUMNS = ["removed", "loss", "accuracy", "within budget"]


def _table(rows, columns):
    lines = [columns] + rows
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)


class HeadTable(List[Any]):
    """A list of SurveyedHead or HeadImportance that prints as a table, in a notebook with bars."""

    def _columns(self) -> Tuple[List[str], List[Sequence[str]]]:
        names = [f"{h.layer}.{h.head}" for h in self]
        if self and isinstance(self[0], HeadImportance):  # bars beside the largest of each column
            columns = [_figures.bars(values, 4) for values in zip(
                *((h.gradient, h.zero.mean, h.mean.mean, h.logit.mean) for h in self))]
            return ["head", "gradient", "damage (zero)", "damage (mean)", "logit"], list(zip(names, *columns))
        rows = [h.sums["rows"] or 1 for h in self]
        scores = [bar if h.role else "" for h, bar in zip(self, _figures.bars([h.role_score for h in self], most=1))]
        entropies = [f"{h.sums['entropy'] / n:.3f}" for h, n in zip(self, rows)]
        firsts = _figures.bars([h.sums["first_weight"] / n for h, n in zip(self, rows)], most=1)
        return ["head", "role", "score", "entropy", "first"], list(zip(names, (h.role or "" for h in self), scores, entropies, firsts))

    def __str__(self) -> str:
        columns, rows = self._columns()
        return _table(rows, columns)

    def _repr_html_(self) -> str:
        return _figures.table(*self._columns())


def _heads_array(heads: Any, name: str) -> np.ndarray:
    try:
        found = np.asarray(heads if isinstance(heads, np.ndarray) else list(heads))
    except (TypeError, ValueError):  # nothing to go through, or rows of different lengths
        found = np.empty(1)
    if found.size == 0:
        return np.empty((0, 2), np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise ShapeError(f"{name}: expected pairs of whole numbers, (layer, head), found {heads!r}")
    return np.ascontiguousarray(found, np.int64)


class _Batches:
    """Examples in C, [Examples]."""

    def __init__(self, model: "Model", examples: Any, name: str):
        if are_texts(examples):
            examples = model.examples(examples)
        batches = [examples] if isinstance(examples, Examples) else examples
        if not isinstance(batches, (list, tuple)) or not batches or not all(isinstance(batch, Examples) for batch in batches):
            raise DTypeError(f"{name}: expected texts, polyhead.Examples or a list of at least one of them, found {examples!r}")
        self._arena = Arena(1024 + 512 * len(batches))
        packed = b""
        for batch in batches:
            packed += _EXAMPLES.pack(
                _EXAMPLES.size,
                tensor(self._arena, integers(batch.tokens, f"{name}.tokens", (2,)), f"{name}.tokens"),
                tensor(self._arena, integers(batch.targets, f"{name}.targets", (1, 2)), f"{name}.targets"),
                0 if batch.lengths is None else tensor(self._arena, integers(batch.lengths, f"{name}.lengths", (1,)), f"{name}.lengths"),
            )
        self.count = len(batches)
        self._packed = np.frombuffer(packed, np.uint64)
        self.at = self._packed.ctypes.data


class Model:
    """A transformer as a folder or a GGUF file holds it. Several threads may use one at once.

    heads  every (layer, head), layer by layer

    >>> import numpy as np, polyhead
    >>> model = polyhead.load("run")
    >>> tokens = np.array([[3, 1, 4, 3, 1]])
    >>> model(tokens)[0, -1].argmax()  # as after 3, 1 before
    4
    >>> model.weights(tokens)[1][0, 0, -1].argmax()  # layer 1, head 0, the last token looks at
    2
    >>> model(tokens, knocked_out=[(1, 0)])[0, -1].argmax() == 4
    False
    """

    def __init__(self, handle: Handle):
        self._handle: Optional[Handle] = handle
        info = ctypes.create_string_buffer(_INFO.pack(_INFO.size, *([0] * 6)), _INFO.size)
        _describe(handle.value, ctypes.addressof(info))
        _, classifier, encoder, self.vocabulary, self.context_length, self.parameter_count, count = _INFO.unpack(info.raw)
        self.is_classifier, self.is_encoder = bool(classifier), bool(encoder)
        ids = np.empty((count, 2), np.int64)
        _heads(handle.value, ids.ctypes.data)
        self.heads: List[Head] = [(layer, head) for layer, head in ids.tolist()]
        self._tokenizer: Optional[Tokenizer] = None

    def __repr__(self) -> str:
        layers = len({layer for layer, _ in self.heads})
        kind = "classifier" if self.is_classifier else "encoder" if self.is_encoder else "language model"
        return f"<polyhead.Model: {kind}, {layers} layers, {len(self.heads)} heads, {self.parameter_count:,} parameters>"

    def close(self) -> None:
        """Gives the weights back, as soon as no call uses them; the model cannot be used any more."""
        self._handle = None

    def _open(self, caller: str) -> Handle:
        """The handle, to be held while a call runs: another thread may close the model."""
        handle = self._handle
        if handle is None:
            raise InvalidValueError(f"{caller}: expected an open model, found one that close() was called on; load it again")
        return handle

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own, from the files that it was loaded from; an InputError says so if there is none."""
        if self._tokenizer is None:
            made = Handle("tokenizer")
            _tokenizer(self._open("tokenizer").value, made.into)
            self._tokenizer = Tokenizer(made)
        return self._tokenizer

    def _end_tokens(self) -> List[int]:
        """None if the model has no tokenizer."""
        try:
            return self.tokenizer.eos_token_ids
        except InputError:
            return []

    def _tokens_of(self, text: str) -> List[int]:
        """A text as the model reads it."""
        tokens = self.tokenizer._of_kind(BEGINNING) + self.tokenizer.encode(text, add_special_tokens=False)
        return tokens + self.tokenizer._of_kind(ENDING) if self.is_encoder else tokens

    def _rows(self, texts: Union[str, Sequence[str]], length: int = 0) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Texts as (tokens [B,T], targets [B,T], lengths [B]); a long one fills several rows."""
        model, results = self._open("texts"), Handle("results")
        given = [utf8(text, "texts") for text in ([texts] if isinstance(texts, str) else texts)]
        sizes = np.array([len(text) for text in given], np.uint64)
        _examples(model.value, (ctypes.c_char_p * len(given))(*given), sizes.ctypes.data, len(given), length, results.into)
        return result_array(results, "tokens"), result_array(results, "targets"), result_array(results, "lengths")

    def _sequences(self, tokens: Any, lengths: Any) -> Tuple[Any, Any]:
        """Tokens [B,T] and lengths of texts, each of which must fit into a row; of tokens, these."""
        if not are_texts(tokens):
            return tokens, lengths
        rows = [self._tokens_of(text) for text in ([tokens] if isinstance(tokens, str) else tokens)]
        sizes = np.array([len(row) for row in rows])
        if not sizes.all() or sizes.max() > self.context_length:
            raise InvalidValueError(f"tokens: expected texts of 1 to {self.context_length} tokens, as many as the model's context holds, "
                                    f"found {sizes[(sizes == 0) | (sizes > self.context_length)][0]} in text "
                                    f"{np.argmax((sizes == 0) | (sizes > self.context_length))}")
        return np.array([row + [0] * (sizes.max() - len(row)) for row in rows]), sizes

    def examples(self, texts: Union[str, Sequence[str]], length: Optional[int] = None) -> List[Examples]:
        """Texts as examples: every token but the first is to be predicted from those before it.

        Those longer than `length` tokens (default: the model's context) are cut into several that lie side by side.

        >>> import polyhead
        >>> polyhead.load("run").examples("d b e d b")[0].targets
        array([[ 1,  4,  3,  1, -1]], dtype=int32)
        """
        if self.is_classifier:
            raise InvalidValueError("texts: expected polyhead.Examples, since a classifier's answers are classes, found texts")
        if not are_texts(texts):
            raise DTypeError(f"texts: expected a text or a list of texts, found {texts!r}")
        tokens, targets, lengths = self._rows(texts, 0 if length is None else whole(length, "length", 1, 2**31 - 1))
        if not self.is_encoder and (targets < 0).all(1).any():
            raise InvalidValueError("texts: expected at least two tokens in each, one to predict another from, found fewer")
        step = max(_BATCH_TOKENS // tokens.shape[1], 1)
        return [Examples(tokens[n : n + step], targets[n : n + step], lengths[n : n + step]) for n in range(0, len(tokens), step)]

    def _pass(self, caller, function, tokens, lengths, knocked_out):
        model = self._open(caller)
        tokens, lengths = self._sequences(tokens, lengths)
        arena, out = Arena(), _heads_array(knocked_out, "knocked_out")
        results = Handle("results")
        function(context(), model.value, tensor(arena, integers(tokens, "tokens", (2,)), "tokens"),
                 0 if lengths is None else tensor(arena, integers(lengths, "lengths", (1,)), "lengths"),
                 out.ctypes.data, len(out), results.into)
        return results

    def forward(self, tokens: Any, lengths: Any = None, knocked_out: Heads = ()) -> np.ndarray:
        """Logits [B,T,V], [B,classes] of a classifier, or what an encoder made of every token, [B,T,C].

        tokens  [B,T], or texts, which are padded on the right
        """
        return result_array(self._pass("forward", _forward, tokens, lengths, knocked_out), "logits")

    def weights(self, tokens: Any, lengths: Any = None, knocked_out: Heads = ()) -> Dict[int, np.ndarray]:
        """What every head attends to: by layer, [B,heads,T,T]."""
        results = self._pass("weights", _weights, tokens, lengths, knocked_out)
        return {layer: result_array(results, str(layer)) for layer in sorted({layer for layer, _ in self.heads})}

    def page(self, tokens: Any, words: Optional[Sequence[str]] = None, examples: Optional[Batches] = None,
             title: str = "Heads") -> _page.Page:
        """Every head on a text, as an interactive page: in a notebook's cell, or as a file by save(). It needs no network.

        tokens    [T], or a text
        words     how each token is written (default: its text, or its number where the tokens are numbers)
        examples  Examples to rank heads by; with them the page shows importance and damage
        """
        if isinstance(tokens, str):
            tokens = self._sequences(tokens, None)[0][0]
            words = self.tokenizer.pieces(tokens) if words is None else words
        tokens = integers(tokens, "tokens", (1,))
        try:
            words = [str(word) for word in (tokens if words is None else words)]
        except TypeError:
            raise DTypeError(f"words: expected how each token is written, found {type(words).__name__}") from None
        if len(words) != len(tokens):
            raise ShapeError(f"words: expected one for each of {len(tokens)} tokens, found {len(words)}")
        if not self.heads:
            raise InvalidValueError("page: expected a model with heads, found none left in it")
        if len(self.heads) * len(tokens) ** 2 > _MOST_PAGE_BYTES:
            raise InvalidValueError(f"page: expected up to {_MOST_PAGE_BYTES:,} weights, found {len(self.heads)} heads of {len(tokens)} × "
                                    f"{len(tokens)}; choose a shorter text")
        weights = self.weights(tokens[None])
        surveyed = self.survey(tokens[None])
        important = [None] * len(surveyed) if examples is None else self.importance(examples)
        matrices = np.stack([weights[layer][0, head] for layer, head in self.heads])
        name = repr(self).strip("<>")
        model = {"name": name, "heads": [_page.head_data(*pair) for pair in zip(surveyed, important)],
                 "samples": [_page.sample_data("text", words, self.heads, matrices)]}
        return _page.page(title, "", {"polyhead": version, "model": name}, [model])

    __call__ = forward

    def generate(self, prompts: Any, max_new_tokens: int = 100, *, temperature: float = 0.0, seed: int = 1, top_k: int = 0,
                 top_p: float = 1.0, stop_strings: Sequence[str] = (), eos_token_id: Any = None, stream: bool = False,
                 chat: bool = False) -> Any:
        """How the model goes on: up to `max_new_tokens` tokens after each prompt. Temperature 0: always the likeliest.

        prompts       a text, a list of texts, or a list of lists of tokens; they may differ in length. The answer is of the same
                      kind, without the prompt. Or a conversation, a list of {"role": ..., "content": ...}, or a list of such
        stop_strings  a text ends before any of these
        eos_token_id  ends a sequence (default: the end tokens of the model's files); several in a list, none in an empty one
        stream        an iterator over pieces of text, or tokens, as they are made; for several prompts, over (prompt, piece). The
                      tokens are the same
        chat          texts are what a user says: they are put into the form of the model's chat template, to be answered

        >>> import polyhead
        >>> model = polyhead.load("run")
        >>> model.generate([[0, 1, 2, 3, 4, 1], [9, 8, 9]], 3)
        [[2, 3, 4], [8, 9, 8]]
        >>> model.generate("a b c d e b", 3)
        ' c d e'
        >>> for piece in model.generate("a b c d e b", 3, stream=True):
        ...     print(piece, end="|")
         c| d| e|
        """
        if chat and are_texts(prompts):
            said_by_user = [[{"role": "user", "content": text}] for text in ([prompts] if isinstance(prompts, str) else prompts)]
            prompts = said_by_user[0] if isinstance(prompts, str) else said_by_user
        alone = isinstance(prompts, str) or is_conversation(prompts)
        chats = is_conversation(prompts) or (isinstance(prompts, (list, tuple)) and bool(prompts) and all(map(is_conversation, prompts)))
        if chat and not chats:
            raise DTypeError(f"prompts: expected texts or conversations to answer, found {prompts!r}")
        texts = chats or are_texts(prompts)
        if not hasattr(prompts, "__iter__"):
            raise DTypeError(f"prompts: expected texts or lists of tokens, found {type(prompts).__name__}")
        if texts:
            given = [prompts] if alone else prompts
            prompts = [self.tokenizer.apply_chat_template(one, add_generation_prompt=True) if chats else self._tokens_of(one) for one in given]
        each = [integers(prompt, "prompts", (1,)) for prompt in prompts]
        going = _Generation(self, each, whole(max_new_tokens, "max_new_tokens", 0, 2**31 - 1), temperature, seed, top_k, top_p,
                            stop_strings, eos_token_id, texts, stream)
        if stream:
            return (piece if len(each) == 1 and (alone or not texts) else (prompt, piece) for prompt, piece in going.pieces())
        if not texts:
            said: List[List[int]] = [[] for _ in each]
            for prompt, token in going.pieces():
                said[prompt].append(token)
            return said
        written = [""] * len(each)
        for prompt, piece in going.pieces():
            written[prompt] += piece
        return written[0] if alone else written

    def score(self, examples: Batches, knocked_out: Heads = ()) -> Tuple[float, float]:
        """(loss, accuracy) on texts, Examples, or a list of either. The loss is the mean over sequences, in nats.

        >>> import numpy as np, polyhead
        >>> tokens = np.array([[5, 2, 7, 5, 2, 7, 5, 2]])
        >>> examples = polyhead.Examples(tokens, targets=[[-1, -1, -1, 2, 7, 5, 2, -1]])  # what comes next, where it can be known
        >>> loss, accuracy = polyhead.load("run").score(examples)
        >>> accuracy
        1.0
        """
        model = self._open("score")
        batches, out, found = _Batches(self, examples, "examples"), _heads_array(knocked_out, "knocked_out"), np.empty(2)
        _score(context(), model.value, batches.at, batches.count, out.ctypes.data, len(out), found.ctypes.data)
        loss, accuracy = found.tolist()
        return loss, accuracy

    def survey(self, tokens: Any, lengths: Any = None, separators: Optional[Sequence[int]] = None, seed: int = 1) -> "HeadTable":
        """What every head does on tokens [B,T], or texts, such as the model was trained on: statistics and roles.

        separators  tokens for the role "separator" (default: for texts punctuation and what stands around a text, else none)

        >>> import numpy as np, polyhead
        >>> tokens = np.stack([np.tile(np.random.default_rng(n).permutation(16), 2) for n in range(4)])
        >>> heads = polyhead.load("run").survey(tokens)  # print(heads) is a table
        >>> [(head.layer, head.head, head.role) for head in heads if head.head == 0]
        [(0, 0, 'previous token'), (1, 0, 'induction')]
        """
        model = self._open("survey")
        arena = Arena()
        if are_texts(tokens):
            tokens, _, lengths = self._rows(tokens)
            if separators is None:
                separators = sum(map(self.tokenizer._of_kind, (BEGINNING, ENDING, MARKS) if self.is_encoder else (BEGINNING, MARKS)), [])
        marks = integers([] if separators is None else separators, "separators", (1,))
        found, sums = np.zeros(len(self.heads), _SURVEYED), np.empty((len(self.heads), FULL_STATISTICS))
        _survey(context(), model.value, tensor(arena, integers(tokens, "tokens", (2,)), "tokens"),
                0 if lengths is None else tensor(arena, integers(lengths, "lengths", (1,)), "lengths"),
                marks.ctypes.data, len(marks), natural(seed, "seed"), found.ctypes.data, found.itemsize, sums.ctypes.data,
                FULL_STATISTICS)
        return HeadTable(
            SurveyedHead(int(row["layer"]), int(row["head"]), row["role"].decode() or None, float(row["score"]),
                         dict(zip(statistic_names, values)))
            for row, values in zip(found, sums.tolist()))

    def importance(self, examples: Batches) -> "HeadTable":
        """How much the model depends on every head: by gradient, and by knocking each out.

        >>> import numpy as np, polyhead
        >>> tokens = np.array([[5, 2, 7, 5, 2, 7, 5, 2]])
        >>> examples = polyhead.Examples(tokens, targets=[[-1, -1, -1, 2, 7, 5, 2, -1]])
        >>> [head.zero.mean > 1 for head in polyhead.load("run").importance(examples)]  # how much the loss rises without it
        [True, False, True, False]
        """
        model = self._open("importance")
        batches, found = _Batches(self, examples, "examples"), np.zeros(len(self.heads), _IMPORTANT)
        _importance(context(), model.value, batches.at, batches.count, found.ctypes.data, found.itemsize)
        return HeadTable(
            HeadImportance(int(row["layer"]), int(row["head"]), float(row["gradient"]), float(row["normalised"]),
                           Estimate(*row["zero"].tolist()), Estimate(*row["mean"].tolist()), float(row["accuracy_loss"]),
                           Estimate(*row["logit"].tolist()))
            for row in found)

    def prune(self, ranking: Batches, judging: Batches, budget: float = 0.01, order: str = "iterative", seed: int = 1) -> PruneCurve:
        """Knocks out one head after the other until more than `budget` of the accuracy is lost.

        Heads are ranked on `ranking`, and the accuracy is that on `judging`, which should be other sequences.

        >>> import numpy as np, polyhead
        >>> tokens = np.array([[5, 2, 7, 5, 2, 7, 5, 2]])
        >>> examples = polyhead.Examples(tokens, targets=[[-1, -1, -1, 2, 7, 5, 2, -1]])
        >>> model = polyhead.load("run")
        >>> curve = model.prune(ranking=examples, judging=examples)  # print(curve) is a table
        >>> sorted(curve.removed)
        [(0, 1), (1, 1)]
        >>> model.without(curve.removed).save("small")
        """
        model = self._open("prune")
        if not isinstance(order, str) or order not in _ORDERS:
            raise InvalidValueError(f"order: expected one of {', '.join(_ORDERS)}, found {order!r}")
        ranked, judged = _Batches(self, ranking, "ranking"), _Batches(self, judging, "judging")
        before, steps, counts = np.empty(2), np.zeros(len(self.heads), _STEP), np.zeros(2, np.uint64)
        _prune(context(), model.value, ranked.at, ranked.count, judged.at, judged.count, number(budget, "budget"),
               _ORDERS.index(order), natural(seed, "seed"), before.ctypes.data, steps.ctypes.data, steps.itemsize,
               counts.ctypes.data, counts.ctypes.data + 8)
        taken, within = map(int, counts)
        loss, accuracy = before.tolist()
        return PruneCurve(loss, accuracy, [PruneStep((layer, head), *rest) for layer, head, *rest in steps[:taken].tolist()], within)

    def without(self, heads: Heads) -> "Model":
        """The model without these heads, in smaller matrices. Those that stay are numbered anew."""
        model = self._open("without")
        out, made = _heads_array(heads, "heads"), Handle("model")
        _without(model.value, out.ctypes.data, len(out), made.into)
        return Model(made)

    def save(self, folder: Union[str, os.PathLike]) -> None:
        """Writes config.json and model.safetensors into a folder, which is made if need be."""
        model, name = self._open("save"), path_bytes(folder, "folder")
        try:
            os.makedirs(name, exist_ok=True)
        except OSError as error:
            raise IOError(f"folder: cannot make {os.fsdecode(name)}: {error.strerror}") from error
        _save(model.value, name)


class _Generation:
    """Sequences that a model continues, step by step."""

    def __init__(self, model: Model, prompts: List[np.ndarray], count: int, temperature: float, seed: int, top_k: int, top_p: float,
                 stop_strings: Sequence[str], eos_token_id: Any, text: bool, stream: bool):
        self._model = model._open("generate")
        self._text = text
        if not 0 < number(top_p, "top_p") <= 1:
            raise InvalidValueError(f"top_p: expected more than 0 and up to 1, found {top_p}")
        if isinstance(stop_strings, str):
            raise DTypeError(f"stop_strings: expected a list of texts, found one text, {stop_strings!r}")
        stops = [utf8(stop, "stop_strings") for stop in stop_strings]
        if any(not stop or b"\0" in stop for stop in stops):
            raise InvalidValueError(f"stop_strings: expected texts without zero bytes that are not empty, found {list(stop_strings)!r}")
        if eos_token_id is None:
            eos_token_id = model._end_tokens()
        ends = integers([eos_token_id] if isinstance(eos_token_id, (int, np.integer)) else eos_token_id, "eos_token_id", (1,))
        flat = np.concatenate(prompts) if prompts else np.empty(0, np.int32)
        lengths = np.array([len(prompt) for prompt in prompts], np.int64)
        self._additions, self._made = np.zeros(len(prompts), _ADDITION), ctypes.c_size_t()
        # A stream may go on in another thread, between other calls: it has a context of its own.
        self._context = Handle("context")
        if stream:
            _create_context(threads(), self._context.into)
        texts = (ctypes.c_char_p * len(stops))(*stops)
        arena = Arena()
        self._handle = Handle("generation")
        _create_generation(
            self._context.value if stream else context(), self._model.value, flat.ctypes.data, lengths.ctypes.data, len(prompts), count,
            arena.pack(_SAMPLING, _SAMPLING.size, number(temperature, "temperature"), natural(seed, "seed"), natural(top_k, "top_k"),
                       number(top_p, "top_p"), ends.ctypes.data, len(ends), ctypes.addressof(texts), len(stops)),
            int(text), self._handle.into)

    def pieces(self) -> Iterator[Tuple[int, Any]]:
        """(prompt, piece of text or token)"""
        while True:
            _next(self._handle.value, self._additions.ctypes.data, self._additions.itemsize, ctypes.addressof(self._made))
            if not self._made.value:
                return
            for _, prompt, token, _, text, size in self._additions[: self._made.value].tolist():
                if self._text and size:
                    yield prompt, ctypes.string_at(text, size).decode()
                elif not self._text and token >= 0:
                    yield prompt, token


def load(path: Union[str, os.PathLike]) -> Model:
    """A model that polyhead or Hugging Face's libraries saved in a folder, or a GGUF file.

    >>> import polyhead
    >>> model = polyhead.load("run")
    >>> model
    <polyhead.Model: language model, 2 layers, 4 heads, 46,080 parameters>
    >>> model.heads
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    made = Handle("model")
    _load(context(), path_bytes(path, "path"), made.into)
    return Model(made)
