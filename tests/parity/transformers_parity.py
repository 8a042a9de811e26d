"""polyhead.transformers beside the attention of transformers: logits with padding on either side, entropies, knock-out, importance.

transformers_parity.py BUILD [GGUF]
transformers_parity.py BUILD --cuda    with models and tokens on a GPU

Random small models of each kind, and with GGUF that real one: the error of the logits against float64, each sequence alone and
without padding, may be twice that of transformers' own attention in float32, or 1e-6 if that is more. So may that of entropies.
"""

import contextlib
import doctest
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import traceback
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()
CUDA = "--cuda" in sys.argv
if CUDA:
    sys.argv.remove("--cuda")
REAL = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
os.environ.setdefault("POLYHEAD_LIBRARY", str(BUILD / "capi/libpolyhead_c.so"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402
import transformers as hf  # noqa: E402

import polyhead  # noqa: E402
import polyhead.transformers as watching  # noqa: E402
from documents import blocks_of  # noqa: E402

hf.logging.set_verbosity_error()
SIZES = dict(vocab_size=97, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128)
GROUPED = dict(SIZES, num_key_value_heads=2, head_dim=12)
LAYERS = 4  # of a real model that is watched at 32,768 tokens: all 30 would take minutes and say the same


def models():
    yield "gpt2", hf.GPT2LMHeadModel, hf.GPT2Config(vocab_size=97, n_embd=48, n_layer=2, n_head=4, n_positions=128), "sdpa"
    yield "bert", hf.BertModel, hf.BertConfig(**SIZES), "sdpa"
    yield "llama", hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED), "sdpa"
    yield "mistral", hf.MistralForCausalLM, hf.MistralConfig(**GROUPED, sliding_window=5), "sdpa"
    yield "splinter", hf.SplinterModel, hf.SplinterConfig(**SIZES), "eager"
    yield "phimoe", hf.PhimoeForCausalLM, hf.PhimoeConfig(**GROUPED, sliding_window=5, num_local_experts=2,
                                                          experts_implementation="eager"), "eager"
    yield "gemma2", hf.Gemma2ForCausalLM, hf.Gemma2Config(**GROUPED, sliding_window=5, attn_logit_softcapping=5.0), "eager"
    yield "gpt_oss", hf.GptOssForCausalLM, hf.GptOssConfig(**GROUPED, sliding_window=6, num_local_experts=2, num_experts_per_tok=1,
                                                           experts_implementation="eager"), "eager"


def made(kind, config):
    torch.manual_seed(0)
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.1)
    return model


def answer(model, implementation, **inputs):
    model.set_attn_implementation(implementation)
    found = model(**inputs)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


