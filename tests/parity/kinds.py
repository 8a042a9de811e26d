"""Tokenizers of every kind that polyhead reads, trained here by Hugging Face's `tokenizers`."""
import json

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_bpe(texts, size, pre, special, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def template(tokenizer, form, *tokens):
    return processors.TemplateProcessing(single=form, special_tokens=[(t, tokenizer.token_to_id(t)) for t in tokens])


def gpt2(texts, size):
    tokenizer = byte_bpe(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def roberta(texts, size):
    tokenizer = byte_bpe(texts, size, pre_tokenizers.ByteLevel(add_prefix_space=True), ["<s>", "</s>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken("right", rstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")), trim_offsets=True,
        add_prefix_space=True)
    return tokenizer


def llama3(texts, size):
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_bpe(texts, size, pre, ["<|begin_of_text|>", "<|eot_id|>"], ignore_merges=True)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True), template(tokenizer, "<|begin_of_text|> $A", "<|begin_of_text|>")])
    return tokenizer


def qwen2(texts, size):
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_bpe(texts, size, pre, ["<|im_start|>", "<|im_end|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def smollm2_cut():
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False)])


def smollm2(texts, size):
    return byte_bpe(texts, size, smollm2_cut(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def sentence_bpe(texts, size, normalizer, pre, special):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizer
    # SentencePiece keeps words apart while it trains; what is trained does not.
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special + BYTES, show_progress=False, limit_alphabet=100))
    tokenizer.pre_tokenizer = pre
    parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    return tokenizer, parts


def llama2(texts, size):
    normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer, parts = sentence_bpe(texts, size, normalizer, None, ["<unk>", "<s>", "</s>"])
    tokenizer.decoder = decoders.Sequence(parts + [decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = template(tokenizer, "<s> $A", "<s>")
    return without_bytes(tokenizer, ["<unk>", "<s>", "</s>"])


def gemma(texts, size):
    tokenizer, parts = sentence_bpe(texts, size, normalizers.Replace(" ", "\u2581"),
                                    pre_tokenizers.Split(" ", "merged_with_previous"), ["<pad>", "<eos>", "<bos>", "<unk>"])
    tokenizer.decoder = decoders.Sequence(parts)
    tokenizer.post_processor = template(tokenizer, "<bos> $A", "<bos>")
    return without_bytes(tokenizer, ["<pad>", "<eos>", "<bos>", "<unk>"])


def without_bytes(tokenizer, special):
    """Bytes are tokens of the vocabulary and no added ones: the trainer knows no other way to get them in."""
    parts = json.loads(tokenizer.to_str())
    parts["added_tokens"] = [token for token in parts["added_tokens"] if token["content"] in special]
    return Tokenizer.from_str(json.dumps(parts))


def unigram(texts, size):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = template(tokenizer, "$A </s>", "</s>")
    return rounded(tokenizer)


def rounded(tokenizer):
    """Scores with a few digits, so that sums are exact and ties are ties: the library reads long numbers inexactly."""
    parts = json.loads(tokenizer.to_str())
    for entry in parts["model"]["vocab"]:
        entry[1] = round(entry[1] * 1024) / 1024
    return Tokenizer.from_str(json.dumps(parts))


def unigram_bytes(texts, size):
    """Bytes instead of the unknown; the blank only before the beginning of the text."""
    vocabulary = [("<unk>", 0.0)] + [(byte, -20.0) for byte in BYTES]
    vocabulary += [tuple(entry) for entry in json.loads(unigram(texts, size).to_str())["model"]["vocab"][3:]]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 0, True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


def bert(texts, size):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    tokenizer.post_processor = template(tokenizer, "[CLS] $A [SEP]", "[CLS]", "[SEP]")
    return tokenizer


def bert_cased(texts, size):
    tokenizer = bert(texts, size)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=None, clean_text=True)
    return tokenizer


# The library's tables for these are of Unicode 8 (marks and punctuation) and 12 (normal forms).
OLD_UNICODE, OLD_VERSION = [bert, bert_cased, unigram], "8.0"
KINDS = [gpt2, roberta, llama3, qwen2, smollm2, llama2, gemma, unigram, unigram_bytes, bert, bert_cased]
