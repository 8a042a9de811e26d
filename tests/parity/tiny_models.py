"""Every model of transformers as a tiny one with random numbers, and inputs for it; no checkpoint is read."""

import functools
import importlib
import inspect
import re

import torch
import transformers as hf
from tiny_kinds import CLASSES, OVERRIDES, Draws
from tiny_kinds import INPUTS as GIVEN
from transformers.models.auto import configuration_auto, modeling_auto

LAYERS, HEADS, WIDTH, VOCABULARY, TOKENS = 2, 4, 32, 99, 12

# Sizes by the names that configs give them, the first pattern that fits; a value that is smaller already stays.
SIZES = [
    (r"(mamba_d_head|mamba_head_dim|ssm_head_dim)", 16),
    (r"(mamba_)?n_groups", 1),
    (r"num_key_value_heads|num_kv_heads|n_kv_heads|num_attention_groups|num_global_key_value_heads|swa_num_key_value_heads", 2),
    (r"num_nextn_predict_layers|mtp_num_hidden_layers|num_mtp_layers|first_k_dense_replace|num_kv_shared_layers", 0),
    (r".*vocab_size|vocabulary_size|vocab_size_per_layer_input|.*_vocab", VOCABULARY),
    (r".*(num_attention_heads|attention_heads|num_heads|n_heads?|n_head|heads|num_query_heads)", HEADS),
    (r"(qk_rope_head_dim|rotary_dim|qk_rope_dim)", 8),
    (r"(qk_nope_head_dim|v_head_dim|head_dim|attention_head_size|d_kv|head_size|kv_channels|global_head_dim|.*head_dim|attention_head_dim)", 8),
    (r".*(num_hidden_layers|num_layers|encoder_layers|decoder_layers|n_layers?|n_layer|num_blocks|depth|num_encoder_layers|num_decoder_layers)", LAYERS),
    (r".*(num_experts_per_tok|num_experts_per_token|top_k_experts|moe_topk|moe_k)", 2),
    (r".*(num_experts|num_local_experts|n_routed_experts|moe_num_experts)", 4),
    (r"(n_group|topk_group|num_expert_groups)", 1),
    (r".*(intermediate_size|ffn_dim|d_ff|n_inner|inner_dim|ff_dim|mlp_dim|feedforward_dim|ffn_hidden_size)", 2 * WIDTH),
    (r".*(q_lora_rank|kv_lora_rank)", 16),
    (r"(hidden_size_per_layer_input)", 8),
    (r".*(hidden_size|d_model|n_embd|embed_dim|hidden_dim|embedding_size|model_dim|dim|projection_dim|emb_dim|encoder_width)", WIDTH),
    (r"(image_size|img_size)", 32),
    (r"(patch_size)", 8),
    (r".*(max_position_embeddings|n_positions|n_ctx|max_sequence_length|max_seq_len.*|max_target_positions|max_source_positions|max_length)", 128),
    (r"(sliding_window|local_attention|attention_window_size|attention_chunk_size|chunk_size)", 5),
    (r"(num_mel_bins|feature_size)", 16),
    (r".*(num_codebooks|num_quantizers)", 2),
    (r".*(num_queries|num_latents|query_length|num_query_tokens)", 6),
]
# What a config leaves open and its model then misses.
UNSAID = {"vocab_size": VOCABULARY, "head_dim": WIDTH // HEADS, "num_key_value_heads": HEADS, "n_routed_experts": 4, "num_experts_per_tok": 2,
          "n_shared_experts": 1}
# Token ids that must be in the vocabulary.
TOKEN_ID = re.compile(r".*(token_id|token_index|_id)$")


# Of a model whose widths depend on each other in ways that names do not tell: only what repeats.
REPEATS = re.compile(r".*(layers?|n_layer|num_blocks|vocab_size.*|vocabulary_size|experts.*|max_position_embeddings|n_positions|image_size|token_id)")


