"""What the loop that writes text starts from: a prompt's tokens, or what an encoder-decoder's target begins with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.models import LoadedModel


def given_to(
    model: LoadedModel, token_ids: Sequence[int], inputs: dict[str, Tensor] | None
) -> tuple[dict[str, Tensor], int]:
    """What the loop starts from, and how many tokens it finds there.

    inputs: in place of token ids, or beside them in a model that reads text with pictures.
    """
    if inputs is None or model.sees:
        ids = torch.tensor([list(token_ids)], device=model.device)
        start = 1 if model.two_sided else len(token_ids)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **(inputs or {})}, start
    first = list(getattr(model.tokenizer, "prefix_tokens", None) or [model.start_of_target()])
    return {**inputs, "decoder_input_ids": torch.tensor([first], device=model.device)}, len(first)


def target_settings(model: LoadedModel) -> dict:
    """What an encoder-decoder's targets begin with, and the tokens that are never part of them."""
    own, kept = (
        model.model.generation_config,
        ("forced_bos_token_id", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens"),
    )
    return {"decoder_start_token_id": model.start_of_target()} | {
        name: value for name in kept if (value := getattr(own, name, None)) is not None
    }
