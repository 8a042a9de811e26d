"""Tables on the terminal and docs/performance.md."""
import datetime
import os
import platform
import re
from dataclasses import asdict, dataclass, field

BEGIN, END = "<!-- by hand: kept when this page is rewritten -->", "<!-- end of the part by hand -->"


@dataclass
class Family:
    """A table, the bars that it is held to, and the line it ends in."""
    name: str
    title: str
    columns: list
    rows: list
    bars: list = field(default_factory=list)  # (what, target, found, passed)
    closing: list = field(default_factory=list)  # "NAME worst R geomean R"
    notes: list = field(default_factory=list)
    raw: dict = field(default_factory=dict)
    date: str = field(default_factory=lambda: datetime.datetime.now().strftime("%Y-%m-%d %H:%M"))

    def passed(self):
        return all(bar[3] for bar in self.bars)


def table(columns, rows, numbers=True):
    """Aligned, and valid Markdown; with numbers, all columns but the first are flush right."""
    lines = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(columns))]
    text = ["| " + " | ".join(cell.rjust(width) if i and numbers else cell.ljust(width)
                              for i, (cell, width) in enumerate(zip(line, widths))) + " |" for line in lines]
    rule = "|" + "|".join("-" * (width + 1) + (":" if i and numbers else "-") for i, width in enumerate(widths)) + "|"
    return "\n".join([text[0], rule, *text[1:]])


def bar_lines(family):
    return [f"{'pass' if passed else 'FAIL'}: {what}: {found}, asked {target}"
            for what, target, found, passed in family.bars]


def to_text(family):
    return "\n".join(["", family.title, table(family.columns, family.rows), *family.notes, *bar_lines(family),
                      *family.closing])


def machine():
    with open("/proc/cpuinfo") as lines:
        fields = dict(re.split(r"\s*:\s*", line.strip(), maxsplit=1) for line in lines if ":" in line)
    with open("/proc/meminfo") as lines:
        memory = int(next(lines).split()[1]) / 2**20
    return {"processor": f"{fields.get('model name', platform.machine())} (family {fields.get('cpu family', '?')}, "
                         f"model {fields.get('model', '?')})",
            "cores": str(os.cpu_count()), "memory": f"{memory:.0f} GiB",
            "virtual machine": "yes" if "hypervisor" in fields.get("flags", "") else "no",
            "kernel": f"{platform.system()} {platform.release().split('-')[0]}"}


INTRODUCTION = """\
Written by `bench/run.py --write docs/performance.md` (`make bench` prints the same). Pages of their own: [an NVIDIA
H200](performance-gpu.md), [sixteen processors](performance-threads.md).

In short, on the machine below. R is polyhead's speed over that of the best peer (lower 95 % bound):

- **Ahead:** attention [forward](#forward-beside-the-peers-µs-a-call) (R {forward worst} at worst, geomean {forward geomean}) and
  [backward](#backward-beside-torch-µs-a-call) ({backward worst}, {backward geomean});
  [the layer](#the-layer-projections-attention-w_o-µs-a-call) in training ({layer-training worst}, {layer-training geomean}) and with weights ({layer-weights worst}, {layer-weights geomean});
  [a training step](#training-a-step-beside-torch-µs) ({training worst}, {training geomean}); [real models](#real-models) beside Transformers.
- **Even:** the layer's forward pass ({layer-forward worst}, {layer-forward geomean}).
- **Behind:** [decoding](#decoding-one-query-of-32-heads-of-128-over-cached-keys-µs-a-call) over long f32 caches with as many
  kv heads as heads (R {decode worst} at worst; it is ahead with f16 storage or fewer kv heads, geomean of all {decode geomean});
  [small calls from Python](#generating-and-calls-from-python), which take longer than torch's.
- **Statistics** of every head take at most {light set, times the plain forward} times
  [the plain pass](#statistics-time-relative-to-the-plain-forward) (full set: {full set, times the plain forward}), and at 16,384 tokens
  [{most of ours} of memory](#memory-beyond-inputs-and-outputs-at-1121638464).
- **Bars** are the targets that were set beforehand. Those missed are marked **fail**;
  [what limits which cell](#what-limits-which-cell) says why."""

METHOD = """\
Ours and every peer are processes that take turns, the order rotating; a turn begins only when all threads of the
others are asleep, and is taken again if the process had to wait for a processor for more than 2 % of it. A turn is as
many calls as fit into 40 ms (at least one), after a tenth as many unmeasured ones; its result is the median. Ratios are
paired by round: `median` is their median and `R` its lower 95 % bound (order statistic: the 4th smallest of 15), which
is what a bar is held against. R = 1.0 beside the peers passes from 0.97. Families other than `forward` state R relative
to their bar: from 1.0 on it is met.

Inputs are the same everywhere: uniform with variance 1, f32, 2 threads each. Before a cell is timed, every result is
compared with float64. onnxruntime runs with bound inputs and outputs and, cell by cell, with the better of spinning and
sleeping workers. Flops are 4·B·H·T²·D, causal half of that."""


def to_markdown(family):
    bars = [[what, target, found, "pass" if passed else "**fail**"] for what, target, found, passed in family.bars]
    parts = [f"## {family.title}", f"Measured {family.date}.", table(family.columns, family.rows), *family.notes]
    if bars:
        parts.append(table(["bar", "asked", "found", "met"], bars))
    if family.closing:
        parts.append("```\n" + "\n".join(family.closing) + "\n```")
    return "\n\n".join(parts)


class Found(dict):
    """Numbers by name; one that was not measured is a dash."""
    def __missing__(self, name):
        return "–"


def introduction(families):
    """INTRODUCTION with the numbers of the tables."""
    found = Found()
    for family in families:
        found |= {what: number for what, _, number, _ in family.bars}
        for line in family.closing:
            name, _, worst, _, geomean = line.split()
            found |= {f"{name} worst": worst, f"{name} geomean": geomean}
    return INTRODUCTION.format_map(found)


def write_page(path, facts, families):
    """Writes the page anew, but for the part between the markers."""
    kept = "\n## What limits which cell\n\nNot written yet.\n"
    if os.path.exists(path):
        with open(path) as page:
            found = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), page.read(), re.S)
        kept = found.group(1) if found else kept
    parts = ["# Performance", introduction(families), "## Machine and versions", table(["what", "value"], facts.items(), numbers=False),
             "## Method", METHOD, *(to_markdown(family) for family in families), BEGIN + kept + END]
    with open(path, "w") as page:
        page.write("\n\n".join(parts) + "\n")


def to_json(family):
    return asdict(family)


def from_json(data):
    return Family(**data)
