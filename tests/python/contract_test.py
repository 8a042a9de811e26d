"""The attention contract on every side: what the headers of C++ and C have, the module's tables lay out, and Python takes."""

import inspect
import re
import unittest
from pathlib import Path

import polyhead
from polyhead import _layer, _library, _options

ROOT = Path(__file__).resolve().parents[2]
LAYOUTS = _library.native.layouts()
# What has another name, or is several things, in C: by the field of C++.
IN_C = {
    "AttentionOptions": {"dropout": ["dropout", "dropout_seed"]},
    "AttentionWants": {"logits": ["logits", "logit_stage"], "weight_heads": ["weight_heads", "weight_head_count"],
                       "weight_rows": ["weight_rows", "weight_row_count"], "weights_f32": []},  # said by the type of weights
    "MultiHeadShape": {"bias": ["no_bias"]},
    "MultiHeadOptions": {"output_dropout": ["output_dropout", "output_dropout_seed"]},
    "MultiHeadWants": {"attention": [], "projections": []},  # each of its own; in C++ alone
    "Rotary": {"layout": ["interleaved"], "scaling": ["scaling_factor", "scaling_slow", "scaling_fast", "scaling_context"]},
}


def block(header, name):
    text = (ROOT / "include/polyhead" / header).read_text()
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\bstruct {(.*?)} \w+;", r"\1", text, flags=re.DOTALL)  # one without a name: its members
    return re.search(rf"struct {name} {{(.*?)\n}}", text, re.DOTALL)[1]


def fields_of_c(name):
    """(type, name) of each, in order; a pointer's type ends in *."""
    found = []
    for declaration in block("polyhead_c.h", f"polyhead_{name}").split(";"):
        kind, _, names = declaration.strip().replace("const ", "").partition(" ")
        for each in filter(None, (part.strip() for part in names.split(","))):
            pointer = "*" if each.startswith("*") or kind.endswith("*") else ""
            found.append((kind.rstrip("*") + pointer, each.split()[-1].lstrip("*")))
    return found


def fields_of_cpp(header, name):
    """In order; functions and friends are none."""
    found, text = [], block(header, name)
    while "{" in text:  # defaults and bodies, from the inside out
        text = re.sub(r"{[^{}]*}", "", text)
    for declaration in text.split(";"):
        words = re.sub(r"=[^,]*", "", declaration.strip())
        if words and "(" not in words and not words.startswith(("friend", "static")):
            first, *more = words.split(",")
            found += [first.split()[-1], *(each.split()[-1] for each in more)]
    return found


class Contract(unittest.TestCase):
    def test_structs_lie_as_the_header_says(self):
        sizes = {"int32_t": 4, "double": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8}
        for name, (size, fields) in LAYOUTS.items():
            at, places = 0, {}
            for kind, field in fields_of_c(name):
                width = 8 if kind.endswith("*") else sizes[kind]
                at += -at % width
                places[at] = field, width
                at += width
            with self.subTest(name):
                self.assertEqual(size, at + -at % 8)
                del places[0]  # size itself
                table = {(offset, width) for _, *pairs in fields for offset, width in (pairs[:2], pairs[2:]) if width}
                self.assertEqual(table, {(offset, width) for offset, (_, width) in places.items()})

    def test_what_models_take_lies_as_the_header_says(self):
        """Member by member, in C's order, by its name, with its type."""
        letters = {"uint8_t": "u1", "uint16_t": "u2", "int32_t": "i4", "uint32_t": "u4", "double": "f8", "int64_t": "i8", "uint64_t": "u8",
                   "size_t": "u8"}

        def in_c(name):
            flat = []
            for kind, field in fields_of_c(name):
                inner, length = re.fullmatch(r"polyhead_(\w+)", kind), re.fullmatch(r"(\w+)\[(\d+)\]", field)
                if inner:
                    flat += [(f"{field}.{within}", letter) for within, letter in in_c(inner[1])]
                else:
                    flat.append((length[1], "S" + length[2]) if length else (field, "u8" if kind.endswith("*") else letters[kind]))
            return flat

        def in_numpy(dtype, at=0):
            flat = []
            for name in dtype.names:
                inner, offset = dtype.fields[name]
                within = in_numpy(inner, at + offset) if inner.names else [("", inner.str.lstrip("<|"), at + offset)]
                flat += [(f"{name}.{word}".rstrip("."), *rest) for word, *rest in within]
            return flat

        self.assertGreater(len(_library.native.records), 10)
        for name in _library.native.records:
            dtype, end = _library.record(name), 0
            found = in_numpy(dtype)
            self.assertEqual([(word.removeprefix("device."), letter) for word, letter, _ in found], in_c(name), name)
            for word, letter, at in found:
                size = int(letter[1:])
                end += -end % (1 if letter[0] == "S" else size)
                self.assertEqual(at, end, f"{name}.{word}")
                end += size
            self.assertEqual(dtype.itemsize, end + -end % max(int(letter[1:]) for _, letter, _ in found if letter[0] != "S"), name)

    def test_c_has_what_cpp_has(self):
        for header, name, structs in (
                ("attention.h", "AttentionOptions", ["attention_options"]), ("attention.h", "AttentionWants", ["attention_results"]),
                ("layer.h", "MultiHeadShape", ["layer_shape"]), ("layer.h", "MultiHeadOptions", ["layer_inputs"]),
                ("layer.h", "MultiHeadWants", ["layer_wants"]), ("rotary.h", "Rotary", ["rotary"])):
            cpp = fields_of_cpp(header, name)
            self.assertGreater(len(cpp), 2, name)
            c = {field for struct in structs for _, field in fields_of_c(struct)}
            for field in cpp:
                for expected in IN_C[name].get(field, [field]):
                    self.assertIn(expected, c, f"{name}::{field}")

    def test_the_layer_wants_what_attention_does(self):
        c = {field for _, field in fields_of_c("layer_wants")}
        for field in fields_of_cpp("attention.h", "AttentionWants"):
            self.assertIn("logit_stage" if field == "logits" else field, c)

    def test_python_takes_what_c_does(self):
        names = {name: [field for field, *_ in fields] for name, (_, fields) in LAYOUTS.items()}
        options, attention = names["attention_options"], list(inspect.signature(polyhead.attention).parameters)
        self.assertEqual(list(_options.Options._fields), options)
        self.assertEqual(attention, ["q", "k", "v", *options, *attention[21:]])
        wants = {"logit_stage": "logits"}
        self.assertEqual({*attention[21:]}, {wants.get(name, name) for name in names["attention_results"]} | {"weights_f32"})
        typed = re.search(r"class ContractOptions.*?(?=\n    class )", inspect.getsource(_options), re.DOTALL)[0]
        self.assertEqual(re.findall(r"^        (\w+):", typed, re.MULTILINE), options)
        self.assertEqual(list(_options.OPTION_TENSORS), list(_options.Options._fields[6:16]))
        self.assertEqual(list(_layer.Rotary._fields), names["rotary"])
        made = set(inspect.signature(polyhead.MultiHeadAttention).parameters)
        self.assertEqual(made, {"bias" if name == "no_bias" else name for name in names["layer_shape"]} | {"dtype", "seed"})
        called = set(inspect.signature(polyhead.MultiHeadAttention.__call__).parameters) - {"self", "options"}
        self.assertEqual(called, {*names["layer_inputs"], *names["layer_wants"]} - {"attention"})


if __name__ == "__main__":
    unittest.main()
