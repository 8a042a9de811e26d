"""Token ids, offsets and decoded texts of polyhead beside those of Hugging Face's `tokenizers`, for tokenizers of every
kind, which are trained here.   usage: tests/parity/tokenizer_parity.py BUILD [texts]"""
import json
import pathlib
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

import kinds
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


def compare(program, path, lines):
    """The lines that differ, with both results."""
    tokenizer = Tokenizer.from_file(str(path))
    pairs = ((line, found, theirs(tokenizer, line)) for line, found in zip(lines, ours(program, path, lines)))
    return [(line, found, expected) for line, found, expected in pairs if not same(found, expected, line)]


def main():
    program = pathlib.Path(sys.argv[1]) / "tests/text/tokenize_lines"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    code, prose = texts.code(), texts.prose()
    written = code + prose + ["\n".join(code[:2000]), "\n".join(prose[:500])]
    drawn = {version: texts.random_texts(count, 13, version) for version in (None, "8.0")}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds.KINDS:
            path = pathlib.Path(folder) / f"{kind.__name__}.json"
            kind(code + prose, 3000).save(str(path))
            lines = drawn["8.0" if kind in kinds.OLD_UNICODE else None] + written
            differ = compare(program, path, lines)
            print(f"{kind.__name__:14} {len(lines)} texts, {len(differ)} differ", flush=True)
            for line, found, expected in differ[:3]:
                print(f"  {line!r}\n    found    {found}\n    expected {expected}")
            failed += len(differ)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
