"""Forward passes of the studies: what was read once is not read again where that changes nothing.

    with session(model, on_layer=keep):
        first = step(model, prompt_ids)
        second = step(model, more_ids, first.cache)        # goes on behind the prompt

A key-value cache may be reused only where a token's keys depend on nothing behind it: see `why_not_reusable`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backend.capture import capture
from backend.interventions import Intervention
from backend.models import LoadedModel
from backend.next_token import NextToken, tapped
from backend.prompts import EncodedPrompt, tokenise
from backend.sites import survey
from backend.types import LayerCapture, Segment
from kernels.measures import NOTHING, MeasureRequest

FIXED_ROPES = ("default", "linear", "llama3", "yarn", None)  # the others change angles with the length of the text


def why_not_reusable(model: LoadedModel) -> str | None:
    """Why a prefix must be read anew in every pass, as half a sentence; None where its keys can be kept exactly."""
    layers = survey(model.model).layers
    if not model.predicts_next:
        return "its rows see later tokens"
    if any(layer.attention != "softmax" for layer in layers):
        return "some of its layers are no softmax attention"
    if any(layer.window_size is not None for layer in layers):
        return "some of its layers forget keys that left their window"
    ropes = getattr(model.config, "rope_parameters", None) or {}
    nested = [value for value in ropes.values() if isinstance(value, dict)] or [ropes]
    if any(one.get("rope_type") not in FIXED_ROPES for one in nested):
        return "its rotary angles depend on the length of the text"
    return None


@contextmanager
def session(
    model: LoadedModel,
    *,
    request: MeasureRequest = NOTHING,
    on_layer: Callable[[LayerCapture], None] | None = None,
    interventions: Sequence[Intervention] = (),
    segments: Sequence[Segment] = (),
) -> Iterator[None]:
    """Inside, `step` runs the model, captured and changed as asked."""
    hand_over = on_layer or (lambda layer: None)
    watched = capture(model, request, on_layer=hand_over, interventions=interventions, segments=segments)
    with torch.inference_mode(), watched:
        yield


@dataclass(frozen=True, eq=False)
class Step:
    """One forward pass."""

    logits: Tensor  # [V] behind its last token
    expects: NextToken | None  # behind its other tokens; None for a model without an output projection
    cache: Any  # keys and values of everything read so far; None where it was not kept


def step(model: LoadedModel, token_ids: Sequence[int], cache: Any = None, *, keep: bool = True) -> Step:
    """Reads the tokens behind what the cache holds. The cache is the model's own and grows in place."""
    ids = torch.tensor([list(token_ids)], device=model.device)
    kept = {"use_cache": keep or cache is not None, "cache": cache} if model.predicts_next else {}
    with tapped(model.model) as tap:
        found = model.model(input_ids=ids, **kept)
        logits = found.logits[0, -1] if model.predicts_next else torch.empty(0)
        expects = NextToken.read(tap, logits, model.model.config) if model.predicts_next else None
    return Step(logits, expects, found.cache if keep and model.predicts_next else None)


def opened(cache: Any) -> Any:
    """A cache with the same keys and values that grows without changing this one: growing makes new tensors."""
    new = copy.copy(cache)
    new.layers = [copy.copy(layer) for layer in cache.layers]
    return new


@dataclass(frozen=True, eq=False)
class Prefix:
    """Tokens that were read, with their keys and values."""

    token_ids: tuple[int, ...]
    cache: Any

    def shared(self, token_ids: Sequence[int], most: int) -> int:
        """How many of the first `most` tokens are the same."""
        same = 0
        for own, other in zip(self.token_ids, token_ids[:most], strict=False):
            if own != other:
                break
            same += 1
        return same

    def first(self, count: int) -> Any:
        """A cache of the first `count` tokens, free to grow; None for none."""
        if count == 0:
            return None
        cache = opened(self.cache)
        if count < len(self.token_ids):
            cache.crop(count - len(self.token_ids))  # a negative number: so many are taken off the end
        return cache


def answer_logprobs(model: LoadedModel, before: Step, answer_ids: Sequence[int]) -> list[float] | None:
    """ln probability of each token of an answer behind what was read; None where it cannot be had.

    Grows the cache of `before`.
    """
    first = float(torch.log_softmax(before.logits.float(), -1)[answer_ids[0]])
    if len(answer_ids) == 1:
        return [first]
    found = step(model, answer_ids, before.cache).expects.logprobs(list(answer_ids))
    return None if found is None else [first, *found[1:]]


def without(before: Step, n_tokens: int) -> Step:
    """The step again, for which its cache has grown since: what lies behind its first n_tokens is taken off."""
    before.cache.crop(n_tokens - before.cache.get_seq_length())
    return before


def write(model: LoadedModel, before: Step, most: int, ends: Sequence[int], stop: Callable[[], None]) -> list[int]:
    """The most probable tokens one after the other, at most `most`, without the one that ends the text."""
    written: list[int] = []
    while len(written) < most:
        stop()
        chosen = int(before.logits.argmax())
        if chosen in ends:
            break
        written.append(chosen)
        if len(written) < most:
            before = step(model, [chosen], before.cache)
    return written


def answer_ids(model: LoadedModel, encoded: EncodedPrompt, answer: str) -> list[int]:
    """The tokens of an answer behind the prompt, a space before it: those that the two together have more."""
    joined = tokenise(model.tokenizer, f"{encoded.text} {answer.strip()}", add_special=True, parse_special=False)
    ids, start = joined["input_ids"], len(encoded.token_ids)
    if ids[:start] == encoded.token_ids and len(ids) > start:
        return ids[start:]
    return tokenise(model.tokenizer, f" {answer.strip()}", add_special=False, parse_special=False)["input_ids"]
