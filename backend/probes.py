"""What a model is probed with: a few ordinary tokens, a picture or a sound of noise, in the shapes it reads."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor, nn

from backend.errors import Refused

PROBE_TOKENS = 6
TEXT, PICTURE, SOUND = "text", "picture", "sound"
INPUTS = {"input_ids": TEXT, "pixel_values": PICTURE, "input_features": SOUND}


def reads(model: nn.Module) -> str:
    """What the model's own input is: "text", "picture" or "sound". Refused for anything else."""
    name = getattr(model, "main_input_name", "input_ids")
    if name not in INPUTS:
        raise Refused(f"{type(model).__name__} reads {name}, which cannot be given here: not text, picture or sound.")
    return INPUTS[name]


def sees(model: nn.Module) -> bool:
    """Whether the model reads text and a picture may come with it."""
    modalities = getattr(model, "input_modalities", ())
    return not isinstance(modalities, str) and {"image", "text"} <= set(modalities) and reads(model) == TEXT


def reads_prefix(model: nn.Module) -> bool:
    """Whether it reads a picture and its text as one prefix that sees itself whole (PaliGemma); type 1 is behind it."""
    return sees(model) and bool(getattr(model.config.get_text_config(), "use_bidirectional_attention", False))


def probe_inputs(model: nn.Module, length: int = PROBE_TOKENS) -> dict[str, Tensor]:
    """Ordinary input for the model's forward. `length`: number of tokens; pictures and sounds have their own."""
    what = reads(model)
    if what == PICTURE:
        return {"pixel_values": noise(model, picture_shape(model))}
    if what == SOUND:
        config = model.config
        inputs = {"input_features": noise(model, (config.num_mel_bins, 2 * config.max_source_positions))}
        return {**inputs, "decoder_input_ids": tokens(model, length), **without_cache(model)}
    ids = tokens(model, length)
    inputs = {"input_ids": ids}
    if is_encoder_decoder(model):
        inputs["decoder_input_ids"] = ids[:, : max(2, length - 2)]  # another length, so that mistakes would show
    if reads_prefix(model):  # without types its own ways to attend differ
        inputs["token_type_ids"] = torch.ones_like(ids)
    return {**inputs, **without_cache(model)}


def tokens(model: nn.Module, length: int) -> Tensor:
    """Ids spread over the vocabulary, int64 [1, length]: its first ones are rare, and models behave oddly on them."""
    config = model.config.get_text_config()
    special: set[int | None] = set(places_of_media(model))
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        for owner in (config, model.config):
            found = getattr(owner, name, None)
            special |= set(found) if isinstance(found, list | tuple) else {found}
    spread = (config.vocab_size * step // (length + 8) for step in range(1, length + 8))
    return torch.tensor([[i for i in spread if i not in special][:length]], device=input_device(model))


def places_of_media(model: nn.Module) -> list[int]:
    """Ids of the tokens whose places pictures, videos and sounds take: no text holds them, none is written."""
    names = ("image_token_id", "image_token_index", "video_token_id", "audio_token_id")
    found = (getattr(model.config, name, None) for name in names)
    return sorted({one for one in found if isinstance(one, int)})


def noise(model: nn.Module, shape: tuple[int, ...]) -> Tensor:
    """The same noise each time, float [1, *shape], in the model's type."""
    values = torch.randn(1, *shape, generator=torch.Generator().manual_seed(0))
    return values.to(input_device(model), model.dtype)


def picture_shape(model: nn.Module) -> tuple[int, int, int]:
    """Channels, height and width of the pictures that the model reads."""
    size = model.config.image_size
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return getattr(model.config, "num_channels", 3), height, width


def is_encoder_decoder(model: nn.Module) -> bool:
    """Whether the model reads one sequence and writes another."""
    return bool(getattr(model.config, "is_encoder_decoder", False))


def without_cache(model: nn.Module) -> dict[str, bool]:
    """The argument that keeps a model from filling a cache, where it takes one."""
    return {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}


def first_weight(model: nn.Module) -> Tensor:
    """The weight that the inputs meet first."""
    weight = getattr(model.get_input_embeddings(), "weight", None)
    return next(model.parameters()) if weight is None else weight


def input_device(model: nn.Module) -> torch.device:
    """Where a model's inputs go; the embedding of a spread model may lie elsewhere until it is needed."""
    hook = getattr(model.get_input_embeddings(), "_hf_hook", None)
    place = getattr(hook, "execution_device", None)
    return first_weight(model).device if place is None else torch.device(place)
