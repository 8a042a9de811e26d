"""Models from disk: run, generate, and what their heads do.

In the examples "run" is the folder of a model of two layers that has learnt to go on with what it has seen before.
"""

import contextlib
import ctypes
import os
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _page
from ._errors import DTypeError, InputError, InvalidValueError, IOError, ShapeError
from ._generation import Generation
from ._heads import Estimate, Head, HeadImportance, HeadTable, PatchedHead, Patching, PruneCurve, PruneStep, SurveyedHead
from ._library import FULL_STATISTICS, Handle, context, native, record, statistic_names, version
from ._numbers import natural, number, whole
from ._tensors import Tensors, result_array
from ._text import BEGINNING, ENDING, Tokenizer, are_texts, integers, is_conversation, named, path_bytes, utf8

_INFO, _EXAMPLES, _SURVEYED, _PATCHING, _PATCHED, _IMPORTANT, _STEP = map(
    record, ("model_info", "examples", "surveyed_head", "patching", "patched_head", "head_importance", "prune_step"))
_ORDERS = ("iterative", "one_shot", "random", "damage")

Heads = Union[Iterable[Head], np.ndarray]
_MOST_PAGE_BYTES = 2**25
_BATCH_TOKENS, _BATCH_TEXTS = 4096, 32  # of texts that are read together


@dataclass
class Examples:
    """Sequences with their right answers."""

    tokens: Any  # [B,T]
    targets: Any  # [B,T], the token that comes next, -1 where none counts; of a classifier the class, [B]
    lengths: Any = None  # [B]: tokens of each sequence that exist; for classifiers


Batches = Union[str, Sequence[str], Examples, Sequence[Examples]]


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


def _sized(struct: np.dtype) -> np.ndarray:
    """One that says how large it is."""
    made = np.zeros((), struct)
    made["size"] = struct.itemsize
    return made


class _Batches:
    """Examples in C, [Examples]."""

    def __init__(self, model: "Model", examples: Any, name: str):
        if are_texts(examples):
            with named(name):
                examples = model.examples(examples)
        batches = [examples] if isinstance(examples, Examples) else examples
        if not isinstance(batches, (list, tuple)) or not batches or not all(isinstance(batch, Examples) for batch in batches):
            raise DTypeError(f"{name}: expected texts, polyhead.Examples or a list of at least one of them, found {examples!r}")
        self.count, self.structs, self._kept = len(batches), np.zeros(len(batches), _EXAMPLES), []
        self.structs["size"] = _EXAMPLES.itemsize
        for made, batch in zip(self.structs, batches):
            given = Tensors(integers(batch.tokens, f"{name}.tokens", (2,)), integers(batch.targets, f"{name}.targets", (1, 2)),
                            None if batch.lengths is None else integers(batch.lengths, f"{name}.lengths", (1,)))
            made["tokens"], made["targets"], made["lengths"] = given.at
            self._kept.append(given)


def _texts_in_c(texts: Union[str, Sequence[str]]) -> Tuple[Any, np.ndarray]:
    """Where texts lie, and their bytes."""
    given = [utf8(text, "texts") for text in ([texts] if isinstance(texts, str) else texts)]
    return (ctypes.c_char_p * len(given))(*given), np.array([len(text) for text in given], np.uint64)


