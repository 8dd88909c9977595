"""One change of a prompt or of its sinks, run: what became of the next token, of the loss and of the sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from backend.capture import capture
from backend.comparison import Candidate, candidates, divergence
from backend.edit_prompt import encode_edited
from backend.errors import Refused
from backend.intervene import check_interventions
from backend.interventions import EditTokens, HideKeys, Intervention, ScaleKeys, sentences
from backend.models import LoadedModel
from backend.next_token import NextToken, tapped
from backend.sinks.act import act
from backend.sinks.measured import REQUEST, MeasuredLayer, measured_layer
from backend.types import LayerCapture

EDITS = ("hide", "scale", "act", "front", "swap", "drop")


@dataclass(eq=False)
class Pass:
    """One run of the model."""

    token_ids: list[int]
    layers: list[MeasuredLayer]
    expects: NextToken

    def importance(self, key: int) -> np.ndarray:
        """Importance of one key in every head, all layers in a row; NaN where no row sees it."""
        return np.concatenate([layer.importance[0, :, key] for layer in self.layers])


@dataclass(frozen=True, eq=False)
class Effect:
    """Before and after. Losses are nats per token over the tokens that both runs read and predict."""

    changes: tuple[Intervention, ...]
    sentences: tuple[str, ...]
    kl: float  # KL(after || before) of the distributions behind the last token
    kl_mean: float | None  # the same, mean over the positions that both runs have
    total_variation: float
    loss_before: float | None
    loss_after: float | None
    compared: int  # tokens in the losses
    candidates: tuple[Candidate, ...]
    before: Pass
    after: Pass
    shift: int  # how far the tokens moved


def interventions_of(
    edit: str,
    *,
    keys: Sequence[int],
    heads: tuple[tuple[int, int], ...] | None,
    factor: float | None,  # of scale and act
    sinks: np.ndarray,
    layers: tuple[int, ...],
    front: Sequence[int],
    swap: int | None,
) -> list[Intervention]:
    """What an edit is made of. Refused where there is nothing to change. sinks, layers: as in act."""
    if edit == "hide":
        leading = next(row for row in range(len(keys) + 1) if row not in keys)  # rows before it see nothing else
        return [HideKeys(heads=heads, keys=tuple(keys), rows=(leading, None) if leading else None)]
    if edit == "scale":
        return [ScaleKeys(heads=heads, keys=tuple(keys), factor=factor)]
    if edit == "act":
        if not (made := act(sinks, layers, heads, factor)):
            raise Refused("no chosen head has a second sink; ACT leaves the first one alone")
        return made
    if edit == "front":
        if not front:
            raise Refused("no text was given to put in front")
        return [EditTokens(start=0, stop=0, token_ids=tuple(front))]
    if edit == "swap":
        if swap is None:
            raise Refused("no token was given to put in the first one's place")
        return [EditTokens(start=0, stop=1, token_ids=(swap,))]
    if edit == "drop":
        return [EditTokens(start=0, stop=1)]
    raise Refused(f"expected one of {', '.join(EDITS)}, got {edit!r}")


def effect(
    model: LoadedModel,
    token_ids: list[int],
    changes: Sequence[Intervention],
    *,
    before: Pass | None = None,
    top: int = 10,
    stop_if_cancelled: Callable[[], None] = lambda: None,
) -> Effect:
    """Runs the prompt without and with the changes. Refused before anything runs where they do not fit."""
    if not model.predicts_next:
        raise Refused(f"{model.name} does not predict the next token, so there is no before and after to compare.")
    edited = encode_edited(model, token_ids, changes)
    n_tokens = len(edited.token_ids)
    check_interventions(changes, model.describe().layers, causal=model.causal, n_tokens=n_tokens)
    before = before or run(model, token_ids, (), stop_if_cancelled)
    after = run(model, edited.token_ids, changes, stop_if_cancelled)
    shift = len(edited.token_ids) - len(token_ids)
    own = {edit.start: edit for edit in changes if isinstance(edit, EditTokens)}
    first = max((edit.stop for edit in own.values()), default=0)  # from here on the tokens are the same
    loss_before, loss_after, compared = shared_losses(before, after, shift, first)
    with torch.inference_mode():
        old, new = (one.expects.last_logits.double().softmax(-1) for one in (before, after))
        return Effect(
            changes=tuple(changes),
            sentences=tuple(sentences(changes)),
            kl=float(divergence(after.expects.last_logits, before.expects.last_logits)),
            kl_mean=mean_divergence(before, after, shift, first),
            total_variation=float((new - old).abs().sum() / 2),
            loss_before=loss_before,
            loss_after=loss_after,
            compared=compared,
            candidates=candidates(model, old, new, top),
            before=before,
            after=after,
            shift=shift,
        )


def run(
    model: LoadedModel,
    token_ids: Sequence[int],
    changes: Sequence[Intervention],
    stop_if_cancelled: Callable[[], None] = lambda: None,
) -> Pass:
    """One forward pass."""
    layers: list[MeasuredLayer] = []
    baselines: dict[tuple, np.ndarray] = {}

    def on_layer(layer: LayerCapture) -> None:
        stop_if_cancelled()
        layers.append(measured_layer(layer, baselines))

    ids = torch.tensor([list(token_ids)], device=model.device)
    with torch.inference_mode(), tapped(model.model) as tap:
        with capture(model, REQUEST, on_layer=on_layer, interventions=changes):
            logits = model.model(input_ids=ids, use_cache=False).logits
        return Pass(list(token_ids), layers, NextToken.read(tap, logits[0, -1], model.model.config))


def shared_losses(before: Pass, after: Pass, shift: int, first: int) -> tuple[float | None, float | None, int]:
    """Mean -ln p of the tokens from `first` on that both runs predict, and their number."""
    with torch.inference_mode():
        old = before.expects.logprobs(before.token_ids)
        new = after.expects.logprobs(after.token_ids)
    if old is None or new is None:
        return None, None, 0
    places = range(max(first, 1, 1 - shift), len(before.token_ids))
    pairs = [(old[place], new[place + shift]) for place in places]
    if not pairs:
        return None, None, 0
    return -sum(a for a, _ in pairs) / len(pairs), -sum(b for _, b in pairs) / len(pairs), len(pairs)


def mean_divergence(before: Pass, after: Pass, shift: int, first: int) -> float | None:
    """Mean KL over the positions from `first` on; None where there is none, or where logits are not known."""
    if before.expects.finish is None or after.expects.finish is None:
        return None
    start = max(first, -shift)
    count = len(before.token_ids)
    if start >= count:
        return None
    pairs = zip(before.expects.logits(start, count), after.expects.logits(start + shift, count + shift), strict=True)
    return float(sum(divergence(new, old).sum() for (_, old), (_, new) in pairs)) / (count - start)
