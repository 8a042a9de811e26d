"""Small random models of every family that polyhead runs, of odd sizes, made by `transformers`."""
import torch
import transformers


def gpt2():
    return transformers.GPT2Config(vocab_size=89, n_positions=37, n_embd=30, n_layer=3, n_head=5, n_inner=71,
                                   layer_norm_epsilon=1e-4)


def gpt2_untied():
    return transformers.GPT2Config(vocab_size=31, n_positions=41, n_embd=24, n_layer=2, n_head=3,
                                   tie_word_embeddings=False)


def llama():
    """Grouped heads that are wider than width / heads."""
    return transformers.LlamaConfig(vocab_size=97, hidden_size=36, intermediate_size=53, num_hidden_layers=3,
                                    num_attention_heads=6, num_key_value_heads=2, head_dim=10,
                                    max_position_embeddings=43, rms_norm_eps=1e-5, rope_theta=5000.0)


def llama_one_kv():
    return transformers.LlamaConfig(vocab_size=29, hidden_size=28, intermediate_size=17, num_hidden_layers=2,
                                    num_attention_heads=7, num_key_value_heads=1, max_position_embeddings=47,
                                    tie_word_embeddings=True)


def llama_linear():
    return transformers.LlamaConfig(vocab_size=31, hidden_size=24, intermediate_size=19, num_hidden_layers=2,
                                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                    rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 300.0})


def llama3():
    """Pairs of all three kinds: kept, slowed down, in between."""
    return transformers.LlamaConfig(vocab_size=31, hidden_size=32, intermediate_size=19, num_hidden_layers=2,
                                    num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
                                    rope_parameters={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                                     "high_freq_factor": 4.0, "rope_theta": 100.0,
                                                     "original_max_position_embeddings": 40})


def llama_biases():
    return transformers.LlamaConfig(vocab_size=31, hidden_size=24, intermediate_size=19, num_hidden_layers=2,
                                    num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=53,
                                    attention_bias=True, mlp_bias=True)


def llama_mlp_bias():
    return transformers.LlamaConfig(vocab_size=29, hidden_size=20, intermediate_size=17, num_hidden_layers=2,
                                    num_attention_heads=2, max_position_embeddings=43, mlp_bias=True)


def mistral():
    return transformers.MistralConfig(vocab_size=37, hidden_size=28, intermediate_size=23, num_hidden_layers=3,
                                      num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                      max_position_embeddings=41, sliding_window=7)


def qwen2():
    return transformers.Qwen2Config(vocab_size=43, hidden_size=30, intermediate_size=29, num_hidden_layers=3,
                                    num_attention_heads=5, num_key_value_heads=1, max_position_embeddings=53,
                                    tie_word_embeddings=True)


def qwen2_window():
    """Windows in the second layer only."""
    return transformers.Qwen2Config(vocab_size=43, hidden_size=24, intermediate_size=13, num_hidden_layers=2,
                                    num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=53,
                                    use_sliding_window=True, sliding_window=5, max_window_layers=1)


def qwen3():
    """Heads that are wider than width / heads."""
    return transformers.Qwen3Config(vocab_size=43, hidden_size=30, intermediate_size=29, num_hidden_layers=3,
                                    num_attention_heads=5, num_key_value_heads=1, head_dim=14,
                                    max_position_embeddings=53, rms_norm_eps=1e-5,
                                    rope_parameters={"rope_type": "default", "rope_theta": 900.0})


def qwen3_window():
    return transformers.Qwen3Config(vocab_size=37, hidden_size=24, intermediate_size=13, num_hidden_layers=2,
                                    num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                    max_position_embeddings=53, use_sliding_window=True, sliding_window=5,
                                    max_window_layers=1, tie_word_embeddings=True)


def qwen3_bias():
    return transformers.Qwen3Config(vocab_size=37, hidden_size=22, intermediate_size=19, num_hidden_layers=2,
                                    num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                    max_position_embeddings=41, attention_bias=True)


def gemma2():
    """Windows in every other layer, both softcaps, a scale that is not the heads'."""
    return transformers.Gemma2Config(vocab_size=47, hidden_size=28, intermediate_size=31, num_hidden_layers=3,
                                     num_attention_heads=4, num_key_value_heads=2, head_dim=10,
                                     max_position_embeddings=43, sliding_window=7, query_pre_attn_scalar=13,
                                     attn_logit_softcapping=5.0, final_logit_softcapping=3.0)


def gemma2_uncapped():
    return transformers.Gemma2Config(vocab_size=29, hidden_size=22, intermediate_size=17, num_hidden_layers=2,
                                     num_attention_heads=2, num_key_value_heads=1, head_dim=12,
                                     max_position_embeddings=41, attn_logit_softcapping=None,
                                     final_logit_softcapping=None, tie_word_embeddings=False)


