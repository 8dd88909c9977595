"""The layers of one run: each is turned into its record, written and forgotten before the next one comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import psutil
import torch
from torch import Tensor

from backend import statistics
from backend.baselines import uniform_measures, uniform_statistics
from backend.dense import rule_of
from backend.errors import Cancelled, Refused
from backend.types import LayerCapture, LayerInfo, LayerRecord
from kernels.score import ScoreSpec
from kernels.window import visible

Place = tuple[str, int]  # kind and layer
BETWEEN_POSITIONS = (
    "mean_distance",
    "self_mass",
    "previous_mass",
    "duplicate_mass",
    "induction_mass",
    "distance_sum",
    "distance_rows",
)
STOPPED = "The run was stopped; nothing was stored."


@dataclass(eq=False)
class Layers:
    """Receives every layer as it is done (`on_layer` of a capture)."""

    write: Callable[[LayerRecord], None]
    exact: Mapping[Place, tuple[int, ...]]  # heads whose exact maps are kept
    tokens: Mapping[str, Tensor]  # kind -> [1, N] ids, where queries and keys are the same tokens
    progress: Callable[[str, int, int, float | None], None]
    cancelled: Callable[[], bool]
    rest_seconds: float  # what comes after the last layer, estimated
    done: int = 0
    implementation: str = ""
    uniform: list[dict] = field(default_factory=list)  # per layer: the statistics of uniform attention
    peak_bytes: int = 0
    seen_ahead: set[int] = field(default_factory=set)  # rows that see the token behind them (in and before pictures)
    own_seconds: float = 0.0  # statistics and writing; the rest of the pass is the model and its measuring
    _start: float = field(default_factory=time.perf_counter)
    _baselines: dict = field(default_factory=dict)

    def __call__(self, captured: LayerCapture) -> None:
        self.stop_if_cancelled()
        start = time.perf_counter()
        refuse_nan(captured)
        self.implementation = captured.implementation
        made = record(captured, self.exact[captured.info.kind, captured.info.layer])
        self.write(made)
        self._add_uniform(captured, made.score)
        if captured.score.mask is not None and captured.info.kind != "cross":
            ahead = captured.score.mask[0].any(0).diagonal(1)
            self.seen_ahead |= set(ahead.nonzero()[:, 0].tolist())
        self.done += 1
        self.peak_bytes = max(self.peak_bytes, memory_in_use(captured.query.device))
        now = time.perf_counter()
        self.own_seconds += now - start
        left = (now - self._start) / self.done * (len(self.exact) - self.done) + self.rest_seconds
        self.progress("layers", self.done, len(self.exact), left)

    def stop_if_cancelled(self) -> None:
        if self.cancelled():
            raise Cancelled(STOPPED)

    def tokens_of(self, info: LayerInfo, n_key: int) -> Tensor | None:
        """The ids of the keys of a layer; None where its keys are not the tokens one by one."""
        tokens = self.tokens.get(info.kind)
        return tokens if tokens is not None and n_key == tokens.shape[1] else None

    def _add_uniform(self, captured: LayerCapture, score: ScoreSpec) -> None:
        """The baseline of this layer; layers of the same visibility share one."""
        info, device = captured.info, captured.query.device
        n_query, n_key = captured.query.shape[2], captured.key.shape[2]
        key = visibility(score, info, n_query, n_key)
        if key is None or key not in self._baselines:
            measures = uniform_measures(
                score,
                n_query,
                n_key,
                heads=heads_apart(score),
                tokens=None if (tokens := self.tokens_of(info, n_key)) is None else tokens.to(device),
                device=device,
            )
            values = uniform_statistics(measures, info)
            if key is not None:
                self._baselines[key] = values
        else:
            values = self._baselines[key]
        self.uniform.append({"kind": info.kind, "layer": info.layer, **values})


def refuse_nan(captured: LayerCapture) -> None:
    """Refused where the layer's scores are no numbers: such a map is never stored or drawn."""
    if bool(captured.lse.isnan().any()):
        dtype = str(captured.query.dtype).removeprefix("torch.")
        raise Refused(
            f"Layer {captured.info.layer} gives NaN in {dtype}: its numbers grow beyond that type, or its weights are "
            "damaged. Load the model as float32 or bfloat16. Nothing was stored."
        )


