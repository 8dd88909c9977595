"""What a run will take, before it starts: seconds, memory, disk, and which heads keep their exact maps."""

from __future__ import annotations

import shutil
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import torch
from torch import nn

from backend.duration import duration
from backend.errors import Refused
from backend.models import LoadedModel
from backend.options import MEGABYTE, Options, exact_heads
from backend.probes import first_weight
from backend.settings import DISK_RESERVE_MB
from backend.sites import survey
from backend.store.database import WRITER_MEMORY
from backend.store.exact import DENSE_FLOAT16, DENSE_FLOAT32, SMALL_ANALYSIS
from backend.types import LayerInfo

FIXED_SECONDS = 0.3  # what a run takes however short the prompt is: tokens, tables, publishing
ROW_BYTES, KEY_BYTES, LINK_BYTES = 45, 18, 7  # on disk, per row of a head, key of a head, link; measured
FILE_BYTES = 1.5 * MEGABYTE  # an analysis of one token
TARGET_TOKENS = 64  # of a target that the model writes, where no number was asked for

Sizes = dict[str, tuple[int, int]]  # kind -> queries, keys


@dataclass(frozen=True)
class Estimate:
    """What a run will take."""

    n_tokens: int
    seconds: float
    memory_mb: float  # beside the model itself
    disk_mb: float
    exact_heads: tuple[tuple[int, ...], ...]  # per attention layer, in order: the heads whose exact maps are kept
    n_heads: int  # of all attention layers
    sentence: str


def estimate(
    model: LoadedModel, n_tokens: int, options: Options | None = None, *, n_target: int | None = None
) -> Estimate:
    """What analysing n_tokens with this model and these options will take. Runs nothing.

    n_target: tokens of an encoder-decoder's target, where it is given.
    """
    options = options or Options()
    layers = attention_layers(model)
    sizes = sizes_of(n_tokens, n_target or options.new_tokens or TARGET_TOKENS)
    dense = survey(model.model).dense
    vectors = sum(
        (layer.heads * sizes[layer.kind][0] + layer.key_heads * sizes[layer.kind][1]) * layer.head_dim
        for layer in layers
    )
    item = 4 if 4 * vectors < SMALL_ANALYSIS else 2

    def kept_bytes(layer: LayerInfo, heads: int) -> int:
        return dense_bytes(sizes[layer.kind], heads) if dense else codec_bytes(layer, heads, sizes[layer.kind], item)

    exact = exact_heads(options.exact_maps, options.disk_budget_mb, layers, kept_bytes)
    disk = disk_bytes(layers, exact, sizes, options, kept_bytes, model.causal) / MEGABYTE
    seconds = FIXED_SECONDS + work(model, n_tokens) / speed(model)
    kept, n_heads = sum(map(len, exact)), sum(layer.heads for layer in layers)
    return Estimate(
        n_tokens=n_tokens,
        seconds=seconds,
        memory_mb=memory_bytes(model, layers, n_tokens, disk * MEGABYTE) / MEGABYTE,
        disk_mb=disk,
        exact_heads=tuple(exact),
        n_heads=n_heads,
        sentence=" · ".join([f"{n_tokens:,} tokens", f"about {duration(seconds)}", _size(disk), _maps(kept, n_heads)]),
    )


def sizes_of(n_tokens: int, n_target: int) -> Sizes:
    """Queries and keys of every kind of attention, for a prompt and a target of so many tokens."""
    return {
        "self": (n_tokens, n_tokens),
        "encoder": (n_tokens, n_tokens),
        "decoder": (n_target, n_target),
        "cross": (n_target, n_tokens),
    }


def attention_layers(model: LoadedModel) -> list[LayerInfo]:
    """The layers that have maps, in order."""
    return [layer for layer in model.describe().layers if layer.attention == "softmax"]


def refuse_unless_it_fits(model: LoadedModel, needed: Estimate, folder: Path) -> None:
    """Refused where memory or disk would not do, with both numbers."""
    if survey(model.model).dense and needed.n_tokens > DENSE_FLOAT16:
        raise Refused(
            f"The prompt has {needed.n_tokens:,} tokens. {model.name} computes its own softmax, whose maps are kept "
            f"whole, and that is done up to {DENSE_FLOAT16:,} tokens. Shorten the prompt."
        )
    free = free_memory_mb(model)
    if needed.memory_mb > free:
        raise Refused(
            f"The run of {needed.n_tokens:,} tokens needs about {needed.memory_mb:,.0f} MB of memory and "
            f"{free:,.0f} MB are free. Shorten the prompt or close other programs."
        )
    reserve = DISK_RESERVE_MB.integer()
    there = max(0.0, shutil.disk_usage(_existing(folder)).free / MEGABYTE - reserve)
    if needed.disk_mb > there:
        raise Refused(
            f"The analysis needs about {needed.disk_mb:,.0f} MB on disk and {there:,.0f} MB are free "
            f"({reserve} MB are kept in reserve). Delete analyses, shorten the prompt or keep fewer exact maps."
        )


# -- time -------------------------------------------------------------------------------------------------------------

_speeds: weakref.WeakKeyDictionary[nn.Module, float] = weakref.WeakKeyDictionary()  # operations per second, measured
_speeds_lock = threading.Lock()


