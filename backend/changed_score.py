"""The rule of a layer after an intervention: one ScoreSpec that every implementation reads.

A key that is changed alike in every row is a bias per key. Everything else is a bias per row on sets of keys: the
sets of all interventions are cut into pieces that share no key, and where a change depends on how much a row gives to
them, a first pass measures that. What follows is arithmetic on N x pieces; nothing is N x N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from backend.errors import Refused
from backend.interventions import KeyEdit
from kernels.api import Attended, attend
from kernels.measures import NOTHING
from kernels.score import ScoreSpec, query_positions

Edits = Sequence[tuple[KeyEdit, list[int], list[tuple[int, ...]]]]  # edit, its heads, its sets of keys

# A temperature divides the biases too, so they are multiplied by it first; infinity cannot be. This one leaves scores
# of 1e6 a weight that differs from uniform by 1e-24, and a bias of 100 times it is a float32 still.
NEARLY_INFINITE = 1e30

# Weights below this are none: float32 loses them a little further down, and every implementation shall do the same.
SMALLEST_MASS = 1e-30


def changed_score(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: ScoreSpec,
    temperature: Tensor | None,
    edits: Edits,
    *,
    impl: str,
) -> ScoreSpec:
    """The ScoreSpec of the changed map. temperature [H] or None; the tensors as in kernels/api.py."""
    heads, n_key, device = query.shape[1], key.shape[2], query.device
    if score.row_bias is not None and edits:
        raise Refused("This model has a bias per row of its own; interventions on keys are not possible in it.")
    if temperature is not None:
        divisor = temperature.to(device).clone()
        biased = sorted({head for _, chosen, _ in edits for head in chosen})
        divisor[biased] = divisor[biased].clamp(max=NEARLY_INFINITE)
        score = replace(score, temperature=divisor if score.temperature is None else divisor * score.temperature)
    every_row = [entry for entry in edits if entry[0].rows is None and not entry[0].WEIGHS]
    some_rows = [entry for entry in edits if entry not in every_row]
    if every_row:
        added = undivided(bias_per_key(every_row, heads, n_key, device), score)
        score = replace(score, key_bias=added if score.key_bias is None else score.key_bias + added)
    if some_rows:
        score = with_row_bias(query, key, value, score, some_rows, impl)
    return score


def undivided(bias: Tensor, score: ScoreSpec) -> Tensor:
    """A bias [B, H, ...] such that it counts as it is after the division by the temperature."""
    if score.temperature is None:
        return bias
    factor = score.temperature.to(bias.device)
    factor = torch.where(torch.isinf(factor), 1.0, factor)  # of heads without any bias
    return bias * factor.reshape(1, -1, *[1] * (bias.ndim - 2))


def bias_per_key(edits: Edits, heads: int, n_key: int, device: torch.device) -> Tensor:
    """[1, H, Nk], the sum of what is added in every row."""
    bias = torch.zeros(1, heads, n_key, device=device)
    nothing = torch.zeros(1, 1, 1, dtype=torch.float64)
    for edit, chosen, sets in edits:
        for keys, shift in zip(sets, edit.shifts([nothing] * len(sets), nothing), strict=True):
            there = [k for k in keys if k < n_key]
            bias[0, torch.tensor(chosen)[:, None], torch.tensor(there, dtype=torch.int64)] += float(shift)
    return bias


def with_row_bias(query: Tensor, key: Tensor, value: Tensor, score: ScoreSpec, edits: Edits, impl: str) -> ScoreSpec:
    """The rule with what is added to some rows, or in amounts that differ from row to row."""
    heads, n_query, n_key, device = query.shape[1], query.shape[2], key.shape[2], query.device
    piece, members = pieces([keys for _, _, sets in edits for keys in sets], n_key)
    if any(edit.WEIGHS for edit, _, _ in edits):
        request = replace(NOTHING, groups=piece[None].to(device))
        given = log_masses(attend(query, key, value, score, request, impl=impl), score, len(members) + 1)
    else:
        given = torch.zeros(1, heads, n_query, len(members) + 2, dtype=torch.float64, device=device)
    shift = torch.zeros(*given.shape[:3], len(members), dtype=torch.float64, device=device)
    position = positions_of_rows(score, edits, n_query, n_key, device)
    number = 0
    for edit, chosen, sets in edits:
        inside_pieces = [
            [g for g, owners in enumerate(members) if number + place in owners] for place in range(len(sets))
        ]
        number += len(sets)
        add_shifts(edit, chosen, inside_pieces, given, shift, position)
    used = [g for g in range(len(members)) if bool((shift[..., g] != 0).any())]
    if not used:
        return score
    bias = undivided(shift[..., used].float(), score)
    place = torch.full((len(members) + 1,), -1)
    place[used] = torch.arange(len(used))
    group = place[piece].to(device)  # [Nk], -1 = untouched
    if len(used) == 1:
        return replace(score, row_bias=bias[..., 0].contiguous(), row_bias_keys=group >= 0)
    return replace(score, row_bias=bias.contiguous(), row_bias_keys=group)


def add_shifts(
    edit: KeyEdit, chosen: list[int], inside_pieces: list[list[int]], given: Tensor, shift: Tensor, position: Tensor
) -> None:
    """Add one edit to `shift` [B, H, Nq, G], in place, given what the edits before it made of the weights."""
    now = given.clone()
    now[..., : shift.shape[-1]] += shift
    now = now[:, chosen]  # [B, h, Nq, G + 2]
    touched = {g for piece in inside_pieces for g in piece}
    outside = now[..., [g for g in range(now.shape[-1]) if g not in touched]].logsumexp(-1)
    inside = [now[..., piece].logsumexp(-1) for piece in inside_pieces]
    start, stop = edit.rows or (0, None)
    rows = position >= start
    if stop is not None:
        rows = rows & (position < stop)
    for piece, added in zip(inside_pieces, edit.shifts(inside, outside), strict=True):
        shift[:, torch.tensor(chosen)[:, None], :, torch.tensor(piece)] += torch.where(rows, added, 0.0).transpose(
            0, 1
        )[:, None]


def pieces(sets: list[tuple[int, ...]], n_key: int) -> tuple[Tensor, list[frozenset[int]]]:
    """Cut overlapping sets of keys into pieces that share no key.

    Returns the piece of every key, int64 [Nk] (the number of pieces for keys in no set), and for each piece the
    numbers of the sets it belongs to.
    """
    owners: list[set[int]] = [set() for _ in range(n_key)]
    for number, keys in enumerate(sets):
        for k in keys:
            if k < n_key:
                owners[k].add(number)
    members = sorted({frozenset(owner) for owner in owners if owner}, key=sorted)
    index = {owner: g for g, owner in enumerate(members)} | {frozenset(): len(members)}
    return torch.tensor([index[frozenset(owner)] for owner in owners]), members


def log_masses(measured: Attended, score: ScoreSpec, groups: int) -> Tensor:
    """ln of the weight each row gives to every group of keys, and to the learned sink behind them.

    float64 [B, H, Nq, groups + 1]; -inf where there is none, or less than SMALLEST_MASS.
    """
    mass = measured.measures["group_mass"].double().nan_to_num(0.0)  # NaN: a row that sees nothing
    mass = torch.nn.functional.pad(mass, (0, groups - mass.shape[-1]))  # the last group may have no key
    sink = torch.full_like(mass[..., :1], -torch.inf)
    if score.sink is not None:
        sink = score.sink.double()[None, :, None, None] - measured.lse.double()[..., None]
    masses = torch.cat([mass.log(), sink], -1)
    return masses.masked_fill(masses < math.log(SMALLEST_MASS), -torch.inf)


def positions_of_rows(score: ScoreSpec, edits: Edits, n_query: int, n_key: int, device: torch.device) -> Tensor:
    """The position of every row in the sequence: int64 [Nq]."""
    if score.mask is not None and n_query < n_key and any(edit.rows is not None for edit, _, _ in edits):
        raise Refused("Interventions on chosen rows need a prompt without padding when text is generated.")
    return query_positions(score, n_query, n_key, device)
