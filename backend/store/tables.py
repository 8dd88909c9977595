"""Records of a run as Arrow tables, columns as in the schema. NaN and -1 become NULL where they mean nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields

import numpy as np
import pyarrow as pa
from torch import Tensor

from backend.store import rule
from backend.store.exact import n_keys, n_rows
from backend.types import LayerRecord, Prediction, Segment, Token
from kernels.measures import SHARES, distance_index

ROW_FLOATS = (
    "entropy",
    "max_weight",
    "sum_square",
    "mean_distance",
    "first_mass",
    "self_mass",
    "previous_mass",
    "duplicate_mass",
    "induction_mass",
    "learned_sink_mass",
)


def floats(values: Tensor | None, length: int) -> pa.Array:
    """float32, flattened; NaN is NULL; all NULL where nothing was measured."""
    if values is None:
        return pa.nulls(length, pa.float32())
    return pa.array(values.float().cpu().reshape(-1).numpy(), pa.float32(), from_pandas=True)


def counts(values: Tensor | None, length: int, kind: pa.DataType | None = None) -> pa.Array:
    """Whole numbers, flattened; negative ones are NULL."""
    kind = kind or pa.int32()
    if values is None:
        return pa.nulls(length, kind)
    array = values.cpu().reshape(-1).numpy()
    return pa.array(array, mask=array < 0).cast(kind)


def heads_by(heads: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """head and index of a flattened [heads, length]."""
    return np.repeat(np.arange(heads, dtype=np.int32), length), np.tile(np.arange(length, dtype=np.int32), heads)


def rows(record: LayerRecord, lse: Tensor) -> pa.Table:
    """One row per head and query."""
    n_query, measures = n_rows(record), record.measures
    head, query = heads_by(record.info.heads, n_query)
    length = len(head)
    columns = {"head": head, "query": query, "lse": floats(lse, length)}
    columns |= {name: floats(measures.get(name), length) for name in ROW_FLOATS}
    columns |= {name: counts(measures.get(name), length) for name in ("visible_keys", "max_key", "negligible")}
    return pa.table(columns)


def keys(record: LayerRecord) -> pa.Table:
    """One row per head and key."""
    head, key = heads_by(record.info.heads, n_keys(record))
    length = len(head)
    columns = {"head": head, "key": key, "visible_rows": counts(record.measures.get("visible_rows"), length)}
    columns |= {name: floats(record.measures.get(name), length) for name in ("received_sum", "received_max")}
    columns |= {name: floats(getattr(record, name), length) for name in ("key_norm", "value_norm", "output_norm")}
    return pa.table(columns)


def distances(record: LayerRecord) -> pa.Table | None:
    """One row per head and distance that some row sees; query - key, negative where keys come later."""
    if "distance_sum" not in record.measures:
        return None
    mass, seen = record.measures["distance_sum"], record.measures["distance_rows"]
    _, zero = distance_index(record.score.causal, n_rows(record), n_keys(record))
    head, index = heads_by(record.info.heads, mass.shape[1])
    kept = seen.cpu().reshape(-1).numpy() > 0
    return pa.table(
        {
            "head": head[kept],
            "distance": index[kept] - np.int32(zero),
            "rows": seen.cpu().reshape(-1).numpy()[kept],
            "mass_sum": mass.float().cpu().reshape(-1).numpy()[kept],
        }
    )


def coverage(record: LayerRecord) -> pa.Table | None:
    """One row per head, share and sampled query; in this order the columns compress to little."""
    if "coverage" not in record.measures:
        return None
    sampled = record.measures["sampled_rows"].cpu().numpy().astype(np.int32)
    heads, shares = record.info.heads, [round(100 * share) for share in SHARES]
    return pa.table(
        {
            "head": np.repeat(np.arange(heads, dtype=np.int32), len(shares) * len(sampled)),
            "query": np.tile(sampled, heads * len(shares)),
            "percent": np.tile(np.repeat(shares, len(sampled)), heads),
            "keys": counts(record.measures["coverage"].transpose(1, 2), heads * len(shares) * len(sampled)),
        }
    )


def links(record: LayerRecord) -> pa.Table | None:
    """The strongest keys of each row, for heads whose exact maps are not kept."""
    chosen = [head for head in range(record.info.heads) if head not in record.exact]
    if "top_keys" not in record.measures or not chosen:
        return None
    return links_table(record.measures["top_keys"][chosen], record.measures["top_weights"][chosen], chosen)


def links_table(top_keys: Tensor, top_weights: Tensor, heads: Iterable[int]) -> pa.Table:
    """head query key weight of [heads, Nq, top] strongest keys; places without a key are left out."""
    n_query, top = top_keys.shape[1:]
    flat = top_keys.cpu().reshape(-1).numpy()
    kept = flat >= 0
    head = np.repeat(np.array(list(heads), np.int32), n_query * top)
    query = np.tile(np.repeat(np.arange(n_query, dtype=np.int32), top), top_keys.shape[0])
    return pa.table(
        {
            "head": head[kept],
            "query": query[kept],
            "key": flat[kept].astype(np.int32),
            "weight": top_weights.float().cpu().reshape(-1).numpy()[kept],
        }
    )


def hidden(record: LayerRecord) -> pa.Table | None:
    """Norm and largest magnitude of the residual stream that enters the layer, by position."""
    if record.hidden_norm is None:
        return None
    n = record.hidden_norm.shape[-1]
    columns = {"position": np.arange(n, dtype=np.int32)}
    return pa.table(columns | {"norm": floats(record.hidden_norm, n), "max_abs": floats(record.hidden_max, n)})


def layer_row(record: LayerRecord, score: str, maps: str) -> dict[str, object]:
    """The layer's row in `layers`."""
    return vars(record.info) | {"queries": n_rows(record), "keys": n_keys(record), "score": score, "maps": maps}


