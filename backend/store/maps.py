"""The maps of an analysis: exact weights of any window, pooled pictures, strongest links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import torch

from backend.errors import Damaged, NoExactMap, NotFound
from backend.store import blobs, codec, pictures, rule, strongest
from backend.store.decoded import decoded
from backend.store.reader import Tables
from backend.store.strongest import Head
from kernels import window
from kernels.score import ScoreSpec

PICTURE_CELLS = 4096 * 4096  # pictures of larger windows are not made of every cell
WORDS = {"query": "queries", "key": "keys", "lse": "log-sum-exps", "dense": "weights", "pooled_mean": "pooled map"}


@dataclass(frozen=True, eq=False)
class Rule:
    """The rule of one layer, and what its tensors weigh."""

    score: ScoreSpec
    nbytes: int


class Analysis(Tables):
    """One stored analysis, read only. Layers and heads are numbered from 0, as the model numbers them."""

    def map(
        self, layer: int, head: int, rows: slice | None = None, columns: slice | None = None, *, kind: str = "self"
    ) -> np.ndarray:
        """Exact weights: float32 [rows, columns]; 0 where invisible, see `visible`.

        rows and columns are slices of positions from 0, None = all. Raises NoExactMap where the head's queries and
        keys were not kept, NotFound for a layer, head or window that does not exist.
        """
        rows, columns = self._window(layer, head, kind, rows, columns)
        kept = self._head(layer, head, kind)
        if kept.dense is not None:
            return np.where(self.visible(layer, head, rows, columns, kind=kind), kept.dense[rows, columns], 0.0)
        score = rule.for_head(self.score(layer, kind), head)
        return window.weights(kept.query, kept.key, score, kept.lse, rows, columns)[0, 0].numpy()

    def visible(
        self, layer: int, head: int, rows: slice | None = None, columns: slice | None = None, *, kind: str = "self"
    ) -> np.ndarray:
        """Which cells a query may see: bool [rows, columns]. Known for every head."""
        rows, columns = self._window(layer, head, kind, rows, columns)
        row = self._layer_row(layer, kind)
        score = rule.for_head(self.score(layer, kind), head)
        seen = window.visible(score, row["queries"], row["keys"], rows, columns)[0, 0]
        return seen.numpy().copy()

    def pooled(
        self,
        layer: int,
        head: int,
        size: int = 128,
        *,
        how: str = "mean",
        kind: str = "self",
        rows: slice | None = None,
        columns: slice | None = None,
    ) -> np.ndarray:
        """A picture of the map, or of a window: float32, at most `size` values per axis, NaN where nothing is visible.

        Block p of P covers the cells floor(p n / P) to floor((p + 1) n / P) of n; its value is the mean or the maximum
        over its visible cells. P = min(size, n). Where only pooled maps were kept, P is the largest number up to
        `size` that divides the stored side, and a part of the map raises NoExactMap.
        """
        rows, columns = self._window(layer, head, kind, rows, columns)
        if how not in ("mean", "max"):
            raise NotFound(f"how: expected mean or max, got {str(how)[:40]!r}.")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise NotFound(f"size: expected a whole number of 1 or more, got {str(size)[:40]!r}.")
        place = self._layer_row(layer, kind)
        if (rows, columns) == (slice(0, place["queries"]), slice(0, place["keys"])):
            stored = self._stored_picture(layer, head, kind, how)
            exact = head in self.exact_heads(layer, kind)
            if stored is not None and (
                not exact or pictures.nests(stored.shape, size, place["queries"], place["keys"])
            ):
                counts = None if how == "max" else self._counts(layer, head, kind, stored.shape)
                return pictures.coarser(stored, counts, size)
        kept = self._head(layer, head, kind)
        score = rule.for_head(self.score(layer, kind), head)
        if kept.dense is not None:
            seen = window.visible(score, *kept.dense.shape, rows, columns)[0, 0].numpy()
            return pictures.pool(kept.dense[rows, columns], seen, size, how)
        return window.pooled(kept.query, kept.key, score, kept.lse, rows, columns, size, how)[0, 0].numpy()

    def picture(
        self,
        layer: int,
        head: int,
        size: int,
        *,
        how: str = "mean",
        kind: str = "self",
        rows: slice | None = None,
        columns: slice | None = None,
    ) -> tuple[np.ndarray, str]:
        """As `pooled`, but quick at any length; and how it was made, "pooled" or "sampled".

        Of a window of more than PICTURE_CELLS cells: the picture that was stored, where it is the whole map and one was
        kept, else some evenly spread rows of every block, each read completely.
        """
        rows, columns = self._window(layer, head, kind, rows, columns)
        place = self._layer_row(layer, kind)
        large = (rows.stop - rows.start) * (columns.stop - columns.start) > PICTURE_CELLS
        if not large or head not in self.exact_heads(layer, kind):
            return self.pooled(layer, head, size, how=how, kind=kind, rows=rows, columns=columns), "pooled"
        if (rows, columns) == (slice(0, place["queries"]), slice(0, place["keys"])):
            stored = self._stored_picture(layer, head, kind, how)
            if stored is not None:
                counts = None if how == "max" else self._counts(layer, head, kind, stored.shape)
                return pictures.coarser(stored, counts, size), "pooled"
        kept = self._head(layer, head, kind)
        score = rule.for_head(self.score(layer, kind), head)
        values = window.sampled(
            kept.query, kept.key, score, kept.lse, rows, columns, size, how, most_cells=PICTURE_CELLS
        )
        return values[0, 0].numpy(), "sampled"

    def links(
        self, *, kind: str | None = None, layer: int | None = None, head: int | None = None, top: int = 8
    ) -> pa.Table:
        """The strongest keys of every row: kind layer head query key weight.

        Stored for heads without exact maps (as many as were asked for at the run), computed here for the others.
        """
        parts = [self.table("links", kind=kind, layer=layer, head=head)]
        for (own_kind, own_layer), row in self._layer_rows.items():
            if kind in (None, own_kind) and layer in (None, own_layer):
                for own_head in self.exact_heads(own_layer, own_kind):
                    if head in (None, own_head):
                        kept, score = self._head(own_layer, own_head, own_kind), self.score(own_layer, own_kind)
                        found = strongest.links(kept, score, own_head, min(top, row["keys"]))
                        for name, value in (("layer", own_layer), ("kind", own_kind)):
                            constant = pa.array([value] * found.num_rows, parts[0].schema.field(name).type)
                            found = found.add_column(0, name, constant)
                        parts.append(found.select(parts[0].column_names).cast(parts[0].schema))
        return pa.concat_tables(parts)

    def exact_heads(self, layer: int, kind: str = "self") -> tuple[int, ...]:
        """The heads of a layer whose exact maps can be computed."""
        self._layer_row(layer, kind)
        return tuple(sorted(head for (part, head) in self._parts[kind, layer] if part in ("query", "dense")))

    def kept(self, layer: int, head: int, *, kind: str = "self") -> Head:
        """What the exact map of a head is computed from, with its lse. Nobody may change it. NoExactMap without it."""
        self._window(layer, head, kind, None, None)
        return self._head(layer, head, kind)

    def weight_error(self, layer: int, head: int, kind: str = "self") -> float | None:
        """Largest error of a weight, measured on sampled rows when the head was stored; None without an exact map."""
        self._window(layer, head, kind, None, None)
        parts = self._parts[kind, layer]
        return parts.get(("query", head), parts.get(("dense", head)))

    def score(self, layer: int, kind: str = "self") -> ScoreSpec:
        """The rule that turns queries and keys of this layer into weights."""
        row = self._layer_row(layer, kind)

        def read() -> Rule:
            names = [part for part, _ in self._parts[kind, layer] if part.startswith("score.")]
            tensors = {name.removeprefix("score."): self._blob(layer, None, kind, name) for name in names}
            try:
                score = rule.from_json(row["score"], tensors)
                return Rule(score, sum(tensor.nbytes for tensor in tensors.values()))
            except Damaged as error:
                raise Damaged(f"Analysis {self.id}, layer {layer}: {error}") from None

        return decoded.get(self.path, ("score", kind, layer), read).score

    # -- what is read --------------------------------------------------------------------------------------------------

    def _window(self, layer: int, head: int, kind: str, rows: slice | None, columns: slice | None):
        """Both slices with their ends said; NotFound with the valid range."""
        row = self._layer_row(layer, kind)
        if isinstance(head, bool) or not isinstance(head, int | np.integer) or not 0 <= head < row["heads"]:
            heads = f"0 to {row['heads'] - 1}"
            raise NotFound(f"There is no head {str(head)[:40]} in layer {layer}; choose {heads}.")
        return _span("rows", rows, row["queries"]), _span("columns", columns, row["keys"])

    def _layer_row(self, layer: int, kind: str) -> dict:
        numbers = [own for own_kind, own in self._layer_rows if own_kind == kind]
        if not numbers:
            kinds = ", ".join(dict.fromkeys(own for own, _ in self._layer_rows))
            raise NotFound(f"There are no maps of kind {str(kind)[:40]!r} in this analysis; choose {kinds}.")
        if isinstance(layer, bool) or not isinstance(layer, int | np.integer) or layer not in numbers:
            whole = numbers == list(range(numbers[0], numbers[-1] + 1))
            choice = f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers))
            raise NotFound(f"There are no maps of layer {str(layer)[:40]} in this analysis; choose {choice}.")
        return self._layer_rows[kind, layer]

    @cached_property
    def _parts(self) -> dict[tuple[str, int], dict[tuple[str, int | None], float | None]]:
        """(kind, layer) -> (part, head) -> measured error of a weight, for the arrays in the file."""
        found: dict = {place: {} for place in self._layer_rows}
        for table in dict.fromkeys(row["maps"] for row in self._layer_rows.values()):
            rows = self._rows(f'SELECT kind, layer, part, head, weight_error FROM "{table}"', what="the list of arrays")
            for kind, layer, part, head, error in rows:
                found.get((kind, layer), {})[part, head] = error
        return found

    def _head(self, layer: int, head: int, kind: str) -> Head:
        if head not in self.exact_heads(layer, kind):
            raise NoExactMap(
                f"The exact map of head {layer}.{head} was not kept, only its pooled map. "
                "Run the analysis again with exact maps of all heads."
            )

        def read() -> Head:
            if ("dense", head) in self._parts[kind, layer]:
                return Head(dense=self._blob(layer, head, kind, "dense"))
            row = self._layer_row(layer, kind)
            key_head = head // (row["heads"] // row["key_heads"])
            query, lse = (self._blob(layer, head, kind, part) for part in ("query", "lse"))
            key = self._blob(layer, key_head, kind, "key")
            return Head(*(torch.from_numpy(array)[None, None] for array in (query, key, lse)))

        return decoded.get(self.path, ("head", kind, layer, head), read)

    def _blob(self, layer: int, head: int | None, kind: str, part: str):
        """One array, its checksum verified. Tensors of the rule come as tensors."""
        whose = f"layer {layer}" if head is None else f"{'key head' if part == 'key' else 'head'} {layer}.{head}"
        what = f"{WORDS.get(part, part)} of {whose}"
        rows = self._rows(
            f'SELECT codec, shape, checksum, data FROM "{self._layer_row(layer, kind)["maps"]}" '
            "WHERE kind = ? AND layer = ? AND part = ? AND head IS NOT DISTINCT FROM ?",
            [kind, int(layer), part, None if head is None else int(head)],  # numbers of numpy too
            what,
        )
        if len(rows) != 1:
            raise Damaged(f"Analysis {self.id}: expected one record of the {what}, found {len(rows)}.")
        name, shape, checksum, data = rows[0]
        try:
            if blobs.checksum(data) != checksum:
                raise Damaged("the bytes do not have the checksum they were written with")
            if part.startswith("score."):
                return rule.tensor_from(name, tuple(shape), data)
            return codec.decode(data, name, tuple(shape), np.nan if part.startswith("pooled") else 0.0)
        except Damaged as error:
            raise Damaged(f"Analysis {self.id}, {what}: {error}. The rest can still be read.") from None

    def _stored_picture(self, layer: int, head: int, kind: str, how: str) -> np.ndarray | None:
        part = f"pooled_{how}"
        if (part, head) not in self._parts[kind, layer]:
            return None
        return decoded.get(self.path, (part, kind, layer, head), lambda: self._blob(layer, head, kind, part))

    def _counts(self, layer: int, head: int, kind: str, shape: tuple[int, int]) -> np.ndarray:
        """Visible cells of every block of a stored picture."""
        row, score = self._layer_row(layer, kind), self.score(layer, kind)
        own = head if pictures.differs_by_head(score) else None
        return decoded.get(
            self.path,
            ("counts", kind, layer, own, shape),
            lambda: pictures.visible_counts(rule.for_head(score, head), row["queries"], row["keys"], shape),
        )


def _span(name: str, given: slice | None, length: int) -> slice:
    """The slice with both ends; NotFound outside 0 .. length."""
    if given is None:
        return slice(0, length)
    if not isinstance(given, slice):
        raise NotFound(f"{name}: expected a slice such as slice(0, {length}), or None, got {str(given)[:40]}.")
    start, stop = 0 if given.start is None else given.start, length if given.stop is None else given.stop
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in (start, stop))
    if not whole or given.step not in (None, 1) or not 0 <= start < stop <= length:
        raise NotFound(f"{name}: expected start < stop within 0 to {length} and no step, got {given}.")
    return slice(int(start), int(stop))
