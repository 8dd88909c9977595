"""The key under which a run is found again: what is equal has the same, nothing that differs has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass

from backend.store import schema


def cache_key(
    *,
    weights_hash: str,
    tokenizer_hash: str,
    token_ids: Sequence[int],
    dtype: str,
    implementation: str,
    options: object,
) -> str:
    """SHA-256, hexadecimal, over everything that decides what an analysis holds, each part with its length before it.

    options: a dataclass or mapping of JSON values (dataclasses inside them included); interventions are part of it.
    """
    parts = [
        f"schema {schema.current()}",
        weights_hash,
        tokenizer_hash,
        " ".join(str(int(token)) for token in token_ids),
        dtype,
        implementation,
        json.dumps(plain(options), sort_keys=True, ensure_ascii=True),
    ]
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def plain(value: object) -> object:
    """A value as JSON that tells types apart: 1 is not "1", (1,) is [1], a dataclass is its name and fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__, "fields": plain(asdict(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"cache_key: expected numbers, texts, lists and mappings in the options, got {type(value).__name__}."
    )
