"""Tiny models of pictures and sound, built from configs with a seed."""

from __future__ import annotations

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForImageTextToText,
    AutoModelForSpeechSeq2Seq,
    CLIPVisionConfig,
    PreTrainedModel,
)

from tests.backend import tiny

TOWER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
    "initializer_range": 0.5,
}
WORDS = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 300,
    "max_position_embeddings": 32,
    "initializer_range": 0.5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
PICTURES = {"vit": TOWER, "dinov2": {**TOWER, "mlp_ratio": 2}, "clip_vision_model": TOWER, "siglip_vision_model": TOWER}
WHISPER = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_mel_bins": 8,
    "max_source_positions": 30,
    "max_target_positions": 32,
    "vocab_size": 300,
    "init_std": 0.5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def picture_model(model_type: str, seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    return AutoModel.from_config(AutoConfig.for_model(model_type, **PICTURES[model_type])).eval()


def two_towers(model_type: str, seed: int = 0) -> PreTrainedModel:
    """CLIP or SigLIP: a picture tower and a text tower."""
    torch.manual_seed(seed)
    config = AutoConfig.for_model(model_type, text_config=WORDS, vision_config=TOWER)
    return AutoModel.from_config(config).eval()


def whisper(seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    config = AutoConfig.for_model("whisper", **WHISPER)
    return AutoModelForSpeechSeq2Seq.from_config(config).eval()


def llava(seed: int = 0) -> PreTrainedModel:
    """Four patches of a picture of 28 x 28 in front of the words."""
    torch.manual_seed(seed)
    vision = CLIPVisionConfig(**{**TOWER, "image_size": 28, "patch_size": 14, "num_hidden_layers": 2})
    words = AutoConfig.for_model("llama", **{**tiny.DECODER, "num_attention_heads": 4, "hidden_size": 32})
    config = AutoConfig.for_model(
        "llava", vision_config=vision, text_config=words, image_token_index=99, image_token_id=99
    )
    return AutoModelForImageTextToText.from_config(config).eval()


def pali_gemma(seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    size = {"num_attention_heads": 4, "num_key_value_heads": 1, "hidden_size": 32}
    words = AutoConfig.for_model("gemma", **{**tiny.DECODER, **size})
    vision = AutoConfig.for_model("siglip_vision_model", **{**TOWER, "image_size": 28, "patch_size": 14})
    config = AutoConfig.for_model(
        "paligemma", vision_config=vision, text_config=words, image_token_id=99, projection_dim=32, hidden_size=32
    )
    return AutoModelForImageTextToText.from_config(config).eval()


def gemma_3(seed: int = 0) -> PreTrainedModel:
    """Four tokens of a picture, in layers without and with a window that is longer than the prompt."""
    torch.manual_seed(seed)
    size = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32, "query_pre_attn_scalar": 8}
    words = AutoConfig.for_model("gemma3_text", **{**tiny.DECODER, **size, "sliding_window": 16})
    vision = AutoConfig.for_model("siglip_vision_model", **{**TOWER, "image_size": 28, "patch_size": 14})
    marks = {"image_token_index": 99, "image_token_id": 99, "boi_token_index": 98, "eoi_token_index": 97}
    config = AutoConfig.for_model("gemma3", vision_config=vision, text_config=words, mm_tokens_per_image=4, **marks)
    return AutoModelForImageTextToText.from_config(config).eval()
