"""Texts to tokenize: random Unicode, source code and prose of this repository."""
import pathlib
import random
import subprocess
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPECIAL = ["<|endoftext|>", "<|begin_of_text|>", "<|im_start|>", "<s>", "</s>", "<mask>", "[CLS]", "[MASK]", "<unk>", "word", "right"]
TELLING = (["'s", "'S", "'\u017f", "'ll", "'RE", "n't", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n ", "\u00a0", "\u3000",
            "\u2028", "\u0085", "\x00", "\ufffd", "\u200d", "\u2581", "\u0120", "0", "12", "1234567", "\u0663", "\u2167",
            "\u00bd", "e\u0301", "\u00e9", "\u0130", "\u1e9e", "\u212b", "\uac00", "\u1100\u1161\u11a8", "\ufb01",
            "\u4e2d\u6587", "\U0001f600", "\U0001f469\u200d\U0001f52c", "_", "-", ".", "\u2026", "don't", "WORD", "Hello"]
           + SPECIAL)


def characters(version=None):
    """All that Python's tables know, without surrogates; or those that a version of Unicode had, by Perl's tables."""
    every = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]
    if version is None:
        return every
    script = f'for (0..0x10ffff) {{ print "$_\\n" if ($_ < 0xd800 || $_ > 0xdfff) && chr($_) =~ /\\p{{Present_In: {version}}}/ }}'
    present = {chr(int(code)) for code in subprocess.check_output(["perl", "-e", script], text=True).split()}
    # Unicode 9 to 12 moved these to other categories.
    return [character for character in every if character in present and character not in "\u166d\u1885\u1886\ua9bd"]


def random_texts(count, seed, version=None):
    draw = random.Random(seed)
    every = characters(version)
    common = [c for c in every if ord(c) < 0x250]
    texts = [""]
    while len(texts) < count:
        parts = []
        for _ in range(draw.randint(1, 12)):
            kind = draw.random()
            if kind < 0.4:
                parts.append(draw.choice(TELLING))
            elif kind < 0.7:
                parts.append("".join(draw.choices(common, k=draw.randint(1, 6))))
            else:
                parts.append("".join(draw.choices(every, k=draw.randint(1, 4))))
        texts.append("".join(parts))
    return texts


def lines(pattern):
    return [line for path in sorted(ROOT.glob(pattern)) for line in path.read_text().split("\n") if line.strip()]


def code():
    return lines("src/**/*.cpp") + lines("bench/*.py")


def prose():
    return lines("docs/*.md") + lines("*.md")