def peak_memory(anew=False):
    """The most that the process has held, in KiB; counted from now on if it is to begin anew."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def padded(tokens, side):
    """Inputs of three sequences, of which two are shorter and padded on that side."""
    mask = torch.ones_like(tokens)
    if side == "left":
        mask[1, :7] = mask[2, :1] = 0
    if side == "right":
        mask[1, -7:] = mask[2, -1:] = 0
    return dict(input_ids=tokens, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp_min(0))


class Seeded(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def judge(self, where, mine, theirs, peer):
        print(f"{where}: {mine:.1e}, {peer} {theirs:.1e}")
        self.assertLessEqual(mine, max(2 * theirs, 1e-6), where)

    def judge_logits(self, name, single, double, tokens, peer):
        """`double` is the model in float64, which sees each sequence alone and without padding."""
        for side in ("none", "left", "right"):
            inputs = padded(tokens, side)
            keep = inputs["attention_mask"].bool()
            with self.subTest(name, side=side), torch.no_grad():
                expected = [answer(double, "eager", input_ids=row[there][None])[0] for row, there in zip(tokens, keep)]
                errors = []
                for which in ("polyhead", peer):
                    found = answer(single, which, **inputs).double()
                    errors.append(max((row[there] - right).abs().max().item() for row, there, right in zip(found, keep, expected)))
                self.judge(f"{name}, padding {side}", *errors, peer)

    def judge_entropies(self, name, single, double, tokens):
        """Of every head, over passes of one sequence each, beside those of the weights that eager returns."""
        single.set_attn_implementation("eager")
        double.set_attn_implementation("eager")
        with torch.no_grad():
            with watching.watch(single) as heads:
                for sequence in tokens:
                    single(input_ids=sequence[None])
            self.assertEqual(single.config._attn_implementation, "eager")
            theirs, right = (self.entropies(model, tokens, name) for model in (single, double))
        self.assertEqual(len(heads), len(right))
        errors = [[(other - exact).abs().max().item() for other, exact in zip(found, right)]
                  for found in ([torch.tensor(layer.entropy) for layer in heads], theirs)]
        for layer, (mine, other) in enumerate(zip(*errors)):
            self.assertLessEqual(mine, max(2 * other, 1e-6), f"{name}, layer {layer}: eager is off by {other:.1e}")
        print(f"{name}, entropy of every head: {max(errors[0]):.1e}, eager {max(errors[1]):.1e}")

    @staticmethod
    def entropies(model, tokens, name):
        found = []
        for weights in model(input_ids=tokens, output_attentions=True).attentions:
            weights = weights.double()
            if name == "gpt_oss":  # a sink is one more outcome
                weights = torch.cat([weights, 1 - weights.sum(-1, keepdim=True)], -1)
            found.append(torch.special.entr(weights.clamp_min(0)).sum(-1).mean((0, 2)))
        return found


class Logits(Seeded):
    def test_with_padding_on_either_side(self):
        tokens = torch.randint(0, 97, (3, 23))
        for name, kind, config, peer in models():
            self.judge_logits(name, made(kind, config), made(kind, config).double(), tokens, peer)

    def test_in_bfloat16(self):
        """With heads of 64 and rows longer than a tile, so that on a GPU its own kernels are in it."""
        sizes = dict(SIZES, hidden_size=256, num_key_value_heads=2, head_dim=64, max_position_embeddings=512)
        tokens = torch.randint(0, 97, (3, 300))
        for name, kind, config in (("llama", hf.LlamaForCausalLM, hf.LlamaConfig(**sizes)),
                                   ("mistral", hf.MistralForCausalLM, hf.MistralConfig(**sizes, sliding_window=50))):
            model = made(kind, config).bfloat16()
            self.judge_logits(f"{name} in bf16", model, made(kind, config).bfloat16().double(), tokens, "sdpa")
            with watching.gates(model) as gates:
                model(input_ids=tokens, labels=tokens).loss.backward()
            for gate in gates:
                self.assertTrue(gate.grad.isfinite().all() and gate.grad.all(), name)

    def test_generation(self):
        prompts = torch.randint(3, 97, (3, 9))
        mask = torch.ones_like(prompts)
        mask[1, :4] = 0
        for name, kind, config, _ in models():
            if name in ("bert", "splinter"):
                continue
            model = made(kind, config)
            model.generation_config.eos_token_id = None
            for cache in ("dynamic", "static"):
                found = []
                for which in ("eager", "polyhead"):
                    model.set_attn_implementation(which)
                    found.append(model.generate(prompts, attention_mask=mask, max_new_tokens=12, do_sample=False, pad_token_id=0,
                                                cache_implementation=cache, disable_compile=True))
                self.assertTrue(torch.equal(*found), f"{name}, {cache} cache")


class Heads(Seeded):
    def test_watched_entropy_is_that_of_the_weights(self):
        tokens = torch.randint(0, 97, (2, 19))
        for name, kind, config, _ in models():
            if name not in ("splinter", "phimoe"):  # which say nothing of their modules, or of the weights
                with self.subTest(name):
                    self.judge_entropies(name, made(kind, config), made(kind, config).double(), tokens)

    def test_watched_heads_show_themselves(self):
        model = made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED))
        with torch.no_grad(), watching.watch(model) as heads:
            self.assertEqual(repr(heads), "Watched(2 layers, 0 of which ran)")
            self.assertIsNone(heads[1])
            self.assertIn("0 of which ran", heads._repr_html_())
            model(input_ids=torch.randint(0, 97, (2, 19)))
        self.assertEqual(repr(heads), "Watched(2 layers, 2 of which ran)")
        self.assertEqual(str(heads).count("\n"), 11)  # of each layer its name, the columns' names, and four heads
        page = heads._repr_html_()
        self.assertEqual((page.count("<details>"), page.count("<table>"), page.count("<tr>")), (2, 2, 10))
        self.assertIn(f"layer 1: entropy {heads[1].entropy.min():.2f} to {heads[1].entropy.max():.2f} nats", page)
        for layer, error in ((2, IndexError), ("1", TypeError), (None, TypeError)):
            with self.assertRaisesRegex(error, "layer: expected"):
                heads[layer]

    def test_padded_queries_do_not_count(self):
        model = made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED))
        tokens, mask = torch.randint(0, 97, (1, 19)), torch.ones(1, 19, dtype=torch.long)
        mask[:, 13:] = 0
        with torch.no_grad():
            with watching.watch(model) as padded:
                model(input_ids=tokens, attention_mask=mask)
            with watching.watch(model) as alone:
                model(input_ids=tokens[:, :13])
        self.assertEqual(padded[1].rows.tolist(), [13.0] * 4)
        for name in ("entropy", "max_weight", "max_logit"):
            torch.testing.assert_close(torch.tensor(getattr(padded[1], name)), torch.tensor(getattr(alone[1], name)), atol=1e-5, rtol=1e-5)

    def test_models_with_attention_of_their_own_are_refused(self):
        model = hf.GPTJForCausalLM(hf.GPTJConfig(vocab_size=97, n_embd=48, n_layer=1, n_head=4, rotary_dim=4))
        with self.assertRaisesRegex(ValueError, "attention interface"), watching.knock_out(model, {(0, 0)}):
            pass

    def test_knock_out_is_a_head_of_zeros(self):
        """In Llama a head's output meets its columns of o_proj only."""
        model = made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED))
        tokens = torch.randint(0, 97, (2, 11))
        with torch.no_grad():
            with watching.knock_out(model, {(0, 1), (1, 3)}):
                found = model(input_ids=tokens).logits
            whole = model(input_ids=tokens).logits
            for layer, head in ((0, 1), (1, 3)):
                model.model.layers[layer].self_attn.o_proj.weight[:, 12 * head : 12 * (head + 1)] = 0
            expected = model(input_ids=tokens).logits
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        self.assertGreater((found - whole).abs().max(), 1e-3)
        for wrong, error, words in (({(2, 0)}, ValueError, "layer from 0 to 1, found 2"),
                                    ({(0, 4)}, ValueError, "head from 0 to 3 in layer 0, found 4"),
                                    (5, TypeError, "heads: expected pairs .* found 5"),
                                    ((1, 0), TypeError, "heads: expected pairs .* found .1, 0."),
                                    ({(0, 1.5)}, TypeError, "heads: a head: expected a whole number, found float")):
            with self.assertRaisesRegex(error, words), watching.knock_out(model, wrong):
                pass

    def test_importance_is_the_slope_of_the_loss(self):
        model = made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED)).to(torch.float32 if CUDA else torch.float64)
        tokens = torch.randint(0, 97, (2, 11))
        loss = lambda: model(input_ids=tokens).logits.logsumexp(-1).sum()  # noqa: E731: their own is in float32
        with watching.gates(model) as gates:
            loss().backward()
        self.assertEqual([gate.shape[0] for gate in gates], [4, 4])
        step, losses = 0.02, []  # their norms are in float32, whatever the model
        for sign in (1, -1):
            with watching.gates(model) as moved, torch.no_grad():
                moved[1][2] += sign * step
                losses.append(loss().item())
        slope = gates[1].grad[2].item()
        self.assertAlmostEqual((losses[0] - losses[1]) / (2 * step), slope, delta=(0.05 if CUDA else 0.01) * abs(slope))


