"""What the rules of tiny_models.py cannot know of a model: sizes that depend on each other, by model type, and what else it is asked."""

import torch
import transformers as hf

# Fields of the config of that model type, also where it is part of another; a dot goes into a config within.
_CHANNELS = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "layer_type": "basic", "embedding_size": 16}
_HGNET = {"stem_channels": [3, 16, 16], "stage_in_channels": [16, 16, 32, 32], "stage_mid_channels": [16, 16, 16, 16],
          "stage_out_channels": [16, 32, 32, 32], "hidden_sizes": [16, 32, 32, 32], "stage_num_blocks": [1, 1, 1, 1],
          "stage_numb_of_layers": [2, 2, 2, 2], "depths": [1, 1, 1, 1]}  # fmt: skip
_DETECTS = {"encoder_in_channels": [32, 32, 32], "decoder_in_channels": [32, 32, 32], "num_queries": 6, "encoder_hidden_dim": 32,
"d_model": 32}
# Detectors whose images go through a network of a package of its own, timm; one of transformers' takes its place.
_RESNET = {"backbone_config": hf.ResNetConfig(**_CHANNELS, out_features=["stage4"])}
_RESNETS = {"backbone_config": hf.ResNetConfig(**_CHANNELS, out_features=["stage2", "stage3", "stage4"])}
_STAGES = {"num_hidden_layers": 4, "stage_names": ["stem", "stage1", "stage2", "stage3", "stage4"],
           "_out_features": ["stage1", "stage2", "stage3", "stage4"], "_out_indices": [1, 2, 3, 4]}  # fmt: skip
_BACKBONE = {f"backbone_config.{name}": value for name, value in _STAGES.items()}
_EFFICIENT = {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320}
_MIMI = {"upsample_groups": 8, "num_filters": 8, "vector_quantization_hidden_dimension": 16, "codebook_dim": 16, "codebook_size": 32}
_EXPERTS = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32}
_VIBEVOICE = {"depths": [1, 1, 1, 1, 1, 1, 1], "num_filters": 4}
_ROPES = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("sliding_attention", "full_attention")}
_STEP = {"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"], "rope_parameters": _ROPES}
_ASSISTS = {"text_config.num_kv_shared_layers": 2}
_SAM_VIT = {"window_size": 2, "global_attn_indexes": [1]}

