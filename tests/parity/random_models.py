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


ALL = [gpt2, gpt2_untied, llama, llama_one_kv]


def make(config, seed):
    """Weights large enough for every part to matter."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            torch.nn.init.normal_(parameter, mean=1.0 if parameter.ndim == 1 and "bias" not in name else 0.0, std=0.3)
    return model


def logits(model, tokens, dtype):
    with torch.no_grad():
        return model.to(dtype)(torch.tensor([tokens])).logits[0].double().numpy()
