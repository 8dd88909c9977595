"""Before and after: what an intervention changed, measured by running the prompt twice.

Next-token distributions are compared by their divergence and their most probable tokens, the prompt by its loss, maps
by the weight that moved from one token to another. An edit of the prompt changes the tokens themselves: rows and
columns then mean something else, so that only the last position and the losses are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backend.capture import Captured, capture
from backend.edit_prompt import encode_edited
from backend.errors import Cancelled, Refused
from backend.intervene import check_interventions
from backend.interventions import Intervention, KeyEdit, sentences
from backend.models import LoadedModel
from backend.next_token import NextToken, tapped
from backend.prompts import EncodedPrompt, Prompt
from backend.types import LayerCapture, Segment
from kernels.measures import NOTHING
from kernels.window import visible, weights

ROWS = 128  # rows of two maps that are compared at once


@dataclass(frozen=True)
class Candidate:
    """A next token with its probability before and after."""

    token_id: int
    text: str
    before: float
    after: float


@dataclass(frozen=True)
class HeadChange:
    """What became of the map of one head.

    moved: mean over rows of half the sum of |after - before|, the share of a row that went elsewhere (0 to 1), learned
    sink included; over the rows that saw two keys or more. mass_before, mass_after: mean share of the rows on the
    target keys, over the rows that saw one of them before; None without target or where no row did.
    """

    kind: str
    layer: int
    head: int
    moved: float | None  # None where no row saw two keys
    mass_before: float | None
    mass_after: float | None


@dataclass(frozen=True)
class Comparison:
    """The record of one intervention on one prompt. All logarithms are natural; losses are nats per token."""

    sentences: tuple[str, ...]
    kl: float  # KL(after || before) of the distributions behind the last token
    kl_mean: float | None  # the same, mean over all positions; None where the tokens differ or cannot be had
    total_variation: float  # half the sum of |after - before| behind the last token
    candidates: tuple[Candidate, ...]  # the union of the most probable tokens before and after, best before first
    loss_before: float | None  # mean -ln p of the prompt's tokens; None for one token or where logits are not known
    loss_after: float | None
    target: tuple[int, ...]  # the positions whose mass is followed
    heads: tuple[HeadChange, ...]  # empty where the tokens differ

    @property
    def changed_first(self) -> bool:
        """Whether another token is the most probable one now."""
        before = max(self.candidates, key=lambda candidate: candidate.before)
        return before.token_id != max(self.candidates, key=lambda candidate: candidate.after).token_id


@dataclass(eq=False)
class Pass:
    """One run of the prompt."""

    encoded: EncodedPrompt
    layers: Captured
    expects: NextToken


def compare(
    model: LoadedModel,
    prompt: str | Prompt | list[int],
    interventions: Sequence[Intervention],
    *,
    target: Sequence[int] | None = None,
    top: int = 10,
    impl: str = "auto",
    cancelled: Callable[[], bool] | None = None,
) -> Comparison:
    """Run the prompt without and with the interventions.

    target: positions whose mass is followed; None = the keys that the interventions name. Two forward passes, and the
    queries and keys of both in memory. Raises Refused before anything runs, Cancelled between layers.
    """
    if not model.predicts_next:
        raise Refused(f"{model.name} does not predict the next token, so there is no before and after to compare.")
    before_prompt = encode_edited(model, prompt, ())
    after_prompt = encode_edited(model, prompt, interventions)
    check_interventions(
        interventions,
        model.describe().layers,
        causal=model.causal,
        n_tokens=len(after_prompt.token_ids),
        segments=after_prompt.segments,
    )
    followed = followed_keys(interventions, after_prompt.segments) if target is None else tuple(target)
    if any(not 0 <= key < len(after_prompt.token_ids) for key in followed):
        raise Refused(f"target: the prompt has tokens 0 to {len(after_prompt.token_ids) - 1}, got {max(followed)}.")
    asked = cancelled or (lambda: False)
    before = run(model, before_prompt, (), impl, asked)
    after = run(model, after_prompt, interventions, impl, asked)
    same = before_prompt.token_ids == after_prompt.token_ids
    with torch.inference_mode():
        return Comparison(
            sentences=tuple(sentences(interventions)),
            kl=float(divergence(after.expects.last_logits, before.expects.last_logits)),
            kl_mean=mean_divergence(before.expects, after.expects) if same else None,
            total_variation=float(probabilities(after).sub(probabilities(before)).abs().sum() / 2),
            candidates=candidates(model, probabilities(before), probabilities(after), top),
            loss_before=loss(before),
            loss_after=loss(after),
            target=followed,
            heads=tuple(head_changes(before.layers, after.layers, followed, asked)) if same else (),
        )


def followed_keys(interventions: Sequence[Intervention], segments: Sequence[Segment]) -> tuple[int, ...]:
    """All positions that some intervention names, ascending."""
    places: dict[str, tuple[int, ...]] = {}
    for segment in segments:
        places[segment.name] = (*places.get(segment.name, ()), *range(segment.start, segment.end))
    keyed = [edit for edit in interventions if isinstance(edit, KeyEdit)]
    return tuple(sorted({key for edit in keyed for keys in edit.key_sets(places) for key in keys}))


def run(
    model: LoadedModel,
    encoded: EncodedPrompt,
    interventions: Sequence[Intervention],
    impl: str,
    cancelled: Callable[[], bool],
) -> Pass:
    """One forward pass that keeps the queries and keys of every layer."""
    layers = Captured()

    def keep(layer: LayerCapture) -> None:
        stop_if(cancelled)
        layers.append(layer)

    ids = torch.tensor([encoded.token_ids], device=model.device)
    changed = capture(model, NOTHING, impl=impl, on_layer=keep, interventions=interventions, segments=encoded.segments)
    with torch.inference_mode(), tapped(model.model) as tap, changed:
        logits = model.model(input_ids=ids, use_cache=False).logits
        expects = NextToken.read(tap, logits[0, -1], model.model.config)
    return Pass(encoded, layers, expects)


def stop_if(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled("The comparison was stopped; nothing was stored.")


def probabilities(done: Pass) -> Tensor:
    """Of the token behind the last one, [V] float64."""
    return done.expects.last_logits.double().softmax(-1)


def divergence(after: Tensor, before: Tensor) -> Tensor:
    """KL(after || before) of logits [..., V], in nats."""
    after, before = after.double().log_softmax(-1), before.double().log_softmax(-1)
    return torch.where(after.exp() > 0, after.exp() * (after - before), 0.0).sum(-1)


def mean_divergence(before: NextToken, after: NextToken) -> float | None:
    """Mean over all positions; None where the logits of the earlier ones are not known."""
    if before.finish is None or after.finish is None:
        return None
    count = len(before.hidden)
    pairs = zip(before.logits(0, count), after.logits(0, count), strict=True)
    return float(sum(divergence(new, old).sum() for (_, old), (_, new) in pairs)) / count


def candidates(model: LoadedModel, before: Tensor, after: Tensor, top: int) -> tuple[Candidate, ...]:
    """The `top` most probable tokens of each side, [V] both, most probable before first."""
    count = min(top, len(before))
    chosen = set(before.topk(count).indices.tolist()) | set(after.topk(count).indices.tolist())
    ordered = sorted(chosen, key=lambda token_id: (-float(before[token_id]), token_id))
    return tuple(
        Candidate(
            token_id,
            str(token_id) if model.tokenizer is None else model.tokenizer.decode([token_id]),
            float(before[token_id]),
            float(after[token_id]),
        )
        for token_id in ordered
    )


def loss(done: Pass) -> float | None:
    """Mean -ln p of the tokens of the prompt given those before them."""
    logprobs = done.expects.logprobs(done.encoded.token_ids)
    known = [] if logprobs is None else logprobs[1:]
    return -sum(known) / len(known) if known else None


def head_changes(
    before: Captured, after: Captured, target: tuple[int, ...], cancelled: Callable[[], bool]
) -> Iterator[HeadChange]:
    """One record per head, layer by layer."""
    for old, new in zip(before, after, strict=True):
        stop_if(cancelled)
        moved, masses = layer_change(old, new, target)
        for head in range(old.info.heads):
            mass_before, mass_after = masses[:, head].tolist() if target else (None, None)
            yield HeadChange(
                old.info.kind, old.info.layer, head, defined(moved[head]), defined(mass_before), defined(mass_after)
            )


def layer_change(old: LayerCapture, new: LayerCapture, target: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """moved [H] and masses [2, H] (before, after), as in HeadChange; NaN where no row counts. Strip by strip."""
    heads, n_query, n_key = old.query.shape[1], old.query.shape[2], old.key.shape[2]
    every = slice(0, n_key)
    moved = torch.zeros(2, heads, dtype=torch.float64)  # sum and number of rows
    masses = torch.zeros(3, heads, dtype=torch.float64)  # sums before and after, number of rows
    for start in range(0, n_query, ROWS):
        rows = slice(start, min(start + ROWS, n_query))
        first = weights(old.query, old.key, old.score, old.lse, rows, every)[0].double()
        second = weights(new.query, new.key, new.score, new.lse, rows, every)[0].double()
        seen = visible(old.score, n_query, n_key, rows, every)[0].expand(heads, -1, -1)
        apart = (second - first).abs().sum(-1)
        if old.score.sink is not None:
            apart = apart + (second.sum(-1) - first.sum(-1)).abs()  # what the learned sink gained or lost
        counts = seen.sum(-1) >= 2
        moved += torch.stack([(apart / 2 * counts).sum(-1), counts.sum(-1)]).cpu()
        if target:
            keys = list(target)
            hit = seen[..., keys].any(-1)
            sums = [(part[..., keys].sum(-1) * hit).sum(-1) for part in (first, second)]
            masses += torch.stack([*sums, hit.sum(-1)]).cpu()
    return moved[0] / moved[1], masses[:2] / masses[2]


def defined(value: Tensor | float | None) -> float | None:
    """A number, or None for NaN."""
    return None if value is None or value != value else float(value)