def shrink(config, widths=True):
    """In place: all sizes small, also those of configs within."""
    for name in getattr(config, "sub_configs", {}):
        if getattr(config, name, None) is not None and hasattr(getattr(config, name), "to_dict"):
            shrink(getattr(config, name), widths)
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    for name, value in list(vars(config).items()):
        if name.startswith("_") or isinstance(value, bool) or not (widths or REPEATS.fullmatch(name)):
            continue
        if isinstance(value, int):
            size = next((size for pattern, size in SIZES if re.fullmatch(pattern, name)), None)
            if size is not None and value > size:
                set_field(config, name, size)
            elif TOKEN_ID.match(name) and value >= VOCABULARY:
                set_field(config, name, VOCABULARY - 1)
        elif value is None and name in UNSAID:
            set_field(config, name, UNSAID[name])
    layers = getattr(config, "num_hidden_layers", LAYERS)
    if isinstance(kinds, (list, tuple)) and isinstance(layers, int) and len(kinds) > layers:
        chosen = (list(dict.fromkeys(kinds)) * layers)[: max(layers, len(set(kinds)))]
        set_field(config, "num_hidden_layers", len(chosen))
        for name, value in list(vars(config).items()):
            if isinstance(value, (list, tuple)) and len(value) == len(kinds):
                set_field(config, name, type(value)(chosen if value == kinds else value[: len(chosen)]))
    for name, value in list(vars(config).items()):
        if isinstance(value, (list, tuple)) and isinstance(layers, int) and len(value) > layers and name.endswith("types"):
            set_field(config, name, type(value)(value[: getattr(config, "num_hidden_layers", layers)]))
        elif widths and name == "num_heads" and isinstance(value, (list, tuple)):  # of stages
            set_field(config, name, [2 * 2**stage for stage in range(len(value))])
    if getattr(config, "kv_lora_rank", None):  # one latent key for all heads
        set_field(config, "num_key_value_heads", getattr(config, "num_attention_heads", HEADS))
    if widths and isinstance(vars(config).get("depths"), (list, tuple)) and isinstance(vars(config).get("window_size"), int):
        set_field(config, "window_size", 4)
    fit_sections(config)
    set_field(config, "_experts_implementation_internal", "eager")  # the others have no float64
    for name, value in OVERRIDES.get(config.model_type, {}).items():
        *within, name = name.split(".")
        set_field(functools.reduce(getattr, within, config), name, value)
    return config