def memory_in_use(device: torch.device) -> int:
    """Bytes: of tensors on a GPU, of the whole process on the CPU."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else psutil.Process().memory_info().rss


def visibility(score: ScoreSpec, info: LayerInfo, n_query: int, n_key: int) -> tuple | None:
    """What decides the baseline of a layer; None where tensors take part, which are not compared."""
    levelled = ("sink", "temperature")  # uniform attention has neither
    if any(isinstance(getattr(score, f.name), Tensor) for f in fields(score) if f.name not in levelled):
        return None
    return (info.kind, score.causal, score.window, score.around, score.chunk, score.keep_first, n_query, n_key)


def heads_apart(score: ScoreSpec) -> int:
    """How many heads the visibility must be counted for: 1 where it is the same for all."""
    per_head = [t.shape[1] for t in (score.key_bias, score.row_bias, score.bias, score.mask) if t is not None]
    by_distance = [] if score.bias_by_distance is None else [score.bias_by_distance.shape[0]]
    return max([1, *per_head, *by_distance])


def record(captured: LayerCapture, exact: tuple[int, ...]) -> LayerRecord:
    """One captured layer of one sample, on the CPU, with its statistics."""
    info = captured.info
    measures = {name: without_batch(name, values).cpu() for name, values in captured.measures.items()}
    if info.kind == "cross":  # its rows and keys are two sequences, between which there is no distance
        measures = {name: values for name, values in measures.items() if name not in BETWEEN_POSITIONS}
    if captured.dense is not None:
        return dense_record(captured, measures, exact)
    shared = info.heads // info.key_heads
    return LayerRecord(
        info=info,
        score=captured.score.to("cpu"),
        query=captured.query[0].cpu(),
        key=captured.key[0].cpu(),
        lse=captured.lse[0].float().cpu(),
        measures=measures,
        statistics=all_statistics(measures, info),
        key_norm=norms(captured.key[0]).repeat_interleave(shared, 0).cpu(),
        value_norm=norms(captured.value[0]).repeat_interleave(shared, 0).cpu(),
        output_norm=first_sample(captured.output_norm),
        hidden_norm=first_sample(captured.hidden_norm),
        hidden_max=first_sample(captured.hidden_max),
        exact=exact,
    )


def dense_record(captured: LayerCapture, measures: dict[str, Tensor], exact: tuple[int, ...]) -> LayerRecord:
    """The same of a model's own probabilities: the rule that is kept says who sees whom, and nothing of weights."""
    n_query, n_key = captured.dense.shape[2:]
    seen = visible(captured.score, n_query, n_key, slice(0, n_query), slice(0, n_key))
    return LayerRecord(
        info=captured.info,
        score=rule_of(seen[:1]).to("cpu"),
        query=captured.query[0].cpu(),
        key=captured.key[0].cpu(),
        lse=captured.lse[0].float().cpu(),
        measures=measures,
        statistics=all_statistics(measures, captured.info),
        key_norm=None,
        value_norm=None if captured.dense_value is None else norms(captured.dense_value[0]).cpu(),
        output_norm=None,
        hidden_norm=first_sample(captured.hidden_norm),
        hidden_max=first_sample(captured.hidden_max),
        exact=exact,
        dense=captured.dense[0].float().cpu(),
    )


def all_statistics(measures: Mapping[str, Tensor], info: LayerInfo) -> dict[str, np.ndarray]:
    """Every statistic of one layer by name: [H]."""
    return {name: statistic.compute(measures, info) for name, statistic in statistics.all().items()}


def without_batch(name: str, values: Tensor) -> Tensor:
    """The measure of the first sample; `sampled_rows` are the same for all samples and have no batch axis."""
    return values if name == "sampled_rows" else values[0]


def first_sample(values: Tensor | None) -> Tensor | None:
    return None if values is None else values[0].float().cpu()


def norms(vectors: Tensor) -> Tensor:
    """[Hk, N, D] -> Euclidean norms [Hk, N] in float32."""
    return torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float32)
