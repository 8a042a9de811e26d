"""The attention contract on every side: what the headers of C++ and C have, the module's tables lay out, and Python takes."""

import inspect
import re
import unittest
from pathlib import Path

import polyhead
from polyhead import _layer, _library, _options

ROOT = Path(__file__).resolve().parents[2]
LAYOUTS = _library.native.layouts()
HEADERS = {path.name: re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL) for path in (ROOT / "include/polyhead").glob("*.h")}
CPP = [HEADERS[name] for name in ("attention.h", "layer.h", "rotary.h")]

# Which structs of C++ each struct of C stands for.
PAIRS = {
    "attention_options": ["AttentionOptions"],
    "attention_results": ["AttentionWants", "AttentionOutputs"],  # what there is memory for is wanted
    "attention_upstream": ["UpstreamGradients", "ForwardResults"],
    "attention_gradients": ["GradientWants", "AttentionGradientOutputs"],
    "layer_shape": ["MultiHeadShape"],
    "layer_inputs": ["MultiHeadInputs", "MultiHeadOptions"],
    "layer_wants": ["MultiHeadWants"],
}
# What has another name, or is several things, in C: by the path in C++, or how it begins.
IN_C = {
    "AttentionOptions": {"dropout.p": ["dropout"], "dropout.seed": ["dropout_seed"], "dropout.origin": ["dropout_origin"]},
    "AttentionWants": {"logits": ["logits", "logit_stage"], "weight_heads": ["weight_heads", "weight_head_count"],
                       "weight_rows": ["weight_rows", "weight_row_count"]},
    "UpstreamGradients": {"output": ["doutput"], "lse": ["dlse"], "weights": ["dweights"]},
    "GradientWants": {"bias": ["dbias"], "sink_logit": ["dsink_logit"], "gates": ["dgates"]},
    "MultiHeadShape": {"bias": ["no_bias"]},
    "MultiHeadOptions": {"output_dropout.p": ["output_dropout"], "output_dropout.seed": ["output_dropout_seed"],
                         "output_dropout.origin": ["output_dropout_origin"]},
    "MultiHeadWants": {"attention": [""]},
    "Rotary": {"layout": ["interleaved"], "scaling.factor": ["scaling_factor"], "scaling.slow": ["scaling_slow"],
               "scaling.fast": ["scaling_fast"], "scaling.context": ["scaling_context"]},
}
# What one side alone has, and why. Nothing else may be missing.
ONLY_IN_CPP = {
    "AttentionWants": {"weights_f32": "in C the type of the memory for the weights says it"},
    "MultiHeadWants": {"attention.logits": "there they are the library's memory, and logit_stage wants them",
                       "projections": "the backward pass alone reads them, and C hands it the results as a whole"},
    "multihead_backward": {"lse": "of the layer's results C takes the output's gradient; attend_backward takes that of lse",
                           "weights": "the same; attend_backward takes that of weights"},
}
ONLY_IN_C = {
    "layer_wants": {"training": "MultiHeadWants::training()",
                    "weights_f32": "the weights are the library's memory, whose type nothing else says"},
}
FUNCTIONS_ONLY_IN_CPP = {
    "attend_into": "attend in C", "attend_backward_into": "attend_backward in C",
    "multihead": "layer_forward in C", "multihead_backward": "layer_backward in C",
    "multihead_into": "the layer's results in C are the library's memory", "multihead_backward_into": "the same",
    "parameter_shapes": "the views of polyhead_layer_parameter have their shapes", "count_parameters": "the same",
    "shape": "the caller gave it", "dtype": "the same", "parameters": "layer_parameter in C", "state": "the same",
    "forward": "layer_forward in C", "backward": "layer_backward in C", "forward_into": "the layer's results in C are the library's memory",
    "pack": "for decoding, which C does by models", "from_heads": "the form of textbooks, for teaching", "to_heads": "the same",
    "merge_statistics": "counts and sums add up, and max_logit is the larger: HeadStatistics does it in Python",
    "rotate": "the layer rotates, and models do", "rotate_into": "the same", "rotate_backward": "the same",
    "rotate_backward_into": "the same",
    "name_of": "statistic_name in C", "for_each_parameter": "layer_parameter_name in C",
}
STRUCTS_ONLY_IN_CPP = {
    **dict.fromkeys(("Attention", "AttentionGradients"), "results, which in C are the caller's memory"),
    **dict.fromkeys(("MultiHeadResults", "MultiHeadGradients"), "results, which C hands out by name"),
    "AttentionPart": "in C the results of a part", "Projections": "see MultiHeadWants", "MultiHeadParameters": "in C by their names",
    "StatisticField": "in C polyhead_statistic_name", "ParameterCount": "see count_parameters", "SingleHeadAttention": "see from_heads",
}


