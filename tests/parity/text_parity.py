"""Texts through polyhead's Python package beside Transformers: tokens, offsets, embeddings, loss and what is generated.

text_parity.py BUILD ENCODER GGUF. The encoder is a folder with tokenizer.json; the GGUF file holds a language model.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD, ENCODER, GGUF = (Path(name).resolve() for name in sys.argv[1:4])
os.environ.setdefault("POLYHEAD_LIBRARY", str(BUILD / "capi/libpolyhead_c.so"))
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, BertModel, PreTrainedTokenizerFast  # noqa: E402

import polyhead  # noqa: E402

TEXTS = ["The animal didn't cross the road because it was too tired.", "Hi", "Größe: 12 €, naïve café", "  two  blanks\nand a line", "一个 😀 test"]


def tokens_agree(ours, theirs):
    found, expected = ours(TEXTS, return_offsets_mapping=True), theirs(TEXTS, return_offsets_mapping=True)
    for name in ("input_ids", "attention_mask", "offset_mapping"):
        assert found[name] == [list(each) for each in expected[name]], f"{name}:\n{expected[name]}\n{found[name]}"
    for ids in expected["input_ids"]:
        for skip in (False, True):
            text = theirs.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
            said, places = ours.decode(ids, skip_special_tokens=skip, return_offsets_mapping=True)
            assert said == ours.decode(ids, skip_special_tokens=skip) == text, f"expected {text!r}, found {said!r}"
            assert all(0 <= begin <= end <= len(said) for begin, end in places) and (not said or places[-1][1] == len(said) or skip)
    print(f"{len(TEXTS)} texts: tokens, offsets and decoded texts agree")


def embeddings_agree():
    theirs = BertModel.from_pretrained(ENCODER, attn_implementation="eager").eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(ENCODER / "tokenizer.json"), pad_token="[PAD]")
    model = polyhead.load(ENCODER)
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    tokens_agree(model.tokenizer, tokenizer)
    given = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = theirs(input_ids=given["input_ids"], attention_mask=given["attention_mask"]).last_hidden_state
    mask = given["attention_mask"][..., None]
    expected = ((states * mask).sum(1) / mask.sum(1)).numpy()
    worst = np.abs(model.embed(TEXTS) - expected).max()
    assert worst < 1e-4, worst
    print(f"embeddings of {len(TEXTS)} texts of different lengths differ by at most {worst:.1e}")


def texts_agree():
    where = {"pretrained_model_name_or_path": str(GGUF.parent), "gguf_file": GGUF.name}
    theirs = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(**where)
    model = polyhead.load(GGUF)
    tokens_agree(model.tokenizer, tokenizer)
    prompts = ["The capital of France is", "Once upon a time, in a land far away, there was", "def add(a, b):"]
    expected = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            made = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False, pad_token_id=0,
                                   eos_token_id=model.tokenizer.eos_token_ids)[0, ids.shape[1] :]
        expected.append(tokenizer.decode(made, skip_special_tokens=True))
    found = model.generate(prompts, 16)
    assert found == expected, f"expected {expected}, found {found}"
    streamed = [""] * len(prompts)
    for n, piece in model.generate(prompts, 16, stream=True):
        streamed[n] += piece
    assert streamed == found, streamed
    text = TEXTS[0] + " " + TEXTS[2]
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        loss = theirs(ids, labels=ids).loss.item()
    assert abs(model.score(text)[0] - loss) < 1e-3, (model.score(text), loss)
    print(f"{len(prompts)} prompts are continued alike, at once and piece by piece; the loss of a text is {loss:.4f} in both")


if __name__ == "__main__":
    embeddings_agree()
    texts_agree()
