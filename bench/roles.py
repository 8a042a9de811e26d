#!/usr/bin/env python3
"""Whether roles hold: those of real models from other texts, lengths and seeds, and those of models that have none.

    polyhead get smollm2 minilm gemma3-270m
    bench/roles.py build/release [--models smollm2,minilm] [--draws 20] [--keep FOLDER] [--write FILE]

Prints tables in Markdown, with the machine, the versions and the date. What was measured is kept in a folder, so that a
run which is interrupted goes on where it was."""
import argparse
import datetime
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unicodedata

import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROLES = ("induction", "duplicate", "previous token", "special token", "first token")
NUMBERS = ("positional", "separator", "averaging")  # of models that read text they are no roles
LENGTHS = {"smollm2": (64, 256, 1024), "minilm": (64, 256, 512), "gemma3-270m": (64, 256, 512)}  # as far as they reach
SEQUENCES = {64: 16, 128: 16, 256: 12, 512: 8, 1024: 6}
ENOUGH = 0.8


def prose():
    """The paragraphs of the documents, without code, tables and lists."""
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for paragraph in text.split("\n\n"):
            words = " ".join(paragraph.split())
            if len(words) > 200 and not re.match(r"[|#>\-*0-9<]", words):
                found.append(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("`", "").replace("*", ""))
    return "\n\n".join(found)


def code():
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "model").glob("*.cpp")))


def names():
    """A numbered list of arrows and signs."""
    known = [name for point in range(0x2190, 0x2C00) if (name := unicodedata.name(chr(point), None))]
    return "\n".join(f"{n}. {name.lower()}" for n, name in enumerate(known, 1))


class Measured:
    """Asks polyhead_roles, and keeps the answers."""

    def __init__(self, program, texts, folder):
        self.program, self.texts, self.folder = program, texts, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def roles(self, name, path, text, length, seed, kind="whole"):
        kept = self.folder / f"{name}-{text}-{length}-{seed}-{kind}.json"
        if not kept.exists():
            print(f"{name}: {kind}, {text}, {length} tokens, seed {seed}", file=sys.stderr)
            given = "standard" if text == "standard" else str(self.texts / text)
            said = subprocess.run([self.program, path, given, str(length), str(SEQUENCES[length]), str(seed), kind],
                                  check=True, stdout=subprocess.PIPE, text=True).stdout
            kept.write_text(said)
        return json.loads(kept.read_text())["heads"]


def holding(heads, role, standard):
    """The heads that hold a role, and those at its border: by the limit of the standard probe, which is the model's."""
    held, border = set(), set()
    for head, asked in zip(heads, standard):
        score = head["scores"].get(role)
        if score is None or role not in asked["scores"] or score["by_chance"]:
            continue
        limit = asked["scores"][role]["limit"]
        if score["score"] >= limit:
            held.add(head["head"])
        if score["low"] < limit <= score["high"]:
            border.add(head["head"])
    return held, border


def jaccard(one, other):
    return len(one & other) / len(one | other) if one | other else 1.0


def least(all_heads, role, standard):
    """Counts, the least Jaccard index of any two, and the same of the heads that neither of the two nor the standard
    probe calls borderline."""
    found = [holding(heads, role, standard) for heads in all_heads]
    pairs, told = list(itertools.combinations(found, 2)), holding(standard, role, standard)[1]
    strict = min(jaccard(a, b) for (a, _), (b, _) in pairs)
    clear = min(jaccard(a - x - y - told, b - x - y - told) for (a, x), (b, y) in pairs)
    return [len(held) for held, _ in found], strict, clear