OVERRIDES = {
    "bamba": {"attn_layer_indices": [1]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "lw_detr": {"projector_scale_factors": [1.0], "projector_in_channels": [32], "projector_out_channels": 32, "num_feature_levels": 1,
                "decoder_cross_attention_heads": 4, "backbone_config.num_windows": 4, "backbone_config.num_windows_side": 2,
                "backbone_config.window_block_indices": [0], "backbone_config._out_features": ["stage1", "stage2"],
                "backbone_config._out_indices": [1, 2], "backbone_config.stage_names": ["stem", "stage1", "stage2"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"], "attention_window_size": 5},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
    "esm": {"pad_token_id": 1, "mask_token_id": 4},
    "esmc": {"vocab_size": 99, "num_key_value_heads": 4},
    "autoformer": {"prediction_length": 4, "context_length": 8},
    "informer": {"prediction_length": 4, "context_length": 8},
    "time_series_transformer": {"prediction_length": 4, "context_length": 8},
    "align_vision_model": _EFFICIENT,
    "align": {"projection_dim": 80},
    "efficientnet": _EFFICIENT,
    "blip-2": {"image_token_index": 98, "image_token_id": 98},
    "instructblip": {"image_token_index": 98, "image_token_id": 98},
    "instructblipvideo": {"video_token_index": 98, "video_token_id": 98},
    "blt": {"num_hidden_layers": 2, "encoder_config.hidden_size_global": 64, "decoder_config.hidden_size_global": 64,
            "global_config.hidden_size": 64, "global_config.head_dim": 16},
    "blt_local_decoder": {"hidden_size_global": 32},
    "blt_local_encoder": {"hidden_size_global": 32},
    "bridgetower": {"hidden_size": 64, "contrastive_hidden_size": 64},
    "bridgetower_text_model": {"hidden_size": 64},
    "bridgetower_vision_model": {"hidden_size": 64},
    "chameleon": {"vocabulary_map": {"<image>": 4, "IMGIMGAZ": 5, "IMGIMGBZ": 6}, "image_token_id": 4},
    "chameleon_vqgan": {"base_channels": 32, "num_embeddings": 32, "resolution": 32},
    "chmv2": _BACKBONE,
    "depth_anything": _BACKBONE,
    "prompt_depth_anything": _BACKBONE,
    "tipsv2_dpt": _BACKBONE,
    "clap_audio_model": {"spec_size": 64, "depths": [1, 1, 1, 1], "num_mel_bins": 32, "window_size": 2},
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"], "rope_parameters": _ROPES},
    "csm_depth_decoder_model": {"num_codebooks": 32},
    "moshi_depth": {"num_codebooks": 32, "input_size": 32},
    "mimi": _MIMI,
    "pocket_tts_audio_tokenizer": _MIMI,
    "pocket_tts_audio_tokenizer_encoder": _MIMI,
    "pocket_tts_audio_tokenizer_decoder": _MIMI,
    "mimi_encoder": _MIMI,
    "mimi_decoder": _MIMI,
    "detr": _RESNET,
    "conditional_detr": _RESNET,
    "dab-detr": _RESNET,
    "table-transformer": _RESNET,
    "deformable_detr": _RESNETS,
    "omdet-turbo": _RESNETS,
    "d_fine": _DETECTS,
    "deimv2": _DETECTS,
    "rt_detr": _DETECTS,
    "rt_detr_v2": _DETECTS,
    "pp_doclayout_v3": {**_DETECTS, "x4_feat_dim": 16},
    "pp_doclayout_v4": _DETECTS,
    "hgnet_v2": _HGNET,
    "rt_detr_resnet": _CHANNELS,
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"], "n_group": 1, "topk_group": 1},
    "diffusion_gemma_text": _EXPERTS,
    "emu3": {"vocabulary_map": {"<image>": 4, "<|extra_200|>": 3, "<|visual token 000000|>": 5, "<|visual token 000001|>": 6}},
    "emu3_vqgan": {"base_channels": 32, "codebook_size": 64},
    "florence_vision": {"embed_dim": [32, 32, 32, 32], "depths": [1, 1, 1, 1], "num_heads": [2, 2, 2, 2], "num_groups": [2, 2, 2, 2]},
    "gemma4_assistant": {**_ASSISTS, "text_config.hidden_size_per_layer_input": 0},
    "gemma4_audio": {"input_feat_size": 16},
    "gemma4_unified_assistant": _ASSISTS,
    "janus_vqgan": {"base_channels": 32, "num_embeddings": 64, "num_patches": 2},
    "kosmos-2": {"latent_query_num": 6},
    "llama4_vision_model": {"intermediate_size": 128, "projector_input_dim": 32},
    "longcat_flash": {"qk_head_dim": 16, "zero_expert_num": 2},
    "mistral4": {"qk_head_dim": 16, "head_dim": 16},
    "musicgen_decoder": {"num_codebooks": 1},
    "neomme": {"head_dim": 16},
    "perceiver": {"d_latents": 32, "num_self_attends_per_block": 2, "num_blocks": 1, "num_self_attention_heads": 4},
    "pix2struct_text_model": {"initializer_range": 0.02},
    "muse_spark_audio": {"num_hidden_layers": 4, "hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]},
    "nemotron_asr_streaming_encoder": {"default_num_lookahead_tokens": 1},
    "pp_formulanet_vision": _SAM_VIT,
    "pop2piano": {"use_cache": False},
    "qwen2_5_omni_audio_encoder": {"n_window": 50},
    "qwen2_5_omni_bigvgan": {"upsample_initial_channel": 64},
    "sapiens2": {"num_key_value_heads_per_layer": [4, 2]},
    "shieldgemma2": {"yes_token_index": 7, "no_token_index": 8},
    "step3p5": _STEP,
    "swin": {"image_size": 128, "window_size": 4, "depths": [2, 1, 1, 1]},
    "musicgen_melody_decoder": {"num_codebooks": 1},
    "depth_pro": {"intermediate_hook_ids": [1, 0], "intermediate_feature_dims": [32, 32], "scaled_images_feature_dims": [32, 32, 32]},
    "granite4_vision": {"downsample_rate": "1/2", "deepstack_layer_map": [[1, 0]]},
    "mask2former": {"feature_size": 32, "mask_feature_size": 32},
    "mllama_vision_model": {"intermediate_layers_indices": [0, 1], "num_global_layers": 2},
    "molmo2_vision": {"num_position_embeddings": 16, "image_size": [32, 32]},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "nemotron3_5_transcribe_asr_audio": {"num_key_value_heads": 4},
    "pix2struct_vision_model": {"patch_embed_hidden_size": 32, "seq_len": 16},
    "phi4_multimodal_audio": {"nemo_conv_channels": 32, "ext_pw_out_channel": 32, "depthwise_separable_out_channel": 32,
                              "depthwise_multiplier": 1},
    "qwen4_exp_text": {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 8,
                       "indexer_compress_ratio": 2},
    "rag": {"n_docs": 2,
            "question_encoder": hf.DPRConfig(vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64),
            "generator": hf.BartConfig(vocab_size=99, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                                       decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=128)},
    "radio": {"patch_dim": 192, "max_img_size": 64},
    "siglip_text_model": {"projection_size": 32},
    "siglip2_text_model": {"projection_size": 32},
    "vitmatte": {"convstream_hidden_sizes": [48, 96, 192], "fusion_hidden_sizes": [256, 128, 64, 32]},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "tvp": {"visual_prompt_size": 8, "max_img_size": 32, "num_frames": 2},
    "resnet": _CHANNELS,
    "vibevoice_acoustic_tokenizer": _VIBEVOICE,
    "vibevoice_acoustic_tokenizer_encoder": _VIBEVOICE,
    "vibevoice_acoustic_tokenizer_decoder": _VIBEVOICE,
    "vitpose": {"backbone_config._out_features": ["stage2"], "backbone_config._out_indices": [2]},
    "vitpose_backbone": {"image_size": [32, 32], "patch_size": [8, 8]},
    "vjepa2": {"crop_size": 32, "frames_per_clip": 4},
    "wav2vec2-bert": {"feature_projection_input_dim": 16},
    "yolos": {"image_size": [32, 32]},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"attention_hidden_size": 64, "attention_head_dim": 16, "num_hidden_layers": 6,
              "layers_block_type": ["linear_attention", "hybrid"] * 3},
    "zamba2": {"attention_hidden_size": 64, "attention_head_dim": 16, "mamba_headdim": 16, "n_mamba_heads": 4, "hybrid_layer_ids": [1]},
    "mamba2": {"head_dim": 16},
    "sam_vision_model": _SAM_VIT,
    "sam2_hiera_det_model": {"hidden_size": 16, "image_size": [64, 64], "window_size_per_stage": [4, 4, 4, 4],
                             "blocks_per_stage": [1, 1, 2, 1],
                             "embed_dim_per_stage": [16, 32, 64, 128], "num_attention_heads_per_stage": [1, 2, 4, 8],
                             "global_attention_blocks": [3]},
    "sam2_vision_model": {"backbone_channel_list": [128, 64, 32, 16], "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "sam3_vision_model": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "superglue": {"num_hidden_layers": 2},
    "granite_speech5_encoder": {"num_key_value_heads": 4},
    "nemotron3_diarization": {"audio_config.num_key_value_heads": 4},
    "uvdoc": {"backbone_config._out_features": [f"stage{n}" for n in range(1, 7)], "backbone_config._out_indices": [*range(1, 7)]},
    "vit": {"pooler_output_size": 32},
    "hrm_text": {"use_cache": False},
}  # fmt: skip


# Whose class is not the first that says it takes the config.
CLASSES = {"pp_formulanet": "PPFormulaNetModel", "pp_chart2table": "GotOcr2ForConditionalGeneration",
           "pp_ocrv5_mobile_det": "PPOCRV5MobileDetForObjectDetection"}


class Draws:
    """Inputs of one call: `batch` of them, the same ones every time."""

    def __init__(self, config, batch):
        self.config, self.batch, self.generator = config, batch, torch.Generator().manual_seed(5)

    def normal(self, *shape):
        return torch.randn((self.batch, *shape), generator=self.generator)

    def below(self, most, *shape):
        return torch.randint(0, most, (self.batch, *shape), generator=self.generator)

    def ones(self, *shape, dtype=torch.long):
        return torch.ones((self.batch, *shape), dtype=dtype)

    def each(self, *values):
        return torch.tensor([values] * self.batch)


def _text(d):
    return {"input_ids": 5 + d.below(80, 12)}


def _text_about_image(d, tokens):
    """As many image tokens as the image has features, and then a text."""
    ids = 5 + d.below(80, 12)
    ids[:, :tokens] = 98
    return {"input_ids": ids, "pixel_values": d.normal(3, 32, 32)}


def _q_former(d):
    return {**_text_about_image(d, 6), "qformer_input_ids": 5 + d.below(80, 4)}


def _series(d, length, **more):
    return {"past_values": d.normal(length), "past_observed_mask": d.ones(length), **more}


def _lagged(d):
    past = d.config.context_length + max(d.config.lags_sequence)
    wide = d.config.num_time_features
    return _series(d, past, past_time_features=d.normal(past, wide), future_values=d.normal(4), future_time_features=d.normal(4, wide))


def _assists(d):
    """One token more, and the keys and values of those before it, which another model made."""
    text = d.config.get_text_config()
    layers = {kind: text.per_layer_config[number] for number, kind in enumerate(text.layer_types)}
    return {"inputs_embeds": d.normal(1, 2 * d.config.backbone_hidden_size),
            "shared_kv_states": {kind: tuple(d.normal(layer.num_key_value_heads, 9, layer.head_dim) for _ in range(2))
                                 for kind, layer in layers.items()}}


def _retrieved(d):
    """Two texts that were found, beside each."""
    found = torch.randint(5, 85, (2 * d.batch, 12), generator=d.generator)
    return {**_text(d), "decoder_input_ids": 5 + d.below(80, 7), "context_input_ids": found, "context_attention_mask": torch.ones_like(found),
            "doc_scores": d.normal(2)}


def _larger_image(d):
    """Of which more than one place is left after all strides."""
    return {"pixel_values": d.normal(3, 96, 96)}


def _bright_image(d):
    """Of which convolutions without norms leave more than nothing."""
    return {"pixel_values": 100 * d.normal(3, 96, 96)}


def _detects(d):
    return {"vision_features": [d.normal(32, 4, 4)], "text_features": d.normal(6, 32), "vision_pos_embeds": [d.normal(32, 4, 4)]}


def _places(d):
    """Patches after their rows and columns."""
    return torch.cat([torch.tensor([[x // 3, x % 3] for x in range(9)]).expand(d.batch, 9, 2), d.normal(9, 32)], 2)


def _channel(d):
    return {"input_values": d.normal(1, 3840)}


# More of what forward() takes, by model type; it replaces what tiny_models.inputs_of knows.
INPUTS = {
    "blip-2": lambda d: _text_about_image(d, 6),
    "blip_2_qformer": lambda d: {"query_embeds": d.normal(6, 32), "encoder_hidden_states": d.normal(9, 32)},
    "instructblip_qformer": lambda d: {"input_ids": d.below(90, 5), "query_embeds": d.normal(6, 32),
                                       "encoder_hidden_states": d.normal(9, 32)},
    "instructblip": _q_former,
    "blt_local_decoder": lambda d: {"inputs_embeds": d.normal(12, 32), "patch_embeds": d.normal(24, 32)},
    "align": lambda d: {**_text(d), "pixel_values": d.normal(3, 32, 32)},
    "siglip": lambda d: {**_text(d), "pixel_values": d.normal(3, 32, 32)},
    "vision-text-dual-encoder": lambda d: {**_text(d), "pixel_values": d.normal(3, 32, 32)},
    "idefics": lambda d: {**_text(d), "pixel_values": d.normal(1, 3, 32, 32), "image_attention_mask": d.ones(12, 1)},
    "inkling_vision": lambda d: {"pixel_values": torch.randn((4 * d.batch, 2, 8, 8, 3), generator=d.generator)},
    "instructblipvideo": lambda d: {"pixel_values": d.normal(2, 3, 32, 32), "qformer_input_ids": 5 + d.below(80, 4),
                                    "input_ids": torch.cat([torch.full((d.batch, 12), 98), 5 + d.below(80, 6)], 1)},
    "moshi_depth": lambda d: {**_text(d), "last_hidden_state": d.normal(12, 32)},
    "t5gemma2_decoder": lambda d: {**_text(d), "encoder_hidden_states": d.normal(9, 32)},
    "dia_decoder": lambda d: {"input_ids": d.below(90, 7, 9), "encoder_hidden_states": d.normal(9, 32)},
    **dict.fromkeys("detr conditional_detr d_fine uvdoc pp_ocrv5_mobile_det".split(), _larger_image),
    **dict.fromkeys("rt_detr rt_detr_v2 deimv2 pp_doclayout_v3 pp_doclayout_v4".split(), _bright_image),
    "mask2former": lambda d: {"pixel_values": d.normal(3, 128, 128)},
    "maskformer": lambda d: {"pixel_values": d.normal(3, 128, 128)},
    "sam3_detr_encoder": _detects,
    "sam3_lite_text_detr_encoder": _detects,
    **dict.fromkeys(("sam3_detr_decoder", "sam3_lite_text_detr_decoder"), lambda d: {
        "vision_features": d.normal(16, 32), "text_features": d.normal(6, 32), "vision_pos_encoding": d.normal(16, 32),
        "text_mask": d.ones(6, dtype=torch.bool), "spatial_shapes": torch.tensor([[4, 4]])}),
    "sam3_lite_text_mask_decoder": lambda d: {
        "decoder_queries": d.normal(6, 32), "backbone_features": [d.normal(32, 8, 8), d.normal(32, 4, 4)],
        "encoder_hidden_states": d.normal(16, 32), "prompt_features": d.normal(6, 32), "prompt_mask": d.ones(6, dtype=torch.bool)},
    "sam2": lambda d: {"pixel_values": d.normal(3, 64, 64)},
    "sam2_vision_model": lambda d: {"pixel_values": d.normal(3, 64, 64)},
    "timesfm2_5": lambda d: {"past_values": d.normal(64), "past_values_padding": torch.zeros(d.batch, 64, dtype=torch.long)},
    "vibevoice_acoustic_tokenizer_encoder": lambda d: {"hidden_states": d.normal(1, 6400)},
    "vibevoice_acoustic_tokenizer_decoder": lambda d: {"hidden_states": d.normal(32, 4)},
    **dict.fromkeys(("minicpmv4_6_vision", "minicpmv4_7_vision"),
                    lambda d: {"pixel_values": torch.randn((1, 3, 8, 128 * d.batch), generator=d.generator), "target_sizes": d.each(4, 4)}),
    "blt_local_encoder": lambda d: {**_text(d), "patch_embeds": d.normal(4, 32), "num_patches": 4,
                                    "patch_ids": d.each(*sorted(x % 4 for x in range(12)))},
    "bridgetower_vision_model": lambda d: {"image": d.normal(3, 32, 32)},
    "clap_audio_model": lambda d: {"input_features": d.normal(1, 100, 32)},
    "clap": lambda d: {**_text(d), "input_features": d.normal(1, 100, 32)},
    "csm": lambda d: {"input_ids": d.below(90, 12, 2)},
    "dac": _channel,
    "encodec": _channel,
    "mimi": _channel,
    "mimi_encoder": _channel,
    "pocket_tts_audio_tokenizer": _channel,
    "pocket_tts_audio_tokenizer_encoder": _channel,
    "mimi_decoder": lambda d: {"latents": d.normal(32, 12)},
    "pocket_tts_audio_tokenizer_decoder": lambda d: {"latents": d.normal(32, 12)},
    "pe_audio_encoder": _channel,
    "xcodec": _channel,
    "pe_audio": lambda d: {**_text(d), **_channel(d)},
    "vibevoice_acoustic_tokenizer": lambda d: {"input_values": d.normal(1, 6400)},
    "decision_transformer": lambda d: {"states": d.normal(6, 17), "actions": d.normal(6, 4), "rewards": d.normal(6, 1),
                                       "returns_to_go": d.normal(6, 1),
                                       "timesteps": d.each(*range(6)), "attention_mask": d.ones(6)},
    "dia": lambda d: {**_text(d), "decoder_input_ids": d.below(90, 7, 9)},
    "efficientloftr": lambda d: {"pixel_values": d.normal(2, 3, 64, 64)},
    "lightglue": lambda d: {"pixel_values": d.normal(2, 3, 64, 64)},
    "superglue": lambda d: {"pixel_values": d.normal(2, 3, 64, 64)},
    "florence_vision": lambda d: {"hidden_states": d.normal(3, 64, 64)},
    "florence2": lambda d: {**_text(d), "decoder_input_ids": 5 + d.below(80, 7)},
    "fun_asr_nano_encoder": lambda d: {"input_features": d.normal(24, 112), "input_features_mask": d.ones(24)},
    "gemma3n_audio": lambda d: {"audio_mel": d.normal(32, 128), "audio_mel_mask": torch.zeros(d.batch, 32, dtype=torch.bool)},
    "gemma4_assistant": _assists,
    "gemma4_unified_assistant": _assists,
    "rag": _retrieved,
    "gemma4_audio": lambda d: {"input_features": d.normal(32, 128), "attention_mask": d.ones(32, dtype=torch.bool)},
    "gemma4_vision": lambda d: {"pixel_values": d.normal(9, 192), "pixel_position_ids": d.each(*[[x // 3, x % 3] for x in range(9)])},
    "granite_speech5_encoder": lambda d: {"input_features": d.normal(24, 64)},
    "granite_speech5_ctc": lambda d: {"input_features": d.normal(24, 64)},
    "idefics2_perceiver": lambda d: {"context": d.normal(9, 32), "attention_mask": d.ones(9)},
    "informer": _lagged,
    "time_series_transformer": _lagged,
    "inkling_audio": lambda d: {"audio_input_ids": d.below(90, 6, 80)},
    "kimi_k25_vision": lambda d: {"pixel_values": torch.randn((16 * d.batch, 3, 8, 8), generator=d.generator), "grid_thw": d.each(1, 4, 4)},
    "muse_glimmer_vision": lambda d: {"pixel_values": torch.randn((16 * d.batch, 384), generator=d.generator), "grid_thw": d.each(1, 4, 4)},
    "muse_spark_vision": lambda d: {"pixel_values": torch.randn((16 * d.batch, 384), generator=d.generator), "grid_thw": d.each(1, 4, 4)},
    "kosmos-2": lambda d: {**_text(d), "pixel_values": d.normal(3, 32, 32),
                           "image_embeds_position_mask": d.each(*[1] * 6 + [0] * 6)},
    "kosmos_2_5_vision_model": lambda d: {"hidden_states": d.normal(9, 32), "attention_mask": d.ones(9)},
    "kyutai_speech_to_text": lambda d: {"input_ids": d.below(90, 12, 3)},
    "minicpm_ocr_vision": lambda d: {"pixel_values": torch.randn((1, 3, 8, 128 * d.batch), generator=d.generator),
                                     "target_sizes": d.each(4, 4)},
    "mllama_vision_model": lambda d: {"pixel_values": d.normal(1, 4, 3, 32, 32), "aspect_ratio_ids": d.ones(1),
                                      "aspect_ratio_mask": d.ones(1, 4)},
    "molmo2_vision": lambda d: {"pixel_values": d.normal(16, 192)},
    "molmo2_adapter": lambda d: {"image_features": d.normal(16, 64),
                                 "pooled_patches_idx": torch.randint(0, 16, (4 * d.batch, 4), generator=d.generator)},
    "muse_spark_audio": lambda d: {"input_values": d.normal(3840)},
    "nemotron_asr_streaming_encoder": lambda d: {"input_features": d.normal(128, 16)},
    **dict.fromkeys(("nemotron_asr_streaming", "nemotron3_5_asr"),
                    lambda d: {"input_features": d.normal(128, 16), "decoder_input_ids": 5 + d.below(80, 1)}),
    "pp_formulanet": lambda d: {"pixel_values": d.normal(3, 32, 32), "decoder_input_ids": 5 + d.below(80, 7)},
    **dict.fromkeys("pp_ocrv5_mobile_rec pp_ocrv6_small_rec pp_ocrv6_tiny_rec".split(), lambda d: {"pixel_values": d.normal(3, 96, 160)}),
    "qwen2_5_omni_bigvgan": lambda d: {"mel_spectrogram": d.normal(32, 12)},
    "muse_glimmer_assistant": lambda d: {"noise_embeds": d.normal(4, 32), "context_hidden_states": d.normal(9, 64)},
    "paddleocr_vl_vision": lambda d: {"pixel_values": torch.randn((1, 16 * d.batch, 3, 8, 8), generator=d.generator),
                                      "grid_thw": d.each(1, 4, 4)},
    "patchtsmixer": lambda d: {"past_values": d.normal(32, 1)},
    "patchtst": lambda d: {"past_values": d.normal(32, 1)},
    "phi4_multimodal_audio": lambda d: {"hidden_states": d.normal(64, 80), "mask": d.ones(64, dtype=torch.bool)},
    "pi0": lambda d: {"input_ids": torch.cat([torch.full((d.batch, 16), 98), 5 + d.below(80, 6)], 1),
                      "pixel_values": d.normal(1, 3, 32, 32),
                      "pixel_attention_mask": d.ones(1, dtype=torch.bool), "action_embeds": d.normal(5, 32)},
    "pix2struct": lambda d: {"flattened_patches": _places(d), "attention_mask": d.ones(9), "decoder_input_ids": 5 + d.below(80, 7)},
    "pix2struct_vision_model": lambda d: {"flattened_patches": _places(d), "attention_mask": d.ones(9)},
    "qwen3_asr_encoder": lambda d: {"input_features": d.normal(16, 200), "input_features_mask": d.ones(200)},
    "qwen2_5_omni_audio_encoder": lambda d: {"input_features": torch.randn((16, 100 * d.batch), generator=d.generator),
                                             "feature_lens": torch.tensor([100] * d.batch)},
    "qwen3_omni_moe_audio_encoder": lambda d: {"input_features": torch.randn((16, 100 * d.batch), generator=d.generator),
                                               "feature_lens": torch.tensor([100] * d.batch)},
    "qwen3_omni_moe_talker_code_predictor": lambda d: {"inputs_embeds": d.normal(12, 32)},
    "siglip2_vision_model": lambda d: {"pixel_values": d.normal(16, 192), "pixel_attention_mask": d.ones(16),
                                       "spatial_shapes": d.each(4, 4)},
    "siglip2": lambda d: {**_text(d), "pixel_values": d.normal(16, 192), "pixel_attention_mask": d.ones(16),
                          "spatial_shapes": d.each(4, 4)},
    "speech-encoder-decoder": lambda d: {"input_values": d.normal(3200), "decoder_input_ids": 5 + d.below(80, 7)},
    "speech_to_text": lambda d: {"input_features": d.normal(32, 80), "decoder_input_ids": 5 + d.below(80, 7)},
    "timesfm": lambda d: {"past_values": d.normal(64), "past_values_padding": torch.zeros(d.batch, 64, dtype=torch.long),
                          "freq": d.ones(1)},
    "udop": lambda d: {**_text(d), "decoder_input_ids": 5 + d.below(80, 7),
                       "bbox": 0.1 + 0.8 * torch.rand((d.batch, 12, 4), generator=d.generator)},
    "video_llama_3_vision": lambda d: {"pixel_values": torch.randn((16 * d.batch, 192), generator=d.generator), "grid_thw": d.each(1, 4, 4),
                                       "merge_sizes": torch.ones(d.batch, dtype=torch.long)},
    "xclip": lambda d: {**_text(d), "pixel_values": d.normal(8, 3, 32, 32)},
    "xclip_vision_model": lambda d: {"pixel_values": torch.randn((8 * d.batch, 3, 32, 32), generator=d.generator)},
    "wav2vec2-bert": lambda d: {"input_features": d.normal(24, 16)},
    "voxtral_realtime_text": lambda d: {**_text(d), "t_cond": d.normal(1, 32)},
    "voxtral_realtime": lambda d: {**_text(d), "input_features": d.normal(16, 96)},
}  # fmt: skip