class Training(Seeded):
    def test_gradient_checkpointing(self):
        """With padding, on the side where no label is predicted from it."""
        inputs = padded(torch.randint(0, 97, (3, 23)), "right")
        for reentrant in (True, False):
            found = []
            for which, checkpoints in (("eager", False), ("polyhead", False), ("polyhead", True)):
                model = made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED)).train()
                model.set_attn_implementation(which)
                if checkpoints:
                    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
                model(**inputs, labels=inputs["input_ids"].where(inputs["attention_mask"].bool(), -100)).loss.backward()
                found.append(torch.cat([x.grad.flatten() for x in model.parameters()]))
            torch.testing.assert_close(found[1], found[0], atol=1e-6, rtol=1e-4)
            torch.testing.assert_close(found[2], found[1])

    def test_in_one_graph(self):
        """Of torch.compile, with padding and without, and a window, which a graph takes as a mask of all pairs."""
        for name, kind, config in (("llama", hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED)),
                                   ("mistral", hf.MistralForCausalLM, hf.MistralConfig(**GROUPED, sliding_window=5))):
            model = made(kind, config)
            model.set_attn_implementation("polyhead")
            whole = torch.compile(model, fullgraph=True, backend="aot_eager")
            for side in ("none", "left"):
                inputs = padded(torch.randint(0, 97, (3, 23)), side)
                there = inputs["attention_mask"].bool()
                with self.subTest(name, side=side), torch.no_grad():
                    torch.testing.assert_close(whole(**inputs).logits[there], model(**inputs).logits[there], atol=1e-5, rtol=1e-4)