def fit_sections(config):
    """Sections of rotary dimensions, for time, height and width, that add up to half a head's."""
    dim = vars(config).get("head_dim")
    tables = [getattr(config, name, None) for name in ("rope_parameters", "rope_scaling")]
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_")) if any(tables) else None
    in_code = module is not None and "mrope_section" in inspect.getsource(module)
    for table in tables:
        for part in (table, *table.values()) if isinstance(table, dict) else ():
            if isinstance(part, dict) and (part.get("mrope_section") or in_code and "rope_type" in part):
                if not isinstance(dim, int):
                    dim = config.hidden_size // config.num_attention_heads
                share = part.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", None)) or 1.0
                half = int(dim * share) // 2
                part["mrope_section"] = [half // 3, half // 3, half - 2 * (half // 3)]


def set_field(config, name, value):
    try:
        setattr(config, name, value)
    except Exception:  # a config that checks itself as a whole: later fields make it right again
        object.__setattr__(config, name, value)


def kinds_of():
    """(model type, what for, name of the class) of every model type: as every kind of language model that it can be, or plain."""
    tables = [("causal", modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), ("seq2seq", modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
              ("masked", modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)]
    for kind in configuration_auto.CONFIG_MAPPING_NAMES:
        found = [(kind, role, table[kind]) for role, table in tables if kind in table]
        base = modeling_auto.MODEL_MAPPING_NAMES.get(kind)
        yield from found or [(kind, "base", base if base is None or isinstance(base, str) else base[0])]


class Part(Exception):
    """What is no model by itself."""


def class_of(kind, name):
    """The model class; for a config that no table of transformers has, the first one in its file that takes it."""
    config, found = hf.CONFIG_MAPPING[kind], getattr(hf, name or CLASSES.get(kind, ""), None)
    if found is not None:
        if found.forward is torch.nn.Module.forward:
            raise Part(f"{name} is a part of a model, and is not called by itself")
        return found
    try:
        module = importlib.import_module(config.__module__.replace("configuration_", "modeling_"))
    except ModuleNotFoundError:
        raise Part(f"{config.__name__} is of a part of a model, and no model is beside it") from None
    own = [x for x in vars(module).values() if inspect.isclass(x) and issubclass(x, hf.PreTrainedModel) and x.__module__ == module.__name__]
    takes = [x for x in own if inspect.signature(x.__init__).parameters.get("config", inspect.Parameter("x", 1)).annotation in (config, config.__name__)]
    takes += [x for x in own if getattr(x, "config_class", None) is config]
    found = [x for x in takes if "PreTrained" not in x.__name__ and x.forward is not torch.nn.Module.forward]
    if not found:
        raise Part(f"{config.__name__} is of a part of a model, and no model takes it alone")
    return found[0]


def config_of(kind, widths):
    return shrink(hf.CONFIG_MAPPING[kind](), widths)


def ways_of(model):
    """Of asking a model; the first one that works is taken."""
    return ("as listed",) if model.config.model_type in GIVEN else ("plain", "text and image", "features first")


# Masks by the names that models give them, 1 where something is there; of the others 1 says that something is missing.
MASKS = ("attention_mask input_features_mask feature_attention_mask pixel_attention_mask pixel_mask image_attention_mask mask "
         "audio_attention_mask context_mask past_observed_mask encoder_attention_mask").split()
MISSING = "past_values_padding audio_mel_mask padding_mask".split()


def paddings_of(model, role, way, batch, side):
    """(name of a mask, inputs in which it leaves out something on that side): those that its forward() may take."""
    whole = inputs_of(model, role, way, batch)
    parameters = inspect.signature(type(model).forward).parameters
    for name in (*MASKS, *MISSING):
        if name in whole:
            yield name, {**whole, name: without(whole[name], side, name in MISSING)}
        elif name in parameters:
            there = 0 if name in MISSING else 1
            yield from ((name, {**whole, name: without(torch.full((batch, *shape), there), side, name in MISSING)})
                        for shape in shapes_of(whole, batch, name))


def shapes_of(whole, batch, name):
    """Those that a mask may have after the batch: of text, of an image, or of what else there is."""
    text = whole.get("input_ids")
    if name == "attention_mask" and text is not None:
        return [(text.shape[1],)]
    main = next((x for x in whole.values() if isinstance(x, torch.Tensor) and x.dim() > 1 and x.shape[0] == batch), torch.ones(1))
    if name == "pixel_mask":
        return [main.shape[-2:]] if main.dim() == 4 else []
    return sorted({(size,) for size in main.shape[1:] if size > 5}, reverse=True)


def without(mask, side, missing):
    """The mask with some of each row's last axis left out: an eighth, at least 3, 5 and 1 of the first three rows."""
    made, size = mask.clone(), mask.shape[-1]
    for row in range(mask.shape[0]):
        gone = min((3, 5, 1)[row % 3] * max(1, size // 24), size - 1)
        made[row, ..., slice(0, gone) if side == "left" else slice(size - gone, size)] = missing
    return made


def inputs_of(model, role, way, batch, side=None):
    """What its forward() takes, `batch` of it; of text with a mask that leaves out some tokens on that side, None if that is not known."""
    parameters = inspect.signature(type(model).forward).parameters
    draw = torch.Generator().manual_seed(3)
    main = model.main_input_name if model.main_input_name in parameters else "input_ids"
    if way == "as listed":
        return None if side else GIVEN[model.config.model_type](Draws(model.config, batch))
    if "input_ids" in parameters and main not in ("pixel_values", "input_values", "input_features", "pixel_values_videos"):
        made = {"input_ids": torch.randint(5, VOCABULARY - 5, (batch, TOKENS), generator=draw)}
        mask = torch.ones_like(made["input_ids"])
        for row in range(batch):
            gone = (3, 5, 1)[row] if side else 0
            if side == "left":
                mask[row, :gone] = 0
            elif side == "right":
                mask[row, TOKENS - gone :] = 0
        if side and "attention_mask" in parameters:
            made["attention_mask"] = mask
            if "position_ids" in parameters and role == "causal":
                made["position_ids"] = (mask.cumsum(1) - 1).clamp_min(0)
        elif side:
            return None
        if "decoder_input_ids" in parameters:
            made["decoder_input_ids"] = torch.randint(5, VOCABULARY - 5, (batch, 7), generator=draw)
        if way == "text and image" and "pixel_values" in parameters:
            vision = getattr(model.config, "vision_config", model.config)
            image = getattr(vision, "image_size", 32)
            made["pixel_values"] = torch.randn((batch, 3, image, image), generator=draw)
        return made
    if side:
        return None
    config = model.config
    if "grid_thw" in parameters:
        patch = getattr(config, "patch_size", getattr(config, "spatial_patch_size", 8))
        wide = 3 * getattr(config, "temporal_patch_size", 1) * patch**2
        first = next(name for name in parameters if name != "self")
        return {first: torch.randn((batch * 16, wide), generator=draw), "grid_thw": torch.tensor([[1, 4, 4]] * batch)}
    size = lambda name, default: getattr(config, name, None) or getattr(getattr(config, "vision_config", None), name, None) or default  # noqa: E731
    if "pixel_values" in parameters:
        image = size("image_size", 32)
        height, width = image if isinstance(image, (list, tuple)) else (image, image)
        shape = (batch, size("num_channels", 3) if isinstance(size("num_channels", 3), int) else 3, height, width)
        if "num_frames" in vars(config):
            shape = (batch, config.num_frames, *shape[1:])
        made = {"pixel_values": torch.randn(shape, generator=draw)}
    elif "pixel_values_videos" in parameters:
        image = size("image_size", size("crop_size", 32))
        made = {"pixel_values_videos": torch.randn((batch, size("frames_per_clip", size("num_frames", 4)), 3, image, image), generator=draw)}
    elif "input_features" in parameters:
        bins = size("num_mel_bins", size("feature_size", size("input_channels", 16)))
        length = 2 * size("max_source_positions", 0) if main == "input_features" and size("max_source_positions", 0) else 24
        turned = (way == "features first") != ("whisper" in config.model_type)
        made = {"input_features": torch.randn((batch, bins, length) if turned else (batch, length, bins), generator=draw)}
        if "input_features_mask" in parameters:
            made["input_features_mask"] = torch.ones((batch, length), dtype=torch.long)
    elif "input_values" in parameters:
        bins = getattr(config, "num_mel_bins", None)
        made = {"input_values": torch.randn((batch, getattr(config, "max_length", 24), bins) if bins else (batch, 3200), generator=draw)}
    elif "hidden_states" in parameters or "inputs_embeds" in parameters:
        name = "inputs_embeds" if "inputs_embeds" in parameters else "hidden_states"
        made = {name: torch.randn((batch, TOKENS, getattr(config, "hidden_size", WIDTH)), generator=draw)}
    else:
        raise LookupError(f"takes {', '.join(list(parameters)[1:5])}")
    if "input_ids" in parameters:
        made["input_ids"] = torch.randint(5, VOCABULARY - 5, (batch, TOKENS), generator=draw)
    if "decoder_input_ids" in parameters:
        made["decoder_input_ids"] = torch.randint(5, VOCABULARY - 5, (batch, 7), generator=draw)
    return made
