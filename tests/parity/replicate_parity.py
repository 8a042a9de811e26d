"""Results of polyhead replicate, computed again from the weights that transformers returns.

    replicate_parity.py COMMAND MODEL      MODEL: a folder with an encoder, such as MiniLM's
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

CLOSE = 2e-4  # weights are f32 sums of as many terms in either
NAMES = ("on-separators", "broad-at-first", "neighbours", "one-offset")


def told(command, model):
    """What the command says, and the windows that it says it of."""
    with tempfile.TemporaryDirectory() as folder:
        words = [command, "replicate", model, "--quick", "--out", folder, "--format", "json"]
        for name in NAMES:
            words += ["--only", name]
        report = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
        (sequences,) = (pathlib.Path(folder) / "sequences").iterdir()
        return {row["result"]: row for row in report["results"]}, json.loads(sequences.read_text())["texts"]


def weights_of(model, windows):
    """[windows, layers, heads, queries, keys] in double."""
    network = transformers.AutoModel.from_pretrained(model, attn_implementation="eager").eval()
    with torch.no_grad():
        found = network(torch.tensor(windows), output_attentions=True).attentions
    return torch.stack(found, dim=1).double()


def computed(model, windows):
    weights = weights_of(model, windows)
    tokens = torch.tensor(windows)
    length = tokens.shape[1]
    half = weights.shape[1] // 2
    special = torch.isin(tokens, torch.tensor(transformers.AutoTokenizer.from_pretrained(model).all_special_ids))
    special[:, 0] = False  # the first token is a kind of its own
    on_special = (weights * special[:, None, None, None, :]).sum(-1).mean(-1)  # [windows, layers, heads]
    entropy = -(weights * weights.clamp_min(1e-300).log()).sum(-1).mean(-1) / torch.log(torch.tensor(float(length)).double())
    before = weights.diagonal(-1, -2, -1).mean(-1)
    after = weights.diagonal(1, -2, -1).mean(-1)
    offsets = weights.argmax(-1) - torch.arange(length)  # [windows, layers, heads, queries]
    counts = 0
    for layer in range(weights.shape[1]):
        for head in range(weights.shape[2]):
            here = offsets[:, layer, head]
            best = max(range(1 - length, length), key=lambda offset: share(here, offset, length))
            counts += ((here == best).double().mean(-1) >= 0.9).double()
    return {"on-separators": (on_special[:, half:].mean((1, 2)), on_special[:, half:].mean((1, 2))),
            "broad-at-first": (entropy[:, 0].mean(-1), entropy[:, 1:].mean((1, 2))),
            "neighbours": (((before > 0.5) | (after > 0.5)).double().sum((1, 2)),) * 2,
            "one-offset": (counts,) * 2}


def share(offsets, offset, length):
    """Of the rows that have a key there; 0 if fewer than half have."""
    rows = length - abs(offset)
    return (offsets == offset).sum().item() / (rows * len(offsets)) if 2 * rows >= length else 0


def main():
    command, model = sys.argv[1:]
    said, windows = told(command, model)
    mine = computed(model, windows)
    worst = 0
    for name in NAMES:
        numbers = [("ours", mine[name][0])] + ([("control", mine[name][1])] if name == "broad-at-first" else [])
        for key, values in numbers:
            away = abs(said[name][key] - values.mean().item())
            print(f"{name}, {key}: {said[name][key]:.6f}, {values.mean().item():.6f} by transformers")
            worst = max(worst, away)
    print(f"replicate: {len(NAMES)} results of {model}, at most {worst:.1e} from transformers")
    sys.exit(0 if worst < CLOSE else 1)


if __name__ == "__main__":
    main()