def block(text, name):
    text = re.sub(r"\bstruct {(.*?)} \w+;", r"\1", text, flags=re.DOTALL)  # one without a name: its members
    found = re.search(rf"struct {name} {{(.*?)\n}}", text, re.DOTALL)
    return found and found[1]


def fields_of_c(name):
    """(type, name) of each, in order; a pointer's type ends in *."""
    found = []
    for declaration in block(HEADERS["polyhead_c.h"], f"polyhead_{name}").split(";"):
        kind, _, names = declaration.strip().replace("const ", "").partition(" ")
        for each in filter(None, (part.strip() for part in names.split(","))):
            pointer = "*" if each.startswith("*") or kind.endswith("*") else ""
            found.append((kind.rstrip("*") + pointer, each.split()[-1].lstrip("*")))
    return found


def fields_of_cpp(name):
    """(type, name) of each, in order; functions and friends are none."""
    found, text = [], next(filter(None, (block(header, name) for header in CPP)))
    while "{" in text:  # defaults and bodies, from the inside out
        text = re.sub(r"{[^{}]*}", "", text)
    for declaration in text.split(";"):
        words = re.sub(r"=[^,]*", "", declaration.strip())
        if words and "(" not in words and not words.startswith(("friend", "static")):
            kind, names = words.split(None, 1)
            found += [(kind, each.strip()) for each in names.split(",")]
    return found


def paths_in_c(name):
    """Of all fields of a struct of C++, and of those within them, what C should have; and which were in IN_C or ONLY_IN_CPP."""
    found, used = [], set()
    for kind, field in fields_of_cpp(name):
        inner = re.search(r"(\w+)>?$", kind)[1]
        paths = [field]
        if any(block(header, inner) for header in CPP):
            within, _ = paths_in_c(inner)
            paths = [f"{field}.{path}" for path in within]
        for path in paths:
            if path in ONLY_IN_CPP.get(name, {}):
                used.add(path)
                continue
            begins = [begin for begin in IN_C.get(name, {}) if path == begin or path.startswith(begin + ".")]
            begin = max(begins, key=len, default=None)
            used.add(begin)
            found += [path] if begin is None else [(to + path[len(begin):]).lstrip(".") for to in IN_C[name][begin]]
    return found, used - {None}


