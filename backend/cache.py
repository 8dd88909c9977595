"""Key-value caches that really shrink: entries that are dropped are gone, and what is left is measured in bytes.

    with shrinking(model) as run:                      # evict what a policy chose
        run.read(prompt_ids)
        run.evict({layer: [kept positions of key head 0, of key head 1, ...]})
        logits = run.read(continuation_ids)            # as if the dropped keys were masked for these rows

    with shrinking(model, Stream(first=4, recent=64)) as run:    # a window that moves along, and the first keys
        logits = run.read(token_ids)

Every key head keeps positions of its own, so that policies which spend unlike amounts on unlike heads save what they
say. Keys keep the position at which they were read (rotary embeddings are part of them); nothing is renumbered.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import Cache, CacheLayerMixin

from backend.attention import Call, switched
from backend.errors import Refused
from backend.masks import Rule
from backend.models import LoadedModel
from backend.sites import survey
from kernels.api import attend
from kernels.measures import NOTHING
from kernels.score import ScoreSpec

CHUNK = 256  # tokens read at once under a Stream: the cache holds no more than what is kept and these


@dataclass(frozen=True)
class Stream:
    """A row sees the first keys and the last ones, itself included; older ones are dropped while the text is read."""

    first: int
    recent: int

    def __post_init__(self) -> None:
        if self.first < 0 or self.recent < 1:
            raise Refused(
                f"Stream: expected first of 0 or more and recent of 1 or more, got {self.first} and {self.recent}."
            )

    def visible(self, query: Tensor, key: Tensor) -> Tensor:
        return (key < self.first) | (key > query - self.recent)


class ShrinkingLayer(CacheLayerMixin):
    """The keys and values of one layer, one tensor per key head, and the positions they were read at."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.head_keys: list[Tensor] = []  # per key head [n, D]
        self.head_values: list[Tensor] = []  # [n, Dv]
        self.positions: list[Tensor] = []  # int64 [n], ascending
        self.seen = 0  # tokens read so far, dropped ones included
        self.columns: Tensor | None = None  # int64 [Hk, columns] of the last `update`: position of each, -1 = padding

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        for states, parts in ((key_states, self.head_keys), (value_states, self.head_values)):
            parts += [states.new_empty(0, states.shape[-1]) for _ in range(states.shape[1])]
        self.positions = [torch.empty(0, dtype=torch.int64, device=key_states.device) for _ in self.head_keys]
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        """Append, and hand out [1, Hk, columns, D]: heads that keep less than others are padded on the left."""
        if key_states.shape[0] != 1:
            raise Refused(f"A cache that shrinks holds one text, got a batch of {key_states.shape[0]}.")
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        new = torch.arange(self.seen, self.seen + key_states.shape[2], device=key_states.device)
        for head in range(key_states.shape[1]):
            self.head_keys[head] = torch.cat([self.head_keys[head], key_states[0, head]])
            self.head_values[head] = torch.cat([self.head_values[head], value_states[0, head]])
            self.positions[head] = torch.cat([self.positions[head], new])
        self.seen += len(new)
        self.columns = padded(self.positions, -1)
        return padded(self.head_keys, 0)[None], padded(self.head_values, 0)[None]

    def keep(self, head: int, kept: Tensor) -> None:
        """Drop every entry of a head but those marked in `kept`, bool [n]; what is left gets memory of its own."""
        if bool(kept.all()):
            return
        self.head_keys[head] = self.head_keys[head][kept]
        self.head_values[head] = self.head_values[head][kept]
        self.positions[head] = self.positions[head][kept]

    @property
    def nbytes(self) -> int:
        """Memory that keys and values take, as allocated."""
        return sum(part.untyped_storage().nbytes() for part in (*self.head_keys, *self.head_values))

    @property
    def whole(self) -> bool:
        """Whether the last call was handed every key there was."""
        return self.columns is not None and self.columns.shape[1] == self.seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen + query_length, 0

    def get_seq_length(self) -> int:
        return self.seen

    def get_max_length(self) -> int:
        return -1