class Registration(unittest.TestCase):
    def test_import_polyhead_suffices(self):
        """Before transformers or after it, and without importing torch by itself."""
        use = ("config = LlamaConfig(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)\n"
               "model = LlamaForCausalLM._from_config(config, attn_implementation='polyhead')\n"
               "assert model.config._attn_implementation == 'polyhead'")
        theirs, mine = "from transformers import LlamaConfig, LlamaForCausalLM", "import polyhead"
        for lines in ((mine, "import sys; assert not {'torch', 'transformers'} & set(sys.modules)", theirs, use), (theirs, mine, use)):
            found = subprocess.run([sys.executable, "-c", "\n".join(lines)], env={**os.environ, "PYTHONPATH": sys.path[0]}, capture_output=True,
                                   text=True)
            self.assertEqual(found.returncode, 0, found.stderr)


class Refusals(Seeded):
    def test_models_that_would_not_call_us(self):
        """When they are made: those with attention of their own, and those that choose it from a table."""
        for name in ("Bloom", "Mpt", "Falcon", "GPTJ", "GPTNeoXJapanese", "BigBird", "RoFormer", "Sam"):
            kind = getattr(hf, name + ("Model" if name == "Sam" else "ForCausalLM"))
            with self.subTest(name), self.assertRaisesRegex(polyhead.UnsupportedError, f'{kind.__name__}: expected a model that .*"eager"'):
                kind._from_config(kind.config_class(), attn_implementation="polyhead")

    def test_models_that_would_not_call_us_when_they_are_told_to(self):
        for name in ("Bloom", "Mpt", "Falcon", "GPTJ", "BigBird", "RoFormer"):
            kind = getattr(hf, name + "ForCausalLM")
            model = kind(kind.config_class(num_hidden_layers=1, hidden_size=48, intermediate_size=64, num_attention_heads=4, rotary_dim=4))
            for asked in ("polyhead", {"": "polyhead"}):
                with self.subTest(name), self.assertRaisesRegex(polyhead.UnsupportedError, f'{kind.__name__}: expected a model that .*"eager"'):
                    model.set_attn_implementation(asked)
            self.assertNotEqual(model.config._attn_implementation, "polyhead")
            model.set_attn_implementation("eager")
        whole = hf.CLIPModel(hf.CLIPConfig(text_config=dict(SIZES), vision_config=dict(SIZES, image_size=32, patch_size=8)))
        whole.set_attn_implementation({"text_config": "polyhead"})
        found = [part._attn_implementation for part in (whole.config.text_config, whole.config.vision_config)]
        self.assertEqual((found[0], found[1] == "polyhead"), ("polyhead", False))
        whole.vision_model._can_set_attn_implementation = lambda: False  # as if it had attention of its own
        whole.set_attn_implementation({"text_config": "polyhead", "vision_config": "eager"})
        for asked in ("polyhead", {"vision_config": "polyhead"}):
            with self.assertRaisesRegex(polyhead.UnsupportedError, "CLIPVision.*: expected a model that"):
                whole.set_attn_implementation(asked)

    def test_the_mask_is_for_us_alone(self):
        mask = watching._mask(2, 5, 5, attention_mask=torch.tensor([[0, 1, 1, 1, 1], [1] * 5]).bool())
        scores = torch.zeros(2, 1, 5, 5)
        for what in (lambda: scores + mask, lambda: mask + scores, lambda: scores.masked_fill(mask, 0), lambda: mask == 0, lambda: mask[:, 0],
                     lambda: mask.float(), lambda: mask.to(torch.float32), lambda: 1 - mask, lambda: torch.where(mask, scores, scores),
                     lambda: bool(mask), lambda: mask.data, lambda: torch.cat([mask, scores]), lambda: ~mask):
            with self.assertRaisesRegex(polyhead.UnsupportedError, "expected attention as .*found .*attn_implementation"):
                what()
        self.assertFalse(hasattr(mask, "data"))
        self.assertEqual((mask.shape, mask.dim(), mask.to("cpu").shape), ((2, 1, 5, 5), 4, (2, 1, 5, 5)))
        torch.testing.assert_close(torch.cat([mask, mask[:, :, :, 1:]], -1).in_full(), torch.cat([mask.in_full(), mask.in_full()[..., 1:]], -1))
        rows = mask[:, :, 3:].keep  # a part of it is a mask again
        self.assertEqual(rows[0, 0].tolist(), [[False, True, True, True, False], [False, True, True, True, True]])

    def test_keywords_that_it_does_not_know(self):
        q, module = torch.randn(1, 2, 5, 8), torch.nn.Identity()
        for name in ("sinks", "indices", "block_indices", "cache", "whatever"):
            with self.assertRaisesRegex(polyhead.UnsupportedError, f"passes {name}="):
                watching._attention(module, q, q, q, None, **{name: torch.ones(2)})
        watching._attention(module, q, q, q, None, whatever=None, position_ids=torch.arange(5), use_cache=True)

    def test_masks_of_models_are_read_as_in_sdpa(self):
        q, module = torch.randn(2, 2, 5, 8), torch.nn.Identity()
        seen = torch.rand(2, 1, 5, 5) < 0.7
        seen |= torch.eye(5, dtype=torch.bool)
        for mask in (seen, seen[:, :, :1], seen[0, 0], seen[0], torch.randn(2, 2, 5, 5), torch.randn(5, 5), None):
            expected = torch.nn.functional.scaled_dot_product_attention(q, q, q, mask, is_causal=mask is None)
            torch.testing.assert_close(watching._attention(module, q, q, q, mask)[0].transpose(1, 2), expected)
        mask, bias = torch.randn(2, 1, 5, 5), torch.randn(1, 2, 5, 5)  # a bias by position is added to a mask of numbers
        expected = torch.nn.functional.scaled_dot_product_attention(q, q, q, mask + bias)
        torch.testing.assert_close(watching._attention(module, q, q, q, mask, position_bias=bias)[0].transpose(1, 2), expected)
        for mask in (torch.ones(2, 5, dtype=torch.int64), torch.ones(5), 3):
            with self.assertRaisesRegex(polyhead.Error, "attention_mask: expected a tensor"):
                watching._attention(module, q, q, q, mask)


