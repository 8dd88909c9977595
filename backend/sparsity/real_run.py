"""The model really run with less: a cache that holds fewer keys, or maps that keep a pattern; what changed is measured.

A text of N tokens is read once as it is: the first n of them into a cache, the rest as judges. After that each policy
starts from that cache, drops what it drops, and reads the judges again; each pattern reads the whole text again.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from backend.attention import Call
from backend.cache import ShrinkingRun, shrinking
from backend.comparison import divergence
from backend.errors import Refused
from backend.models import LoadedModel
from backend.policies import Layer
from backend.rotary import Rotary, rotary_of
from kernels.score import ScoreSpec

ROWS = 64  # judges compared at once


@dataclass(frozen=True, eq=False)
class Damage:
    """What became of the model's answers. Natural logarithms; losses in nats per token."""

    kl: Tensor  # float64 [judges], KL(with less || dense) of the next-token distribution
    agrees: Tensor  # bool [judges], whether the most probable token is the same
    loss: float | None  # mean -ln p of the judges given those before them; None for one judge
    written: list[int]  # what the model writes behind the text; empty where it was not asked to
    nbytes: int  # of the keys and values in the cache, as allocated, after the text was read
    full_nbytes: int  # of a cache that keeps all
    seconds: float


@dataclass(frozen=True, eq=False)
class Part:
    """What one layer handed over while the text was read as it is."""

    layer: int
    query: Tensor  # [H, N, D]
    key: Tensor  # [Hk, N, D]
    value: Tensor  # [Hk, N, Dv]
    lse: Tensor  # [H, N]
    score: ScoreSpec


class Masks(Protocol):
    """What maps keep; see backend/sparsity/head_masks.py."""

    def __call__(self, place: int) -> Tensor:
        """The cells of one layer's maps that the text may see, by its place among the layers: bool [H, N, N]."""

    def behind(self, place: int, position: int) -> Tensor:
        """The keys of a row that is written behind the text: bool [H, position + 1]."""


class Prepared:
    """A text that was read as it is, ready for any number of runs with less."""

    def __init__(
        self, model: LoadedModel, token_ids: Sequence[int], n: int, new_tokens: int, stop: Callable[[], None]
    ) -> None:
        """stop: called between layers, raises to stop."""
        if not 1 <= n < len(token_ids):
            raise Refused(f"The context must leave a token behind it: got {n} of {len(token_ids)} tokens.")
        self.token_ids, self.n, self.new_tokens, self._stop = list(token_ids), n, new_tokens, stop
        seen: dict[int, list[tuple[Tensor, Tensor, ScoreSpec]]] = {}

        def watch(layer: int, call: Call, lse: Tensor) -> None:
            self._stop()
            seen.setdefault(layer, []).append((call.query[0], lse[0], call.score))

        with shrinking(model) as run:
            run.watch = watch
            start = time.perf_counter()
            run.read(self.token_ids[:n], last=1)
            self.state = run.state()
            self.logits = run.read(self.token_ids[n:]).float()
            self.dense_seconds = time.perf_counter() - start
            run.watch = None
            self.nbytes = run.nbytes
            self.parts = [self._part(number, run, seen[number]) for number in run.layers]
            self.written = run.write(new_tokens, self.logits[-1]) if new_tokens else []
        self.loss = loss_of(self.logits, self.token_ids[n:])
        self.remembered: dict[str, dict] = {}  # what studies compute on this text more than once
        self._rotary: list[Rotary | None] | None = None
        self._model = weakref.ref(model)

    @staticmethod
    def _part(number: int, run: ShrinkingRun, calls: list[tuple[Tensor, Tensor, ScoreSpec]]) -> Part:
        layer = run.layers[number]
        score = calls[0][2]
        if any(isinstance(value, Tensor) and name != "sink" for name, value in vars(score).items()):
            raise Refused("This model's rule of attention depends on tensors that a shortened cache cannot follow.")
        return Part(
            number,
            torch.cat([query for query, _, _ in calls], 1),
            torch.stack(layer.head_keys),
            torch.stack(layer.head_values),
            torch.cat([lse for _, lse, _ in calls], 1),
            score,
        )

    def layers(self) -> list[Callable[[], Layer]]:
        """The layers as policies see them."""
        if self._rotary is None:
            model = self._model()
            self._rotary = [None if model is None else rotary_of(model)]
        return [lambda at=at, part=part: self._layer(at, part) for at, part in enumerate(self.parts)]

    def _layer(self, place: int, part: Part) -> Layer:
        return Layer(
            number=part.layer,
            place=place,
            layers=len(self.parts),
            n=self.n,
            query=part.query,
            key=part.key,
            lse=part.lse,
            score=part.score,
            value_norm=torch.linalg.vector_norm(part.value.float(), dim=-1),
            rotary=self._rotary[0] if self._rotary else None,
        )

    def evicted(self, model: LoadedModel, kept: Mapping[int, Tensor]) -> Damage:
        """The judges read with a cache that holds the kept keys alone. kept: layer -> bool [Hk, n]; others keep all."""
        start = time.perf_counter()
        with shrinking(model) as run:
            run.watch = lambda *_: self._stop()
            run.restore(self.state)
            run.evict({number: [head.nonzero()[:, 0] for head in heads] for number, heads in kept.items()})
            logits = run.read(self.token_ids[self.n :]).float()
            seconds, nbytes = time.perf_counter() - start, run.nbytes
            written = run.write(self.new_tokens, logits[-1]) if self.new_tokens else []
        return self._damage(logits, written, nbytes, seconds)

    def masked(self, model: LoadedModel, masks: Masks) -> Damage:
        """The whole text read with maps that keep a pattern, and written on with it; the cache keeps everything.

        What making the masks takes is not in the seconds.
        """
        places, making = {part.layer: at for at, part in enumerate(self.parts)}, 0.0

        def show(layer: int, first: int, stop: int) -> Tensor:
            nonlocal making
            self._stop()
            start = time.perf_counter()
            shown = masks(places[layer]) if first == 0 else masks.behind(places[layer], first)[:, None]
            making += time.perf_counter() - start
            return shown

        with shrinking(model) as run:
            run.show = show
            start = time.perf_counter()
            logits = run.read(self.token_ids, last=len(self.token_ids) - self.n).float()
            seconds, nbytes = time.perf_counter() - start - making, run.nbytes
            written = run.write(self.new_tokens, logits[-1]) if self.new_tokens else []
        return self._damage(logits, written, nbytes, seconds)

    def _damage(self, logits: Tensor, written: list[int], nbytes: int, seconds: float) -> Damage:
        kl = [
            divergence(logits[at : at + ROWS], self.logits[at : at + ROWS]).clamp(min=0).cpu()
            for at in range(0, len(logits), ROWS)
        ]
        agrees = (logits.argmax(-1) == self.logits.argmax(-1)).cpu()
        loss = loss_of(logits, self.token_ids[self.n :])
        return Damage(torch.cat(kl), agrees, loss, written, nbytes, self.nbytes, seconds)