class Model:
    """A transformer as a folder or a GGUF file holds it. Several threads may use one at once.

    heads  every (layer, head), layer by layer

    >>> import numpy as np, polyhead
    >>> model = polyhead.load("run")
    >>> tokens = np.array([[3, 1, 4, 3, 1]])
    >>> int(model(tokens)[0, -1].argmax())  # as after 3, 1 before
    4
    >>> int(model.weights(tokens)[1][0, 0, -1].argmax())  # layer 1, head 0, the last token looks at
    2
    >>> int(model(tokens, knocked_out=[(1, 0)])[0, -1].argmax()) == 4
    False
    """

    def __init__(self, handle: Handle):
        self._handle: Optional[Handle] = handle
        info = _sized(_INFO)
        native.model_describe(handle.value, info)
        _, classifier, encoder, self.vocabulary, self.context_length, self.parameter_count, count = info.item()
        self.is_classifier, self.is_encoder = bool(classifier), bool(encoder)
        ids = np.empty((count, 2), np.int64)
        native.model_heads(handle.value, ids)
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
            native.model_tokenizer(self._open("tokenizer").value, made.into)
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
        addresses, sizes = _texts_in_c(texts)
        native.model_examples(model.value, ctypes.addressof(addresses), sizes, len(sizes), length, results.into)
        return result_array(results, "tokens"), result_array(results, "targets"), result_array(results, "lengths")

    def _sequences(self, tokens: Any, lengths: Any) -> Tuple[Any, Any]:
        """Tokens [B,T] and lengths of texts, each of which must fit into a row; of tokens, these."""
        if not are_texts(tokens):
            return tokens, lengths
        with named("tokens"):
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
        most = 0 if length is None else whole(length, "length", 1, 2**31 - 1)
        with named("texts"):
            tokens, targets, lengths = self._rows(texts, most)
        if not self.is_encoder and (targets < 0).all(1).any():
            raise InvalidValueError("texts: expected at least two tokens in each, one to predict another from, found fewer")
        step = max(_BATCH_TOKENS // tokens.shape[1], 1)
        return [Examples(tokens[n : n + step], targets[n : n + step], lengths[n : n + step]) for n in range(0, len(tokens), step)]

    def _pass(self, caller, function, tokens, lengths, knocked_out):
        model = self._open(caller)
        tokens, lengths = self._sequences(tokens, lengths)
        out, results = _heads_array(knocked_out, "knocked_out"), Handle("results")
        function(context(), model.value, integers(tokens, "tokens", (2,)),
                 None if lengths is None else integers(lengths, "lengths", (1,)), out, len(out), results.into)
        return results

    def forward(self, tokens: Any, lengths: Any = None, knocked_out: Heads = ()) -> np.ndarray:
        """Logits [B,T,V], [B,classes] of a classifier, or what an encoder made of every token, [B,T,C].

        tokens  [B,T], or texts, which are padded on the right
        """
        return result_array(self._pass("forward", native.model_forward, tokens, lengths, knocked_out), "logits")

    def embed(self, tokens: Any, lengths: Any = None, knocked_out: Heads = ()) -> np.ndarray:
        """Of an encoder, [B,C]: the mean of its output over the tokens of each text, or of tokens [B,T]. Compare two by their angle."""
        if not are_texts(tokens):
            return result_array(self._pass("embed", native.model_embed, tokens, lengths, knocked_out), "embeddings")
        texts = [tokens] if isinstance(tokens, str) else list(tokens)
        parts = [self._pass("embed", native.model_embed, texts[n : n + _BATCH_TEXTS], None, knocked_out) for n in range(0, len(texts), _BATCH_TEXTS)]
        return np.concatenate([result_array(part, "embeddings") for part in parts])

    def weights(self, tokens: Any, lengths: Any = None, knocked_out: Heads = ()) -> Dict[int, np.ndarray]:
        """What every head attends to: by layer, [B,heads,T,T]."""
        results = self._pass("weights", native.model_weights, tokens, lengths, knocked_out)
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

    def _prompts(self, prompts: Any, chat: bool) -> Tuple[Any, bool, bool]:
        """Tokens of each prompt, whether they were texts, and whether it was a single one."""
        if not hasattr(prompts, "__len__") or isinstance(prompts, (bytes, dict)) or getattr(prompts, "ndim", 1) == 0:
            raise DTypeError(f"expected texts or lists of tokens, found {type(prompts).__name__}")
        if chat and are_texts(prompts):
            asked = [[{"role": "user", "content": text}] for text in ([prompts] if isinstance(prompts, str) else prompts)]
            prompts = asked[0] if isinstance(prompts, str) else asked
        alone = isinstance(prompts, str) or is_conversation(prompts)
        given = [prompts] if alone else prompts
        if isinstance(given, (list, tuple)) and given and all(map(is_conversation, given)):
            return [self.tokenizer.apply_chat_template(one, add_generation_prompt=True) for one in given], True, alone
        if chat:
            raise DTypeError(f"expected texts or conversations to answer, found {prompts!r}")
        if are_texts(prompts):
            return [self._tokens_of(one) for one in given], True, alone
        for one in prompts:
            if isinstance(one, str) or not hasattr(one, "__iter__"):
                raise DTypeError("expected texts alone or a list of tokens for each prompt, found "
                                 + ("texts and others" if isinstance(one, str) else "a single list of tokens; put it into a list"))
        return prompts, False, False

    def generate(self, prompts: Any, max_new_tokens: int = 100, *, temperature: float = 0.0, seed: int = 1, top_k: int = 0,
                 top_p: float = 1.0, stop_strings: Sequence[str] = (), eos_token_id: Any = None, stream: bool = False,
                 chat: bool = False) -> Any:
        """How the model goes on: up to `max_new_tokens` tokens after each prompt. Temperature 0: always the likeliest.

        prompts       a text, a list of texts, or a list of lists of tokens; they may differ in length. The answer is of the same
                      kind, without the prompt. Or a conversation, a list of {"role": ..., "content": ...}, or a list of such
        stop_strings  a text ends before any of these
        eos_token_id  ends a sequence (default: the end tokens of the model's files); several in a list, none in an empty one
        stream        an iterator over pieces of text, or tokens, as they are made; for a list of texts, or several lists of tokens,
                      over (prompt, piece). The tokens are the same
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
        with named("prompts"):
            prompts, texts, alone = self._prompts(prompts, chat)
        each = [integers(prompt, "prompts", (1,)) for prompt in prompts]
        going = Generation(self, each, whole(max_new_tokens, "max_new_tokens", 0, 2**31 - 1), temperature, seed, top_k, top_p,
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
        """(loss, accuracy) on texts, Examples, or a list of either, over all tokens that are to be predicted.

        The loss is in nats a token; e to the power of it is the perplexity that `polyhead score` prints.

        >>> import numpy as np, polyhead
        >>> tokens = np.array([[5, 2, 7, 5, 2, 7, 5, 2]])
        >>> examples = polyhead.Examples(tokens, targets=[[-1, -1, -1, 2, 7, 5, 2, -1]])  # what comes next, where it can be known
        >>> loss, accuracy = polyhead.load("run").score(examples)
        >>> accuracy
        1.0
        """
        model = self._open("score")
        batches, out, found = _Batches(self, examples, "examples"), _heads_array(knocked_out, "knocked_out"), np.empty(2)
        native.model_score(context(), model.value, batches.structs, batches.count, out, len(out), found)
        loss, accuracy = found.tolist()
        return loss, accuracy

    def survey(self, tokens: Any, lengths: Any = None, separators: Optional[Sequence[int]] = None, seed: int = 1) -> "HeadTable":
        """What every head does on tokens [B,T], or texts, such as the model was trained on: statistics and roles.

        Roles on texts are the model's own, whatever they say: found once on texts that come with polyhead, and kept in its cache.

        separators  tokens for the role "separator" (default: for texts punctuation, else none); in texts, special tokens are none

        >>> import numpy as np, polyhead
        >>> tokens = np.stack([np.tile(np.random.default_rng(n).permutation(16), 2) for n in range(4)])
        >>> heads = polyhead.load("run").survey(tokens)  # print(heads) is a table
        >>> [(head.layer, head.head, head.role) for head in heads if head.head == 0]
        [(0, 0, 'previous token'), (1, 0, 'induction')]
        """
        model = self._open("survey")
        marks = integers([] if separators is None else separators, "separators", (1,))
        found, sums = np.zeros(len(self.heads), _SURVEYED), np.empty((len(self.heads), FULL_STATISTICS))
        into = marks, len(marks), natural(seed, "seed"), found, found.itemsize, sums, FULL_STATISTICS
        if are_texts(tokens):
            with named("tokens"):
                addresses, sizes = _texts_in_c(tokens)
                native.survey_texts(context(), model.value, ctypes.addressof(addresses), sizes, len(sizes), *into)
        else:
            native.survey_heads(context(), model.value, integers(tokens, "tokens", (2,)),
                                None if lengths is None else integers(lengths, "lengths", (1,)), *into)
        return HeadTable(
            SurveyedHead(layer, head, role.decode() or None, score, dict(zip(statistic_names, values)))
            for ((layer, head), role, score), values in zip(found.tolist(), sums.tolist()))

    def patch(self, clean: Any, corrupted: Any, answer: Any = None, instead: Any = None) -> Patching:
        """Which heads carry the difference between two texts of equally many tokens.

        Each head of the run on the corrupted text is made to give its output of the run on the clean one.

        clean, corrupted  texts, or tokens [T]
        answer, instead   tokens, or texts of one token, whose logits are compared at the end (default: the likeliest after either)

        >>> import polyhead
        >>> found = polyhead.load("run").patch("c a b a", "c a d a")  # print(found) is a table
        >>> (found.answer, found.instead)
        (1, 3)
        >>> max(found.heads, key=lambda head: head.restored)[:2]
        (1, 0)
        """
        model = self._open("patch")
        rows = []
        for text, name in ((clean, "clean"), (corrupted, "corrupted")):
            with named(name) if isinstance(text, str) else contextlib.nullcontext():
                rows.append(integers(self._tokens_of(text) if isinstance(text, str) else text, name, (1,)))
        if len(rows[0]) != len(rows[1]):
            pieces = ["  " + " ".join(map(repr, self.tokenizer.pieces(row))) if isinstance(text, str) else f"  {row.tolist()}"
                      for text, row in zip((clean, corrupted), rows)]
            raise ShapeError("\n".join([f"corrupted: expected as many tokens as clean has, {len(rows[0])}, found {len(rows[1])}", *pieces]))
        asked = [-1 if token is None else self._one_token(token, name) for token, name in ((answer, "answer"), (instead, "instead"))]
        into, found = _sized(_PATCHING), np.zeros(len(self.heads), _PATCHED)
        native.patch_heads(context(), model.value, *rows, len(rows[0]), *asked, into, found, found.itemsize)
        answer, instead, before, after = into.item()[1:]
        return Patching(answer, instead, before, after, [PatchedHead(*head, *rest) for head, *rest in found.tolist()])

    def _one_token(self, token: Any, name: str) -> int:
        if not isinstance(token, str):
            return whole(token, name, 0, self.vocabulary - 1)
        with named(name):
            tokens = self.tokenizer.encode(token, add_special_tokens=False)
        if len(tokens) != 1:
            raise InvalidValueError(f"{name}: expected a text of one token, found {self.tokenizer.pieces(tokens)}; a word within a text "
                                    "usually begins with a space")
        return tokens[0]

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
        native.importance(context(), model.value, batches.structs, batches.count, found, found.itemsize)
        return HeadTable(
            HeadImportance(layer, head, gradient, normalised, Estimate(*zero), Estimate(*mean), accuracy_loss, Estimate(*logit))
            for (layer, head), gradient, normalised, zero, mean, accuracy_loss, logit in found.tolist())

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
        native.prune(context(), model.value, ranked.structs, ranked.count, judged.structs, judged.count, number(budget, "budget"),
                     _ORDERS.index(order), natural(seed, "seed"), before, steps, steps.itemsize, counts[:1], counts[1:])
        taken, within = map(int, counts)
        loss, accuracy = before.tolist()
        return PruneCurve(loss, accuracy, [PruneStep(removed, *without) for removed, without in steps[:taken].tolist()], within)

    def without(self, heads: Heads) -> "Model":
        """The model without these heads, in smaller matrices. Those that stay are numbered anew."""
        model = self._open("without")
        out, made = _heads_array(heads, "heads"), Handle("model")
        native.without_heads(model.value, out, len(out), made.into)
        return Model(made)

    def save(self, folder: Union[str, os.PathLike]) -> None:
        """Writes config.json and model.safetensors into a folder, which is made if need be."""
        model, name = self._open("save"), path_bytes(folder, "folder")
        try:
            os.makedirs(name, exist_ok=True)
        except OSError as error:
            raise IOError(f"folder: cannot make {os.fsdecode(name)}: {error.strerror}") from error
        native.model_save(model.value, name)


def load(path: Union[str, os.PathLike]) -> Model:
    """A model that polyhead or Hugging Face's libraries saved in a folder, a GGUF file, or by its name one that `polyhead get`
    has fetched: "smollm2".

    >>> import polyhead
    >>> model = polyhead.load("run")
    >>> model
    <polyhead.Model: language model, 2 layers, 4 heads, 46,080 parameters>
    >>> model.heads
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    made = Handle("model")
    native.model_load(context(), path_bytes(path, "path"), made.into)
    return Model(made)
