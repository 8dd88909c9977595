"""The records that travel between the rooms of the backend. No behaviour beyond their own consistency."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from kernels.score import ScoreSpec


@dataclass(frozen=True)
class LayerInfo:
    """One attention site of a model, as it is known before anything runs."""

    kind: str  # "self"; "encoder", "decoder", "cross" for encoder-decoders
    layer: int  # the model's own number
    module: str  # qualified name of the attention module
    attention: str  # "softmax", or the name of what the layer does instead
    heads: int
    key_heads: int
    head_dim: int
    value_dim: int
    window_size: int | None = None  # keys seen, itself included; None = all


@dataclass(frozen=True, eq=False)
class LayerCapture:
    """What one attention call of the running model handed over. Tensors stay on the model's device."""

    info: LayerInfo
    query: Tensor  # [B, H, Nq, D], after rotary embedding and norms, as the kernel sees it
    key: Tensor  # [B, Hk, Nk, D]
    value: Tensor  # [B, Hk, Nk, Dv]
    score: ScoreSpec
    lse: Tensor  # [B, H, Nq] float32
    measures: dict[str, Tensor]  # kernels/measures.py
    implementation: str  # "tiled", "triton", "reference"
    hidden_norm: Tensor | None = None  # [B, Nq] norm of the residual stream that enters the layer
    hidden_max: Tensor | None = None  # [B, Nq] its largest magnitude
    output_norm: Tensor | None = (
        None  # [B, H, Nk] norm of W_O v; None where keys are not measured or W_O is no plain matrix
    )
    dense: Tensor | None = None  # [B, H, Nq, Nk] of families with their own softmax; query, key and value then stand in
    dense_value: Tensor | None = None  # [B, H, Nk, Dv] what these were multiplied with, where that was seen


@dataclass(frozen=True)
class Segment:
    """A named run of tokens: tokens[start:end]."""

    name: str  # "document 3"
    kind: str  # system, user, assistant, instruction, document, example, question, sentence, generated, text
    start: int
    end: int


@dataclass(frozen=True)
class Token:
    """One position of the sequence the model read."""

    position: int
    token_id: int
    text: str  # what was typed: joined over all tokens it gives the prompt; '' for all but the last part of a character
    label: str  # for display: never blank, never U+FFFD
    raw: str  # the vocabulary's piece
    bytes: bytes
    start: int  # span in the text, in characters; -1 where the token stands for no text
    end: int
    is_special: bool
    segment: int  # index into the segments, -1 = none
    word: int  # index of the word, -1 = none
    side: str = "self"  # "self", or "source" and "target" for encoder-decoders
    logprob: float | None = None  # ln probability of this token given those before it


@dataclass(frozen=True)
class Prediction:
    """One candidate for the token after `position`."""

    position: int
    rank: int
    token_id: int
    text: str
    logprob: float


@dataclass(frozen=True, eq=False)
class LayerRecord:
    """One layer of one run, ready to be stored. All tensors on the CPU, the batch axis is gone."""

    info: LayerInfo
    score: ScoreSpec  # its tensors still have their batch axis, of length 1
    query: Tensor  # [H, Nq, D] in the captured dtype
    key: Tensor  # [Hk, Nk, D]
    lse: Tensor  # [H, Nq] float32
    measures: dict[str, Tensor]  # without the batch axis
    statistics: dict[str, np.ndarray]  # name -> [H], NaN where undefined
    key_norm: Tensor | None  # [H, Nk] (key heads repeated for the query heads that read them); None of dense ones
    value_norm: Tensor | None  # [H, Nk]
    output_norm: Tensor | None  # [H, Nk]
    hidden_norm: Tensor | None  # [Nq]
    hidden_max: Tensor | None  # [Nq]
    exact: tuple[int, ...]  # heads whose queries and keys are kept
    dense: Tensor | None = None  # [H, Nq, Nk] for families with their own softmax; query and key are then empty


@dataclass(frozen=True, eq=False)
class RunRecord:
    """What a run knows besides its layers."""

    tokens: list[Token]
    segments: list[Segment]
    predictions: list[Prediction]
    info: dict = field(default_factory=dict)  # ARCHITECTURE's `info`, without what the store itself adds