def stability(measured, name, path):
    """A row for each role: how it fares between texts, lengths and seeds."""
    lengths = LENGTHS[name]
    groups = {"prose, code, list": [measured.roles(name, path, text, 128, 1) for text in ("prose", "code", "list")],
              f"{', '.join(map(str, lengths))} tokens": [measured.roles(name, path, "prose", n, 1) for n in lengths],
              "three seeds": [measured.roles(name, path, "prose", 128, seed) for seed in (1, 2, 3)]}
    standard = measured.roles(name, path, "standard", 128, 1)
    rows = []
    for role in ROLES + NUMBERS:
        held, border = holding(standard, role, standard)
        row = [role, f"{len(held)} ({len(border)})"]
        for heads in groups.values():
            counts, strict, clear = least(heads, role, standard)
            row += ["/".join(map(str, counts)), f"{strict:.2f}", f"{clear:.2f}"]
        rows.append(row)
    return ["role", "standard probe", *itertools.chain(*((name, "J", "J clear") for name in groups))], rows


def draws(measured, name, path, count):
    """How many heads of models without training, or whose weights or layers were shuffled, get a role."""
    rows = []
    for kind, what in (("untrained", "untrained"), ("weights", "weights shuffled"), ("layers", "layers shuffled")):
        found, highest, most = {}, {}, 0
        for seed in range(1, count + 1):
            all_heads = measured.roles(name, path, "standard", 128, seed, kind)
            heads = [head for head in all_heads if head["role"]]
            for head in all_heads:
                for role in set(ROLES) & set(head["scores"]):
                    highest[role] = max(highest.get(role, 0), head["scores"][role]["score"])
            most = max(most, len(heads))
            for head in heads:
                found[head["role"]] = found.get(head["role"], 0) + 1
        rows.append([what, str(count), ", ".join(f"{role} {n}" for role, n in sorted(found.items())) or "none", str(most),
                     ", ".join(f"{role} {highest[role]:.2f}" for role in ROLES if role in highest)])
    return ["model", "draws", "roles, over all draws", "heads with one, at most", "highest scores of all draws"], rows


def path_of(build, name):
    """Of a model that was fetched."""
    return subprocess.run([build / "cli" / "polyhead", "get", name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def version(build):
    """The command's, and the commit of the sources."""
    says = subprocess.run([build / "cli" / "polyhead", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True).stdout
    return f"{says.splitlines()[0].removeprefix('polyhead ')} ({commit.strip()})"


def markdown(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=pathlib.Path)
    options.add_argument("--models", default="minilm,smollm2,gemma3-270m")
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--draws-of", default="minilm")
    options.add_argument("--keep", help="the folder of what was measured; default: a new one")
    options.add_argument("--write", type=pathlib.Path)
    given = options.parse_args()
    folder = pathlib.Path(given.keep or tempfile.mkdtemp())
    texts = folder / "texts"
    texts.mkdir(parents=True, exist_ok=True)
    for name, text in (("prose", prose()), ("code", code()), ("list", names())):
        (texts / name).write_text(text, encoding="utf-8")
    measured = Measured(given.build / "bench" / "polyhead_roles", texts, folder / "answers")
    facts = report.machine() | {"polyhead": version(given.build), "date": datetime.date.today().isoformat()}
    said = ["# How far roles hold\n", "Printed by `bench/roles.py`; [heads.md](heads.md) defines the roles.\n",
            "\n".join(f"- {name}: {value}" for name, value in facts.items()) + "\n"]
    for name in filter(None, given.models.split(",")):
        said += [f"## {name}\n", markdown(*stability(measured, name, path_of(given.build, name)))]
    for name in given.draws_of.split(",") if given.draws else []:
        said += [f"## {name}, without what training made\n", markdown(*draws(measured, name, path_of(given.build, name), given.draws))]
    said.append("A role's heads; in brackets those whose interval spans the limit. J: the least Jaccard index of any two "
                "of the three sets; J clear: without the heads that the standard probe, or either of the two, calls borderline. "
                f"What is no role of models that read text: {', '.join(NUMBERS)}.\n")
    page = "\n".join(said)
    print(page)
    if given.write:
        given.write.write_text(page)


if __name__ == "__main__":
    main()