@unittest.skipIf(CUDA, "a token that does not exist ends torch's work on the GPU, and the process")
class RandomArguments(Seeded):
    def test_they_never_crash(self):
        """What is raised is ours and says what was expected, or it is transformers' or torch's; and afterwards all is as before."""
        draw, model = random.Random(5), made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED))
        tokens = torch.randint(0, 97, (2, 7))
        inputs = [tokens, tokens.float(), tokens[0], tokens[:, :0], -tokens - 1, tokens.to("meta"), None, "x"]
        masks = [torch.ones(2, 7), torch.zeros(2, 7, dtype=torch.bool), torch.ones(2, 3), torch.ones(7), torch.ones(2, 1, 7, 7),
                 torch.ones(2, 1, 7, 7, dtype=torch.bool), torch.ones(2, 1, 3, 7), torch.full((2, 7), torch.nan), None, 3, "x"]
        heads = [0, -1, 3, 1.5, None, "x", 2**70, True]
        chosen = [None, 5, "ab", (1, 0), [(0, 1, 2)], torch.tensor([[0, 1]]), {(0, 1)}]
        whole = model(input_ids=tokens).logits
        for _ in range(300):
            ask = draw.choice((watching.watch, watching.gates, watching.knock_out))
            asked = draw.choice(chosen) if draw.random() < 0.5 else {(draw.choice(heads), draw.choice(heads))}
            given = {"input_ids": draw.choice(inputs), "attention_mask": draw.choice(masks)}
            who = draw.choice((None, 3, torch.nn.Linear(2, 2), *[model] * 9))
            try:
                with ask(who, asked) if ask is watching.knock_out else ask(who) as found:
                    model(**given)
                    str(found)
            except polyhead.Error as error:
                self.assertNotIsInstance(error, polyhead.InternalError)
                self.assertRegex(str(error), "expected .*found")
            except (AttributeError, ImportError, IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
                self.assertNotIn("python/polyhead", "".join(traceback.format_tb(error.__traceback__)[-1:]), repr(error))
        self.assertTrue(torch.equal(model(input_ids=tokens).logits, whole))


@unittest.skipIf(CUDA, "the documents' models are on the CPU")
class Documents(Seeded):
    def test_what_they_show_runs(self):
        config = hf.LlamaConfig(**{**GROUPED, "num_hidden_layers": 6})
        with tempfile.TemporaryDirectory() as folder:
            made(hf.LlamaForCausalLM, config).save_pretrained(folder)
            shown = {"folder": folder, "tokens": torch.randint(0, 97, (1, 12))}
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                for block in blocks_of("python-entropy.md"):
                    exec(block, shown)
                for block in blocks_of("python-which-heads.md", "In Transformers"):
                    exec(block, shown)
        self.assertEqual(shown["heads"][3].entropy.shape, (4,))
        self.assertEqual([len(gates) for gates in shown["importance"]], [4] * 6)
        self.assertTrue(all((gates > 0).any() for gates in shown["importance"]))
        for words in ("layer 5\n", "nats, ", "without 2 heads the loss goes from "):
            self.assertIn(words, printed.getvalue())


@unittest.skipUnless(REAL, "no GGUF named")
class Real(Seeded):
    @classmethod
    def setUpClass(cls):
        cls.model = hf.AutoModelForCausalLM.from_pretrained(REAL.parent, gguf_file=REAL.name, dtype=torch.float32).eval()
        cls.model.config.__dict__.pop("quantization_config", None)

    def double(self):
        made = hf.AutoModelForCausalLM.from_config(self.model.config)
        made.load_state_dict(self.model.state_dict())
        return made.double().eval()

    def test_logits_and_entropies(self):
        double = self.double()
        self.judge_logits(REAL.stem, self.model, double, torch.randint(0, 40000, (3, 48)), "sdpa")
        self.judge_entropies(REAL.stem, self.model, double, torch.randint(0, 40000, (2, 64)))

    def test_32768_tokens_are_watched_in_memory_that_grows_with_them(self):
        """The weights of one layer alone would take 9 heads x 32768² x 4 bytes = 36 GiB, and what grows with their square would take 16
        times as much as of 8192 tokens; what grows with the tokens takes 4 times as much. 8 is between."""
        body, grown = self.model.model, []
        layers, body.layers = body.layers, body.layers[:LAYERS]
        self.addCleanup(setattr, body, "layers", layers)
        for tokens in (8192, 32768):
            before = peak_memory(anew=True)
            with torch.no_grad(), watching.watch(body) as heads:
                body(input_ids=torch.randint(0, 40000, (1, tokens)), use_cache=False)
            grown.append(peak_memory() - before)
            self.assertEqual(len(heads), LAYERS)
            for layer in heads:
                self.assertEqual(layer.rows.tolist(), [tokens] * self.model.config.num_attention_heads)
            print(f"{tokens} tokens watched in {len(heads)} layers: {grown[-1] / 2**20:.2f} GiB more")
        self.assertLess(grown[1], 8 * grown[0])


def load_tests(_, tests, __):
    small = hf.LlamaConfig(**GROUPED)
    tests.addTests(doctest.DocTestSuite(watching, extraglobs={"model": made(hf.LlamaForCausalLM, small), "tokens": torch.arange(12)[None]}))
    return tests


if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.set_default_device("cuda" if CUDA else "cpu")
    unittest.main()