def heads(record: LayerRecord) -> list[dict[str, object]]:
    """The layer's rows in `heads`: a column per statistic, None where it is undefined."""
    values = {name: np.asarray(column, np.float64) for name, column in record.statistics.items()}
    return [
        {"kind": record.info.kind, "layer": record.info.layer, "head": head}
        | {name: None if np.isnan(column[head]) else float(column[head]) for name, column in values.items()}
        for head in range(record.info.heads)
    ]


def tokens(items: list[Token]) -> pa.Table:
    """The token table; -1 (no segment, no word, no text) is NULL."""
    texts = ("text", "label", "raw")
    columns = {field.name: [getattr(item, field.name) for item in items] for field in fields(Token)}
    columns |= {name: [storable(text) for text in columns[name]] for name in texts}
    columns |= {name: [v if v >= 0 else None for v in columns[name]] for name in ("start", "end", "segment", "word")}
    columns["stop"] = columns.pop("end")
    types = {name: pa.int32() for name in ("position", "token_id", "start", "stop", "segment", "word")}
    types |= {"bytes": pa.binary(), "is_special": pa.bool_(), "logprob": pa.float64()}
    return pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()})


def segments(items: list[Segment]) -> list[dict[str, object]]:
    """Named runs of tokens, numbered from 0."""
    return [
        {"segment": i, "name": storable(s.name), "kind": s.kind, "start": s.start, "stop": s.end}
        for i, s in enumerate(items)
    ]


def predictions(items: list[Prediction]) -> list[dict[str, object]]:
    """Candidates for the next token."""
    return [vars(item) | {"text": storable(item.text)} for item in items]


def info(values: dict[str, object]) -> list[dict[str, object]]:
    """One row per fact, the value as JSON."""
    return [
        {"name": name, "value": json.dumps(storable_tree(value), allow_nan=False)} for name, value in values.items()
    ]


def storable(text: str) -> str:
    """The text without lone surrogates, which are no characters and which no file can hold; they become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def storable_tree(value: object) -> object:
    """The same for every text inside a JSON value; numbers that JSON does not have become null."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_tree(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def rule_blobs(record: LayerRecord):
    """JSON of the layer's rule, and its tensors as (name, type, shape, bytes)."""
    text, tensors = rule.to_json(record.score)
    return text, [(name, *rule.tensor_bytes(tensor)) for name, tensor in tensors.items()]
