"""Tiny models that read a text with a picture, with their processors, built from configs with a seed."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    CLIPImageProcessorPil,
    Gemma3ImageProcessorPil,
    Gemma3Processor,
    LlavaProcessor,
    PaliGemmaProcessor,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    ProcessorMixin,
    Qwen2VLImageProcessorPil,
    Qwen2VLProcessor,
    SiglipImageProcessorPil,
)

from backend.models.processors import pictures_only
from tests.backend import tiny, tiny_tokenizers
from tests.backend.tiny_media import TOWER

SIZE = {"height": 32, "width": 32}
WORDS = {**tiny.DECODER, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}
TYPES = ("llava", "paligemma", "gemma3", "qwen2_vl")
MARKS = {
    "llava": {"image_token": "<image>"},
    "paligemma": {"image_token": "<image>"},
    "gemma3": {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"},
    "qwen2_vl": {
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_start": "<|vision_start|>",
        "vision_end": "<|vision_end|>",
    },
}
CHAT = (
    "{% for m in messages %}[{{ m.role }}]{% for part in m.content %}{% if part.type == 'image' %}<image>{% else %}"
    "{{ part.text }}{% endif %}{% endfor %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tokenizer(model_type: str) -> PreTrainedTokenizerFast:
    plain = tiny_tokenizers.byte_level(add_bos=model_type in ("llava", "gemma3"))
    backend = plain.backend_tokenizer
    backend.add_special_tokens(list(MARKS[model_type].values()))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, extra_special_tokens=MARKS[model_type], **tiny_tokenizers.SPECIAL
    )


def processor(model_type: str) -> ProcessorMixin:
    words = tokenizer(model_type)
    if model_type == "llava":
        pictures = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=SIZE)
        own = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
        return LlavaProcessor(pictures, words, chat_template=CHAT, **own)
    if model_type == "paligemma":
        return PaliGemmaProcessor(SiglipImageProcessorPil(size=SIZE, image_seq_length=16), words)
    if model_type == "gemma3":
        return Gemma3Processor(Gemma3ImageProcessorPil(size=SIZE), words, image_seq_length=4)
    limits = {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}
    pictures = Qwen2VLImageProcessorPil(patch_size=8, merge_size=2, size=limits)
    return pictures_only(Qwen2VLProcessor)(pictures, words, None)


def config(model_type: str, words: PreTrainedTokenizerFast):
    ids = {name: words.convert_tokens_to_ids(mark) for name, mark in MARKS[model_type].items()}
    text = {**WORDS, "vocab_size": len(words)}
    if model_type == "llava":
        vision = AutoConfig.for_model("clip_vision_model", **TOWER)
        own = {"image_token_index": ids["image_token"], "image_token_id": ids["image_token"]}
        return AutoConfig.for_model(
            "llava", vision_config=vision, text_config=AutoConfig.for_model("llama", **text), **own
        )
    if model_type == "paligemma":
        vision = AutoConfig.for_model("siglip_vision_model", **TOWER)
        own = {"image_token_id": ids["image_token"], "projection_dim": 32, "hidden_size": 32}
        return AutoConfig.for_model(
            "paligemma", vision_config=vision, text_config=AutoConfig.for_model("gemma", **text), **own
        )
    if model_type == "gemma3":
        vision = AutoConfig.for_model("siglip_vision_model", **TOWER)
        more = {"sliding_window": 6, "num_hidden_layers": 7, "query_pre_attn_scalar": 8}
        own = {"mm_tokens_per_image": 4, "image_token_index": ids["image_token"], "image_token_id": ids["image_token"]}
        own |= {"boi_token_index": ids["boi_token"], "eoi_token_index": ids["eoi_token"]}
        return AutoConfig.for_model(
            "gemma3", vision_config=vision, text_config=AutoConfig.for_model("gemma3_text", **{**text, **more}), **own
        )
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
    vision = {"depth": 2, "embed_dim": 32, "num_heads": 4, "hidden_size": 32, "patch_size": 8, "mlp_ratio": 2}
    own = {"image_token_id": ids["image_token"], "video_token_id": ids["video_token"]}
    own |= {"vision_start_token_id": ids["vision_start"], "vision_end_token_id": ids["vision_end"]}
    return AutoConfig.for_model("qwen2_vl", vision_config=vision, text_config={**text, "rope_parameters": rope}, **own)


def build(model_type: str, seed: int = 0) -> tuple[PreTrainedModel, ProcessorMixin]:
    """The model, evaluating, in float32, and its processor."""
    made = processor(model_type)
    torch.manual_seed(seed)
    model = AutoModelForImageTextToText.from_config(config(model_type, made.tokenizer), dtype=torch.float32)
    return model.eval(), made


def save(model_type: str, folder: Path) -> tuple[PreTrainedModel, ProcessorMixin]:
    """The same in a folder, as it would be downloaded."""
    model, made = build(model_type)
    model.save_pretrained(folder)
    if model_type == "qwen2_vl":  # the whole processor cannot be saved where that of videos is missing
        made.image_processor.save_pretrained(folder)
        made.tokenizer.save_pretrained(folder)
    else:
        made.save_pretrained(folder)
    return model, made