def padded(parts: Sequence[Tensor], value: int) -> Tensor:
    """[Hk, longest, ...] of the parts, each at the end of its row."""
    if len({len(part) for part in parts}) == 1:
        return torch.stack(list(parts))
    return pad_sequence(list(parts), batch_first=True, padding_value=value, padding_side="left")


class ShrinkingRun:
    """A text that is read piece by piece; made by `shrinking`."""

    def __init__(self, model: LoadedModel, stream: Stream | None, impl: str) -> None:
        found = survey(model.model)
        self.model, self.stream, self.impl = model, stream, impl
        self.layers = {info.layer: ShrinkingLayer() for info in found.layers}
        self.cache = Cache(layers=[self.layers[layer] for layer in sorted(self.layers)])
        self._layer_of = {site.module: site.info.layer for site in found.sites}
        takes = inspect.signature(model.model.forward).parameters
        self._few_logits = "logits_to_keep" in takes
        self.watch: Callable[[int, Call, Tensor], None] | None = None  # hears layer, call and lse of every call
        # layer, first row, row behind the last -> bool [H, rows, keys]: what may be seen, while nothing is dropped
        self.show: Callable[[int, int, int], Tensor] | None = None

    @property
    def seen(self) -> int:
        """Tokens read so far."""
        return next(iter(self.layers.values())).seen

    @property
    def nbytes(self) -> int:
        """Memory that the kept keys and values take, as allocated."""
        return sum(layer.nbytes for layer in self.layers.values())

    @property
    def full_nbytes(self) -> int:
        """What they would take with nothing dropped."""
        return sum(
            layer.seen * (keys.shape[-1] + values.shape[-1]) * keys.element_size()
            for layer in self.layers.values()
            for keys, values in zip(layer.head_keys, layer.head_values, strict=True)
        )

    def kept(self) -> dict[int, list[list[int]]]:
        """Positions that are left, per layer and key head."""
        return {number: [p.tolist() for p in layer.positions] for number, layer in self.layers.items()}

    @torch.inference_mode()
    def read(self, token_ids: Sequence[int], *, last: int | None = None) -> Tensor:
        """Logits of the tokens read, [n, V], or of the `last` of them only."""
        if not token_ids:
            raise Refused("There is nothing to read: give at least one token id.")
        size = CHUNK if self.stream is not None else len(token_ids)
        wanted = len(token_ids) if last is None else min(last, len(token_ids))
        logits = []
        for start in range(0, len(token_ids), size):
            chunk = list(token_ids[start : start + size])
            rows = max(0, min(len(chunk), start + len(chunk) - (len(token_ids) - wanted)))
            logits.append(self._forward(chunk, rows))
            self._drop_what_streamed_out()
        return torch.cat(logits)

    def _forward(self, chunk: list[int], rows: int) -> Tensor:
        """Logits of the last `rows` tokens of the chunk."""
        ids = torch.tensor([chunk], device=self.model.device)
        few = {"logits_to_keep": max(rows, 1)} if self._few_logits else {}
        output = self.model.model(input_ids=ids, cache=self.cache, use_cache=True, **few)
        return output.logits[0, output.logits.shape[1] - rows :]

    def _drop_what_streamed_out(self) -> None:
        """Drop what no later row may see."""
        if self.stream is None:
            return
        for layer in self.layers.values():
            for head, positions in enumerate(layer.positions):
                layer.keep(head, self.stream.visible(torch.tensor(layer.seen), positions))

    def state(self) -> dict[int, tuple[list[Tensor], list[Tensor], list[Tensor], int]]:
        """What the cache holds now, for `restore`; nothing is copied, and nothing that happens later changes it."""
        return {
            number: (list(layer.head_keys), list(layer.head_values), list(layer.positions), layer.seen)
            for number, layer in self.layers.items()
        }

    def restore(self, state: dict[int, tuple[list[Tensor], list[Tensor], list[Tensor], int]]) -> None:
        """The cache as it was, in this run or in another one of the same model."""
        for number, (keys, values, positions, seen) in state.items():
            layer = self.layers[number]
            layer.head_keys, layer.head_values, layer.positions = list(keys), list(values), list(positions)
            layer.seen, layer.columns, layer.is_initialized = seen, None, True

    @torch.inference_mode()
    def write(self, count: int, logits: Tensor) -> list[int]:
        """The most probable continuation, token by token, ended by the model or after `count`. logits [V]: of the last
        token read."""
        written: list[int] = []
        while len(written) < count:
            written.append(int(logits.argmax()))
            if written[-1] == self.model.eos_token_id or len(written) == count:
                break
            logits = self.read(written[-1:])[-1]
        return written

    def evict(self, kept: Mapping[int, Sequence[Sequence[int] | Tensor]]) -> None:
        """Drop all entries of the given layers but those at the kept positions, which are given per key head."""
        for number, heads in kept.items():
            if number not in self.layers:
                raise Refused(f"evict: there is no layer {number}; there are {sorted(self.layers)}.")
            layer = self.layers[number]
            if len(heads) != len(layer.positions):
                raise Refused(
                    f"evict: layer {number} has {len(layer.positions)} key heads, positions of {len(heads)} came."
                )
            for head, wanted in enumerate(heads):
                wanted = torch.as_tensor(wanted, dtype=torch.int64, device=layer.positions[head].device)
                chosen = torch.isin(layer.positions[head], wanted)
                if int(chosen.sum()) != len(wanted.unique()):
                    raise Refused(
                        f"evict: layer {number}, key head {head}: some of the positions to keep are not in the cache "
                        f"(it has {len(chosen)}, up to {layer.seen - 1})."
                    )
                layer.keep(head, chosen)

    def attend(self, call: Call) -> Tensor:
        """The handler of every attention call: what is visible follows from the positions that are left."""
        number = self._layer_of[call.module]
        layer, score = self.layers[number], call.score
        if not layer.whole or self.stream is not None:
            score = self._rule(call, layer)
        elif self.show is not None:
            shown = self.show(number, layer.seen - call.query.shape[2], layer.seen)[None].to(call.query.device)
            score = replace(score, mask=shown if score.mask is None else shown & score.mask)
        attended = attend(call.query, call.key, call.value, score, NOTHING, impl=self.impl)
        if self.watch is not None:
            self.watch(number, call, attended.lse)
        return attended.output

    def _rule(self, call: Call, layer: ShrinkingLayer) -> ScoreSpec:
        """The model's own rule, read at positions instead of columns."""
        score = call.score
        tensors = (score.mask, score.bias, score.bias_by_distance, score.key_padding, score.around)
        if not score.causal or any(value is not None for value in tensors):
            raise Refused(f"{self.model.name} has a mask or bias that a shortened cache cannot follow.")
        n_query = call.query.shape[2]
        row = torch.arange(layer.seen - n_query, layer.seen, device=call.query.device)[None, :, None]
        column = layer.columns[:, None, :]  # [Hk, 1, columns]
        visible = Rule(True, score.window, None, score.chunk).visible(row, column) & (column >= 0)
        if self.stream is not None:
            visible = visible & self.stream.visible(row, column)
        shared = call.query.shape[1] // visible.shape[0]
        mask = None if bool(visible.all()) else visible.repeat_interleave(shared, 0)[None]
        return replace(score, causal=False, window=None, chunk=None, mask=mask)


@contextmanager
def shrinking(model: LoadedModel, stream: Stream | None = None, *, impl: str = "auto") -> Iterator[ShrinkingRun]:
    """Inside, texts are read with a cache that shrinks: under a Stream as they are read, else by `evict`.

    Refused for models that do not read from left to right, or whose layers keep other states than keys and values.
    """
    layers = survey(model.model).layers
    if not model.causal or any(info.kind != "self" for info in layers):
        raise Refused(f"{model.name} has no key-value cache: it does not read from left to right.")
    others = sorted({info.attention for info in layers if info.attention != "softmax"})
    if others:
        raise Refused(f"{model.name} has layers that keep other states than keys and values ({', '.join(others)}).")
    run = ShrinkingRun(model, stream, impl)
    with switched(model.model, run.attend):
        yield run
