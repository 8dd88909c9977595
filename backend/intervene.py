"""From a list of interventions to what changes in every layer: checked before the run, then applied call by call.

The order is fixed, whatever the order of the list: temperatures and uniform maps, biases and hidden keys, scaled keys
and shares (these in the order given), gates last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from torch import Tensor

from backend.changed_score import changed_score
from backend.errors import Refused
from backend.interventions import Gate, HeadEdit, HideKeys, Intervention, KeyEdit, PromptEdit, Temperature, Uniform
from backend.types import LayerInfo, Segment
from kernels.api import Attended, attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec, real_rows
from kernels.tiles import spans_of


@dataclass(frozen=True, eq=False)
class Change:
    """What is changed in one layer."""

    temperature: Tensor | None  # [H], inf = uniform
    gate: Tensor | None  # [H]
    edits: tuple[tuple[KeyEdit, list[int], list[tuple[int, ...]]], ...]  # edit, its heads here, its sets of keys

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, score: ScoreSpec, request: MeasureRequest, *, impl: str
    ) -> tuple[Attended, ScoreSpec]:
        """Attention after the change, and the rule whose map that is. Arguments as in kernels/api.py."""
        if self.temperature is not None or self.edits:
            score = changed_score(query, key, value, score, self.temperature, self.edits, impl=impl)
        attended = attend(query, key, value, score, request, impl=impl)
        if self.edits:
            real = real_rows(score, query.shape[0], query.shape[2], key.shape[2], query.device)[:, None]
            empty = ((attended.lse == -torch.inf) & real).nonzero()
            if len(empty):
                raise only_key_hidden(int(empty[0, 2]))
        if self.gate is not None:
            gate = self.gate.to(attended.output)[None, :, None, None]
            attended = replace(attended, output=attended.output * gate)
        return attended, score


@dataclass(frozen=True, eq=False)
class Plan:
    """Interventions made ready for a model and a prompt. `changes`: (kind, layer) -> what is changed there."""

    changes: dict[tuple[str, int], Change] = field(default_factory=dict)

    def attend(
        self,
        info: LayerInfo,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score: ScoreSpec,
        request: MeasureRequest,
        *,
        impl: str,
    ) -> tuple[Attended, ScoreSpec]:
        """One attention call of the running model: its result, and the rule whose map it has."""
        change = self.changes.get((info.kind, info.layer))
        if change is None:
            return attend(query, key, value, score, request, impl=impl), score
        return change.attend(query, key, value, score, request, impl=impl)


def plan(interventions: Sequence[Intervention], layers: Sequence[LayerInfo], segments: Sequence[Segment] = ()) -> Plan:
    """Refused where a head, a layer or a segment does not exist. Edits of the prompt have no part in it."""
    edits = [edit for edit in interventions if not isinstance(edit, PromptEdit)]
    check_places(edits, layers)
    places: dict[str, tuple[int, ...]] = {}
    for segment in segments:
        places[segment.name] = (*places.get(segment.name, ()), *range(segment.start, segment.end))
    changes = {}
    for info in layers:
        here = [(edit, heads) for edit in edits if (heads := edit.chosen(info))]
        if here:
            changes[info.kind, info.layer] = change_of(here, info, places)
    return Plan(changes)


def change_of(here: list[tuple[HeadEdit, list[int]]], info: LayerInfo, places: dict) -> Change:
    """The edits of one layer, sorted by what they act on."""
    temperature, gate = torch.ones(info.heads), torch.ones(info.heads)
    keyed = []
    for edit, heads in here:
        if isinstance(edit, Gate):
            gate[heads] *= edit.factor
        elif isinstance(edit, Temperature):
            temperature[heads] *= edit.temperature
        elif isinstance(edit, Uniform):
            temperature[heads] = torch.inf
        else:
            keyed.append((edit, heads, edit.key_sets(places)))
    keyed.sort(key=lambda entry: entry[0].WEIGHS)  # stable: those that weigh stay in the order given
    kinds = {type(edit) for edit, _ in here}
    return Change(
        temperature=temperature if kinds & {Temperature, Uniform} else None,
        gate=gate if Gate in kinds else None,
        edits=tuple(keyed),
    )


def check_places(edits: Sequence[HeadEdit], layers: Sequence[LayerInfo]) -> None:
    """Refused for something that is no intervention, or a layer or head that the model does not have."""
    for edit in edits:
        if not isinstance(edit, HeadEdit):
            raise Refused(f"Interventions: expected those of backend/interventions, got {type(edit).__name__}.")
        heads = {info.layer: info.heads for info in layers if info.kind == edit.kind and info.attention == "softmax"}
        if not heads:
            kinds = sorted({info.kind for info in layers})
            raise Refused(f"Intervention {edit.NAME}: the model has no attention of kind {edit.kind!r}, only {kinds}.")
        for layer in [layer for layer, _ in edit.heads or ()] + list(edit.layers or ()):
            if layer not in heads:
                raise Refused(
                    f"Intervention {edit.NAME}: there is no attention layer {layer}; there are {sorted(heads)}."
                )
        for layer, head in edit.heads or ():
            if head >= heads[layer]:
                raise Refused(
                    f"Intervention {edit.NAME}: head {layer}.{head} does not exist; layer {layer} has heads 0 to "
                    f"{heads[layer] - 1}."
                )


def check_interventions(
    interventions: Sequence[Intervention],
    layers: Sequence[LayerInfo],
    *,
    causal: bool,
    n_tokens: int,
    segments: Sequence[Segment] = (),
    new_tokens: int = 0,
) -> None:
    """Refused, before anything runs, where the interventions do not fit the model or the prompt.

    `layers` and `causal` are those of the ModelCard, `n_tokens` and `segments` those of the prompt, `new_tokens` what
    may be generated behind it.
    """
    made = plan(interventions, layers, segments)
    for edit in interventions:
        if not isinstance(edit, KeyEdit):
            continue
        if edit.keys is not None and max(edit.keys) >= n_tokens:
            raise Refused(
                f"Intervention {edit.NAME}: token {max(edit.keys)} does not exist; the prompt has tokens 0 to "
                f"{n_tokens - 1}."
            )
        if edit.rows is not None and edit.rows[0] >= n_tokens + new_tokens:
            raise Refused(
                f"Intervention {edit.NAME}: row {edit.rows[0]} does not exist; there are rows 0 to "
                f"{n_tokens + new_tokens - 1}."
            )
    for info in layers:
        change = made.changes.get((info.kind, info.layer))
        if change is not None and info.kind != "cross":
            check_only_keys(change, info, causal, n_tokens)


def check_only_keys(change: Change, info: LayerInfo, causal: bool, n_tokens: int) -> None:
    """Refused where a row would see no key any more. What LayerInfo cannot tell (chunks) is noticed in the run."""
    hiding = [(edit, set(heads), sets[0]) for edit, heads, sets in change.edits if isinstance(edit, HideKeys)]
    if not hiding:
        return
    spans = spans_of(ScoreSpec(1.0, causal=causal, window=info.window_size if causal else None), 1, n_tokens, n_tokens)
    low, high = spans.low[0], spans.high[0]
    edges = {0, n_tokens}
    for edit, _, _ in hiding:
        edges |= {min(edge, n_tokens) for edge in edit.rows or () if edge is not None}
    edges = sorted(edges)
    for head in set().union(*(heads for _, heads, _ in hiding)):
        for start, stop in pairwise(edges):
            open_keys = torch.ones(n_tokens, dtype=torch.int64)
            for edit, heads, keys in hiding:
                first, last = edit.rows or (0, None)
                if head in heads and first <= start and (last is None or stop <= last):
                    open_keys[list(keys)] = 0
            before = torch.cat([torch.zeros(1, dtype=torch.int64), open_keys.cumsum(0)])
            empty = (before[high[start:stop]] == before[low[start:stop]]).nonzero()
            if len(empty):
                raise only_key_hidden(start + int(empty[0]))


def only_key_hidden(row: int) -> Refused:
    return Refused(
        f"Intervention hide_keys: row {row} would see no token at all. Hide fewer tokens, or leave that row out with "
        f"rows=({row + 1}, None)."
    )
