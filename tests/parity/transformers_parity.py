"""polyhead.transformers beside the attention of transformers: logits with padding on either side, entropies, knock-out, importance.

transformers_parity.py BUILD [GGUF]

Random small models of each kind, and with GGUF that real one: the error of the logits against float64, each sequence alone and
without padding, may be twice that of transformers' own attention in float32, plus 1e-6.
"""

import os
import re
import resource
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1)).resolve()
REAL = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
os.environ.setdefault("POLYHEAD_LIBRARY", str(BUILD / "capi/libpolyhead_c.so"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402
import transformers as hf  # noqa: E402

import polyhead.transformers as watching  # noqa: E402

hf.logging.set_verbosity_error()
SIZES = dict(vocab_size=97, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128)
GROUPED = dict(SIZES, num_key_value_heads=2, head_dim=12)


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


class Seeded(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)


class Logits(Seeded):
    def test_with_padding_on_either_side(self):
        tokens = torch.randint(0, 97, (3, 23))
        for name, kind, config, peer in models():
            single, double = made(kind, config), made(kind, config).double()
            for side in ("none", "left", "right"):
                mask = torch.ones_like(tokens)
                if side == "left":
                    mask[1, :7] = mask[2, :1] = 0
                if side == "right":
                    mask[1, -7:] = mask[2, -1:] = 0
                inputs = dict(input_ids=tokens, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp_min(0))
                with self.subTest(name, side=side), torch.no_grad():
                    expected = [answer(double, "eager", input_ids=row[keep.bool()][None])[0] for row, keep in zip(tokens, mask)]
                    theirs, mine = (self.error(answer(single, which, **inputs), mask, expected) for which in (peer, "polyhead"))
                    self.assertLessEqual(mine, 2 * theirs + 1e-6, f"{name}, padded {side}")
                    print(f"{name}, padding {side}: {mine:.1e}, {peer} {theirs:.1e}")

    @staticmethod
    def error(found, mask, expected):
        return max((row[keep.bool()] - right).abs().max().item() for row, keep, right in zip(found.double(), mask, expected))

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
            if name in ("splinter", "phimoe"):  # which say nothing of their modules, or of the weights
                continue
            single, double = made(kind, config), made(kind, config).double()
            single.set_attn_implementation("eager")
            double.set_attn_implementation("eager")
            with self.subTest(name), torch.no_grad():
                with watching.watch(single) as heads:
                    single(input_ids=tokens[:1])
                    single(input_ids=tokens[1:])
                self.assertEqual(single.config._attn_implementation, "eager")
                self.assertEqual(len(heads), 2)
                theirs, right = (self.entropies(model, tokens, name) for model in (single, double))
                for layer in range(2):
                    mine = torch.tensor(heads[layer].entropy)
                    bound = 2 * (theirs[layer] - right[layer]).abs().max() + 1e-6
                    self.assertLessEqual((mine - right[layer]).abs().max(), bound)

    @staticmethod
    def entropies(model, tokens, name):
        found = []
        for weights in model(input_ids=tokens, output_attentions=True).attentions:
            weights = weights.double()
            if name == "gpt_oss":  # a sink is one more outcome
                weights = torch.cat([weights, 1 - weights.sum(-1, keepdim=True)], -1)
            found.append(torch.special.entr(weights.clamp_min(0)).sum(-1).mean((0, 2)))
        return found

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
        for wrong, words in (({(2, 0)}, "layer from 0 to 1, found 2"), ({(0, 4)}, "head from 0 to 3 in layer 0, found 4")):
            with self.assertRaisesRegex(ValueError, words), watching.knock_out(model, wrong):
                pass

    def test_importance_is_the_slope_of_the_loss(self):
        model = made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED)).double()
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
        self.assertAlmostEqual((losses[0] - losses[1]) / (2 * step), slope, delta=0.01 * abs(slope))


@unittest.skipUnless(REAL, "no GGUF named")
class Documents(Seeded):
    def test_what_they_show_runs(self):
        page = (Path(__file__).resolve().parents[2] / "docs/python.md").read_text()
        blocks = [re.search(rf"```python\n({first}.*?)```", page, re.DOTALL)[1]
                  for first in ("import polyhead.transformers", "with polyhead.transformers.knock_out")]
        config = hf.LlamaConfig(**{**GROUPED, "num_hidden_layers": 6})
        shown = {"tokens": torch.randint(0, 97, (1, 12))}
        with tempfile.TemporaryDirectory() as folder:
            made(hf.LlamaForCausalLM, config).save_pretrained(folder)
            exec(blocks[0], {**shown, "folder": folder}, shown)
        self.assertEqual(shown["heads"][3].entropy.shape, (4,))
        exec(blocks[1], shown)
        self.assertEqual([len(gates) for gates in shown["importance"]], [4] * 6)
        self.assertTrue(all((gates > 0).any() for gates in shown["importance"]))


class Real(Seeded):
    @classmethod
    def setUpClass(cls):
        load = lambda dtype: hf.AutoModelForCausalLM.from_pretrained(REAL.parent, gguf_file=REAL.name, dtype=dtype).eval()  # noqa: E731
        cls.model = load(torch.float32)

    def test_logits(self):
        tokens = torch.randint(0, 40000, (1, 64))
        with torch.no_grad():
            theirs, mine = (answer(self.model, which, input_ids=tokens).double() for which in ("sdpa", "polyhead"))
            stored = self.model.state_dict()
            self.model.config.__dict__.pop("quantization_config", None)
            double = hf.AutoModelForCausalLM.from_config(self.model.config)
            double.load_state_dict(stored)
            expected = answer(double.double().eval(), "eager", input_ids=tokens)
        errors = [(found - expected).abs().max().item() for found in (mine, theirs)]
        print(f"{REAL.name}: {errors[0]:.1e}, sdpa {errors[1]:.1e}")
        self.assertLessEqual(errors[0], 2 * errors[1] + 1e-6)

    def test_32768_tokens_are_watched_in_little_memory(self):
        """The weights of one layer alone would take 9 heads x 32768² x 4 bytes = 36 GiB."""
        tokens = torch.randint(0, 40000, (1, 32768))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        body = self.model.model
        layers, body.layers = body.layers, body.layers[:1]
        try:
            with torch.no_grad(), watching.watch(body) as heads:
                body(input_ids=tokens, use_cache=False)
        finally:
            body.layers = layers
        self.assertEqual(heads[0].rows.tolist(), [32768.0] * 9)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        print(f"32768 tokens watched in one layer: {grown:.2f} GiB more")
        self.assertLess(grown, 2)


if __name__ == "__main__":
    torch.set_num_threads(2)
    unittest.main()
