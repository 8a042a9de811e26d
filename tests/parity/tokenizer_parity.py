"""Token ids, offsets and decoded texts of polyhead beside those of Hugging Face's `tokenizers`, for tokenizers of every
kind, which are trained here, and for those of the models named; ids and decoded texts of a BPE and a Unigram from GGUF beside
those of SentencePiece, which made them.   usage: tests/parity/tokenizer_parity.py BUILD [MODEL ...] [--texts N]"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

import kinds
import real_tokenizers
import texts


def ours(program, path, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    run = subprocess.run([program, path], input=text, capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{path}: {run.stderr}")
    return [json.loads(line) for line in run.stdout.split("\n")[:-1]]


def theirs(tokenizer, line):
    with_special, plain = (tokenizer.encode(line, add_special_tokens=special) for special in (True, False))
    listed = lambda encoding: [[i, *offsets] for i, offsets in zip(encoding.ids, encoding.offsets)]
    return {"special": listed(with_special), "plain": listed(plain),
            "decoded": tokenizer.decode(with_special.ids),
            "decoded_special": tokenizer.decode(with_special.ids, skip_special_tokens=False)}


def same(found, expected, line):
    """Also: bytes and characters are the same places."""
    starts = [0]
    for character in line:
        starts.append(starts[-1] + len(character.encode()))
    bare = {key: [token[:3] for token in value] if isinstance(value, list) else value for key, value in found.items()}
    places = all([starts[t[1]], starts[t[2]]] == t[3:] for key in ("special", "plain") for t in found[key])
    return bare == expected and places


def compare(program, path, lines, tokenizer):
    """The lines that differ, with both results."""
    pairs = ((line, found, theirs(tokenizer, line)) for line, found in zip(lines, ours(program, path, lines)))
    return [(line, found, expected) for line, found, expected in pairs if not same(found, expected, line)]


def report(name, lines, differ):
    print(f"{name:22} {len(lines)} texts, {len(differ)} differ", flush=True)
    for line, found, expected in differ[:3]:
        print(f"  {line!r}\n    found    {found}\n    expected {expected}")
    return len(differ)


def real(path):
    """A model's tokenizer as `tokenizers` has it, what it is called, and which texts it is compared on."""
    if path.suffix == ".gguf":
        return real_tokenizers.of_gguf(path), path.stem, None
    return real_tokenizers.of_folder(path), path.name, kinds.OLD_VERSION  # MiniLM's is BERT's


def compare_sentencepiece(program, folder, kind, trained_on, lines):
    peer = real_tokenizers.SentencePiece(kind, trained_on, 3000, folder)
    lines = [line for line in lines if peer.takes(line)]
    pairs = ((line, found, peer.read(line)) for line, found in zip(lines, ours(program, peer.path, lines)))
    brief = ((line, ([token[0] for token in found["special"]], found["decoded"]), own) for line, found, own in pairs)
    same = lambda found, own: found == own or (peer.as_good(found[0], own[0]) and found[1] == own[1])
    return report(peer.path.stem, lines, [(line, found, own) for line, found, own in brief if not same(found, own)])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("build", type=pathlib.Path)
    arguments.add_argument("models", type=pathlib.Path, nargs="*")
    arguments.add_argument("--texts", type=int, default=10000)
    given = arguments.parse_args()
    program = given.build / "tests/text/tokenize_lines"
    code, prose = texts.code(), texts.prose()
    written = code + prose + ["\n".join(code[:2000]), "\n".join(prose[:500])]
    drawn = {version: texts.random_texts(given.texts, 13, version) for version in (None, kinds.OLD_VERSION)}
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind in kinds.KINDS:
            path = folder / f"{kind.__name__}.json"
            kind(code + prose, 3000).save(str(path))
            lines = drawn[kinds.OLD_VERSION if kind in kinds.OLD_UNICODE else None] + written
            failed += report(kind.__name__, lines, compare(program, path, lines, Tokenizer.from_file(str(path))))
        for kind in ("bpe", "unigram"):
            failed += compare_sentencepiece(program, folder, kind, code + prose, drawn[None] + written)
    for path in given.models:
        tokenizer, name, version = real(path)
        lines = drawn[version] + written
        if path.suffix == ".gguf":
            lines = [line for line in lines if not real_tokenizers.lacks(tokenizer, line)]
        failed += report(name, lines, compare(program, path, lines, tokenizer))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
