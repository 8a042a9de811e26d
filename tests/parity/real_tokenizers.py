"""Tokenizers that nobody trained here, and SentencePiece's own, as others read them."""
import math
import pathlib

import gguf
import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import kinds


def of_folder(folder):
    """The tokenizer.json of a model; it may say that texts are cut short and filled up, which is not its own business."""
    tokenizer = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def lacks(tokenizer, line):
    """Whether a byte-level vocabulary has no letter for a byte of the text: polyhead refuses that, `tokenizers` drops it."""
    letters = "".join(piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(line))
    return any(tokenizer.token_to_id(letter) is None for letter in set(letters))


def of_gguf(path):
    """SmolLM2's, from the tokens and merges of its GGUF file."""
    fields = gguf.GGUFReader(path).fields
    read = lambda key: fields[f"tokenizer.ggml.{key}"].contents()
    assert read("pre") == "smollm", read("pre")
    tokens = read("tokens")
    tokenizer = Tokenizer(models.BPE({token: n for n, token in enumerate(tokens)},
                                     [tuple(merge.split(" ")) for merge in read("merges")]))
    tokenizer.pre_tokenizer = kinds.smollm2_cut()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token, kind in zip(tokens, read("token_type"))
                                  if kind == gguf.TokenType.CONTROL])
    return tokenizer


def parts(message):
    """The fields of a protobuf message, as pairs of a number and bytes; those of other types than bytes are left out."""
    at, found = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = message[at], at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            number()
        elif key & 7 == 2:
            size = number()
            found.append((key >> 3, message[at:at + size]))
            at += size
        else:
            at += {1: 8, 5: 4}[key & 7]
    return found


class SentencePiece:
    """A BPE or Unigram of SentencePiece's, trained on texts, and what llama.cpp's converter makes of it."""

    def __init__(self, kind, texts, size, folder, **options):
        lines, self.unigram = folder / "texts", kind == "unigram"
        lines.write_text("\n".join(texts))
        options = options or ({"normalization_rule_name": "nmt_nfkc"} if self.unigram else
                              {"normalization_rule_name": "identity", "byte_fallback": True})
        sentencepiece.SentencePieceTrainer.train(
            input=str(lines), model_prefix=str(folder / kind), model_type=kind, vocab_size=size,
            remove_extra_whitespaces=self.unigram, minloglevel=2, **options)
        self.proto = (folder / f"{kind}.model").read_bytes()
        self.own = sentencepiece.SentencePieceProcessor(model_proto=self.proto)
        self.path = folder / f"sentencepiece_{kind}.gguf"
        self.write()

    def write(self):
        writer = gguf.GGUFWriter(self.path, "llama")
        ids = range(self.own.vocab_size())
        writer.add_tokenizer_model("t5" if self.unigram else "llama")
        writer.add_token_list([self.own.id_to_piece(n) for n in ids])
        writer.add_token_scores([self.own.get_score(n) for n in ids])
        writer.add_token_types([self.kind_of(n) for n in ids])
        writer.add_bos_token_id(self.own.bos_id())
        writer.add_eos_token_id(self.own.eos_id())
        writer.add_unk_token_id(self.own.unk_id())
        if self.unigram:
            normalizer = dict(parts(self.proto))[3]
            writer.add_precompiled_charsmap(dict(parts(normalizer)).get(2, b""))
            writer.add_remove_extra_whitespaces(True)
            writer.add_add_space_prefix(True)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()

    def kind_of(self, n):
        return (gguf.TokenType.UNKNOWN if self.own.is_unknown(n) else gguf.TokenType.CONTROL if self.own.is_control(n)
                else gguf.TokenType.BYTE if self.own.is_byte(n) else gguf.TokenType.NORMAL)

    def takes(self, line):
        """SentencePiece does not look for special tokens in a text, llama.cpp does."""
        return not any(special in line for special in ("<s>", "</s>", "<unk>"))

    def as_good(self, ids, own):
        """Whether two ways of cutting a long text are equals to SentencePiece, which sums scores in single precision: near a sum
        of -100,000 its unit is 1/128, and which of two near equals wins hangs on how it came there."""
        unknown = self.own.unk_id()
        worth = lambda tokens: math.fsum(self.own.get_score(n) for n in tokens if n != unknown)
        return (self.unigram and ids.count(unknown) == own.count(unknown) and worth(own) < -2**15
                and abs(worth(ids) - worth(own)) <= 2.0**-22 * abs(worth(own)))

    def read(self, line):
        """BOS, as Llama has it, or EOS, as T5 has it."""
        ids = self.own.encode(line, add_bos=not self.unigram, add_eos=self.unigram)
        return ids, self.own.decode([n for n in ids if not self.own.is_unknown(n)])