def gemma2_bias():
    return transformers.Gemma2Config(vocab_size=41, hidden_size=18, intermediate_size=23, num_hidden_layers=2,
                                     num_attention_heads=2, num_key_value_heads=1, head_dim=10,
                                     max_position_embeddings=37, sliding_window=5, attention_bias=True)


def gemma3():
    """Six layers with windows and one without, which have rotary positions of their own."""
    return transformers.Gemma3TextConfig(vocab_size=41, hidden_size=26, intermediate_size=23, num_hidden_layers=7,
                                         num_attention_heads=2, num_key_value_heads=1, head_dim=14,
                                         max_position_embeddings=47, sliding_window=6, query_pre_attn_scalar=11,
                                         rope_parameters={
                                             "sliding_attention": {"rope_type": "default", "rope_theta": 60.0},
                                             "full_attention": {"rope_type": "linear", "factor": 3.0,
                                                                "rope_theta": 800.0}})


def gpt_neox():
    """Rotary positions for 6 of 10 columns."""
    return transformers.GPTNeoXConfig(vocab_size=47, hidden_size=30, intermediate_size=31, num_hidden_layers=3,
                                      num_attention_heads=3, max_position_embeddings=37,
                                      rope_parameters={"rope_type": "default", "rope_theta": 700.0,
                                                       "partial_rotary_factor": 0.6})


def gpt_neox_serial():
    return transformers.GPTNeoXConfig(vocab_size=23, hidden_size=16, intermediate_size=11, num_hidden_layers=2,
                                      num_attention_heads=2, max_position_embeddings=31, use_parallel_residual=False,
                                      hidden_act="gelu_new", tie_word_embeddings=True)


def gpt_neox_no_bias():
    return transformers.GPTNeoXConfig(vocab_size=29, hidden_size=22, intermediate_size=13, num_hidden_layers=2,
                                      num_attention_heads=2, max_position_embeddings=37, attention_bias=False)


def bert():
    return transformers.BertConfig(vocab_size=53, hidden_size=30, num_hidden_layers=3, num_attention_heads=5,
                                   intermediate_size=41, max_position_embeddings=37)


def roberta():
    return transformers.RobertaConfig(vocab_size=53, hidden_size=21, num_hidden_layers=2, num_attention_heads=3,
                                      intermediate_size=19, max_position_embeddings=33, type_vocab_size=1,
                                      pad_token_id=1)


def distilbert():
    return transformers.DistilBertConfig(vocab_size=31, dim=22, n_layers=2, n_heads=2, hidden_dim=29,
                                         max_position_embeddings=32)


ALL = [gpt2, gpt2_untied, llama, llama_one_kv, llama_linear, llama3, llama_biases, llama_mlp_bias, mistral, qwen2,
       qwen2_window, qwen3, qwen3_bias, qwen3_window, gemma2, gemma2_bias, gemma2_uncapped, gemma3, gpt_neox,
       gpt_neox_no_bias, gpt_neox_serial, bert, roberta, distilbert]


def kind_of(config):
    """What loads it: the encoder alone, or a language model."""
    encoder = config.model_type in ("bert", "roberta", "distilbert")
    return transformers.AutoModel if encoder else transformers.AutoModelForCausalLM


def make(config, seed):
    """Weights large enough for every part to matter."""
    torch.manual_seed(seed)
    model = kind_of(config).from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            torch.nn.init.normal_(parameter, mean=1.0 if parameter.ndim == 1 and "bias" not in name else 0.0, std=0.3)
    return model


class Double(torch.utils._python_dispatch.TorchDispatchMode):
    """In float64 `transformers` still computes norms and angles in float32: here it does not."""

    def __torch_dispatch__(self, op, types, arguments=(), options=None):
        options = dict(options or {})
        if op is torch.ops.aten._to_copy.default and options.get("dtype") == torch.float32:
            options["dtype"] = torch.float64
        return op(*arguments, **options)


def exact(model):
    """The same model in float64, angles included."""
    with Double():
        made = type(model)(model.config)
    made.load_state_dict(model.state_dict())
    return made.double().eval()


def outputs(model, tokens, dtype):
    """output, logits [B,T,V] or what an encoder leaves [B,T,C]; per layer hidden_N [B,T,C], which it reads, and weights_N [B,H,T,T]."""
    tokens = torch.tensor(tokens)
    with torch.no_grad():
        if dtype == torch.float64:
            with Double():
                made = exact(model)(tokens, output_hidden_states=True, output_attentions=True)
        else:
            made = model.to(dtype)(tokens, output_hidden_states=True, output_attentions=True)
    named = {"output": made.logits if "logits" in made else made.last_hidden_state}
    for layer, weights in enumerate(made.attentions):
        named |= {f"hidden_{layer}": made.hidden_states[layer], f"weights_{layer}": weights}
    return {name: value.double().numpy() for name, value in named.items()}