def paths_of_c(name):
    """Of all fields of a struct of C but its size, and of those within them."""
    found = []
    for kind, field in fields_of_c(name):
        inner = kind.rstrip("*").removeprefix("polyhead_")
        if kind.startswith("polyhead_") and inner != "tensor":
            found += [f"{field}.{path}" for path in paths_of_c(inner)]
        elif field != "size":
            found.append(field)
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
        """Struct by struct, with all that is within them: no field is missing, and none is made up."""
        for name, structs in PAIRS.items():
            expected = set()
            for struct in structs:
                paths, used = paths_in_c(struct)
                self.assertGreater(len(paths), 2, struct)
                self.assertEqual(used, {*IN_C.get(struct, ()), *ONLY_IN_CPP.get(struct, ())}, f"{struct}: listed and not there")
                expected.update(paths)
            with self.subTest(name):
                self.assertEqual(expected | {*ONLY_IN_C.get(name, ())}, {*paths_of_c(name)})
                self.assertFalse(expected & {*ONLY_IN_C.get(name, ())}, "listed, and C++ has it")
        self.assertLessEqual({*paths_in_c("AttentionPart")[0]}, {*paths_of_c("attention_results")})

    def test_every_struct_of_cpp_is_looked_at(self):
        all_of_them = {name for header in CPP for name in re.findall(r"^struct (\w+) {", header, re.MULTILINE)}
        looked_at, todo = set(), [struct for structs in PAIRS.values() for struct in structs]
        while todo:
            name = todo.pop()
            looked_at.add(name)
            todo += [inner for kind, _ in fields_of_cpp(name) for inner in re.findall(r"\w+", kind) if inner in all_of_them - looked_at]
        self.assertEqual(all_of_them - looked_at, {*STRUCTS_ONLY_IN_CPP})

    def test_c_has_the_functions_of_cpp(self):
        declared = re.compile(r"^(?:template <[^>]*>\n)?(?:inline |constexpr )*[\w:<>&]+ (\w+)\(", re.MULTILINE)
        method = re.compile(r"^  (?:static )?(?!return|explicit)[\w:<>,& ]+ (\w+)\(", re.MULTILINE)
        layer = re.search(r"class MultiHeadAttention {(.*?)\n}", HEADERS["layer.h"], re.DOTALL)[1]
        cpp = {name for header in CPP for name in declared.findall(header)} | {*method.findall(layer)}
        c = set(re.findall(r"polyhead_(\w+)\(", HEADERS["polyhead_c.h"]))
        self.assertGreater(len(cpp & c), 3)
        self.assertEqual(cpp - c, {*FUNCTIONS_ONLY_IN_CPP})
        backward = re.search(r"polyhead_layer_backward\((.*?)\);", HEADERS["polyhead_c.h"], re.DOTALL)[1]
        taken = {word.strip().split()[-1].lstrip("*") for word in backward.split(",")}
        upstream = {to for _, field in fields_of_cpp("UpstreamGradients") if field not in ONLY_IN_CPP["multihead_backward"]
                    for to in IN_C["UpstreamGradients"][field]}
        self.assertEqual({word for word in taken if word.startswith("d")}, upstream)

    def test_the_layer_gives_what_cpp_does(self):
        """By the names under which C hands results out."""
        given = {*re.findall(r'named->name\("(\w+)"', (ROOT / "capi/layer.cpp").read_text())}
        made = [field for struct in ("MultiHeadResults", "MultiHeadGradients") for _, field in fields_of_cpp(struct)]
        self.assertEqual(given, {*made} - {*ONLY_IN_CPP["MultiHeadWants"], "dparameters"})  # the latter by their own names

    def test_python_takes_what_c_does(self):
        names = {name: [field for field, *_ in fields] for name, (_, fields) in LAYOUTS.items()}
        options, attention = names["attention_options"], list(inspect.signature(polyhead.attention).parameters)
        self.assertEqual(list(_options.Options._fields), options)
        self.assertEqual(attention, ["q", "k", "v", *options, *attention[3 + len(options):]])
        wants = {"logit_stage": "logits"}
        self.assertEqual({*attention[3 + len(options):]}, {wants.get(name, name) for name in names["attention_results"]} | {"weights_f32"})
        typed = re.search(r"class ContractOptions.*?(?=\n    class )", inspect.getsource(_options), re.DOTALL)[0]
        self.assertEqual(re.findall(r"^        (\w+):", typed, re.MULTILINE), options)
        self.assertEqual(list(_options.OPTION_TENSORS), list(_options.Options._fields[6:16]))
        self.assertEqual(list(_layer.Rotary._fields), names["rotary"])
        for made in (_options.Window, _options.Origin):
            self.assertEqual(list(made._fields), [field for _, field in fields_of_c(made.__name__.lower())][1:])
        taken = set(inspect.signature(polyhead.attention_backward).parameters) - {"q", "k", "v", "options"}
        self.assertEqual(taken, {*names["attention_upstream"]})
        self.assertEqual(list(polyhead.Gradients.__dataclass_fields__), names["attention_gradients"])
        made = set(inspect.signature(polyhead.MultiHeadAttention).parameters)
        self.assertEqual(made, {"bias" if name == "no_bias" else name for name in names["layer_shape"]} | {"dtype", "seed"})
        called = set(inspect.signature(polyhead.MultiHeadAttention.__call__).parameters) - {"self", "options"}
        self.assertEqual(called, {*names["layer_inputs"], *names["layer_wants"]} - {"attention"})


if __name__ == "__main__":
    unittest.main()