def work(model: LoadedModel, n_tokens: int) -> float:
    """Floating-point operations of one forward pass with measuring."""
    inputs = first_weight(model.model)
    head = model.model.get_output_embeddings()
    parameters = sum(p.numel() for p in model.model.parameters())
    if head is None or head.weight is not inputs:
        parameters -= inputs.numel()  # looked up, not multiplied
    cells = sum(
        layer.heads * n_tokens * min(n_tokens, layer.window_size or n_tokens) for layer in attention_layers(model)
    )
    widths = max((layer.head_dim + layer.value_dim for layer in attention_layers(model)), default=0)
    return 2.0 * parameters * n_tokens + 2.0 * cells * widths


def speed(model: LoadedModel) -> float:
    """Operations per second: that of the last run of this model in this process, else that of a matrix product."""
    with _speeds_lock:
        measured = _speeds.get(model.model)
    return measured or _speed_of_device(str(model.device))


def learn_speed(model: LoadedModel, n_tokens: int, seconds: float) -> None:
    """Takes the time of a finished run into account for the next estimate; a short one tells nothing of the speed."""
    moving = seconds - FIXED_SECONDS
    if work(model, n_tokens) / speed(model) < FIXED_SECONDS or moving <= 0:
        return
    with _speeds_lock:
        _speeds[model.model] = work(model, n_tokens) / moving


@cache
def _speed_of_device(device: str) -> float:
    side = 512 if device == "cpu" else 4096
    matrix = torch.ones(side, side, device=device)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        (matrix @ matrix)[0, 0].item()  # item waits for the device
        best = min(best, time.perf_counter() - start)
    return 0.5 * 2 * side**3 / best  # a model reaches about half of what a large product does


# -- memory and disk --------------------------------------------------------------------------------------------------


def codec_bytes(layer: LayerInfo, heads: int, size: tuple[int, int], item: int) -> int:
    """Bytes of queries, keys and log-sum-exps of some heads of a layer; item: 4 = float32, 2 = 16-bit integers."""
    if not heads:
        return 0
    queries, keys = size
    key_heads = min(layer.key_heads, heads)
    vector = layer.head_dim * item + (4 if item == 2 else 0)
    return heads * queries * (vector + 4) + key_heads * keys * vector


def dense_bytes(size: tuple[int, int], heads: int) -> int:
    """Bytes of whole maps of some heads of a layer."""
    return heads * size[0] * size[1] * (4 if max(size) <= DENSE_FLOAT32 else 2)


def disk_bytes(layers: Sequence[LayerInfo], exact, sizes: Sizes, options: Options, kept_bytes, causal: bool) -> float:
    """Bytes of the whole file."""
    total = FILE_BYTES
    for layer, heads in zip(layers, exact, strict=True):
        queries, keys = sizes[layer.kind]
        sides = [min(options.pooled, length) for length in (queries, keys)]
        triangle = (causal or layer.kind == "decoder") and queries == keys
        cells = sides[0] * (sides[0] + 1) // 2 if triangle else sides[0] * sides[1]
        total += kept_bytes(layer, len(heads))
        total += layer.heads * (queries * ROW_BYTES + keys * KEY_BYTES)
        pooled = layer.heads if max(queries, keys) > options.pooled else layer.heads - len(heads)
        total += 4 * pooled * cells  # mean and max in float16
        total += (layer.heads - len(heads)) * queries * options.top_links * LINK_BYTES
    return total


def memory_bytes(model: LoadedModel, layers: Sequence[LayerInfo], n_tokens: int, disk: float) -> float:
    """Bytes beside the model: one layer at a time, its attention in strips, the logits in chunks, the file in writing.

    A little above what was measured (SmolLM2, 512 and 2,048 tokens: 246 and 679 MB; this says 290 and 708).
    """
    config = model.model.config.get_text_config()
    hidden = getattr(config, "hidden_size", 1024)
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    widest = max((2 * (n.heads + n.key_heads) * n.head_dim + 60 * n.heads for n in layers), default=0)
    strips = 64 * n_tokens * 4 * max((n.heads for n in layers), default=1) * 2
    one_layer = 4.0 * n_tokens * (8 * hidden + 3 * inner + widest) + strips
    return 120 * MEGABYTE + 1.5 * one_layer + min(3 * disk, WRITER_MEMORY)


def free_memory_mb(model: LoadedModel) -> float:
    """Memory that a run may still take where the model is, in MB; a container's limit counts."""
    device = torch.device(model.device)
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] / MEGABYTE
    free = psutil.virtual_memory().available
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        free = min(free, int(text) - int(used.read_text()))
    return free / MEGABYTE


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


# -- words ------------------------------------------------------------------------------------------------------------


def _size(megabytes: float) -> str:
    return f"{megabytes:,.0f} MB on disk" if megabytes < 10_000 else f"{megabytes / 1000:,.0f} GB on disk"


def _maps(kept: int, n_heads: int) -> str:
    if kept == n_heads:
        return f"exact maps for all {n_heads:,} heads"
    return f"exact maps for {kept:,} of {n_heads:,} heads" if kept else "no exact maps"