def loss_of(logits: Tensor, token_ids: Sequence[int]) -> float | None:
    """Mean -ln p of the tokens, each given the ones before it; the first is given by nobody here."""
    if len(token_ids) < 2:
        return None
    following = torch.tensor(list(token_ids[1:]), device=logits.device)
    return float(torch.nn.functional.cross_entropy(logits[:-1].double(), following))


def output_error(part: Part, layer: Layer, kept: Tensor) -> Tensor:
    """||o - o~|| / ||o|| of the judges' outputs under the full and the shortened cache, mean over judges: [H] float64.

    NaN rows do not occur: a judge always sees itself. Both are of the dense run's queries, so one layer's error alone.
    """
    future, value = layer.future, part.value.double().cpu().repeat_interleave(layer.group, 0)
    of_head = torch.cat([kept, torch.ones(len(kept), future.shape[2] - layer.n, dtype=torch.bool)], 1)
    short = future * of_head.repeat_interleave(layer.group, 0)[:, None]
    left = short.sum(-1, keepdim=True)
    if part.score.sink is not None:  # a learned sink keeps its logit
        left = left + (1 - future.sum(-1, keepdim=True)).clamp(min=0)
    short = short / left.clamp(min=1e-300)
    before, after = future @ value, short @ value
    size = before.norm(dim=-1)
    return ((before - after).norm(dim=-1) / size.clamp(min=1e-12)).mean(-1)


_prepared: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def prepared(
    model: LoadedModel, token_ids: Sequence[int], n: int, new_tokens: int, stop: Callable[[], None]
) -> Prepared:
    """The text read as it is; that of the last call is kept, because the runs of a study follow each other."""
    key = (model.weights_hash, tuple(token_ids), n, new_tokens)
    kept = _prepared.get(model.model)
    if kept is None or kept[0] != key:
        kept = (key, Prepared(model, token_ids, n, new_tokens, stop))
        _prepared[model.model] = kept
    kept[1]._stop = stop
    return kept[1]


def forget(model: LoadedModel) -> None:
    """Lets go of what was kept, after the last run of a study."""
    _prepared.pop(model.model, None)
