"""Blobs: the large arrays of an analysis, each with the checksum it was written with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Blob:
    """One array, encoded."""

    part: str
    head: int | None
    codec: str
    shape: tuple[int, ...]
    data: bytes
    weight_error: float | None = None


def checksum(data: bytes) -> str:
    """SHA-256, hexadecimal: what DuckDB's sha256(data) gives."""
    return hashlib.sha256(data).hexdigest()


def as_table(blobs: list[Blob]) -> pa.Table:
    """The rows of a table of blobs, columns as in schema.MAPS."""
    return pa.table(
        {
            "part": pa.array([b.part for b in blobs], pa.string()),
            "head": pa.array([b.head for b in blobs], pa.int32()),
            "codec": pa.array([b.codec for b in blobs], pa.string()),
            "shape": pa.array([list(b.shape) for b in blobs], pa.list_(pa.int32())),
            "weight_error": pa.array([b.weight_error for b in blobs], pa.float32()),
            "checksum": pa.array([checksum(b.data) for b in blobs], pa.string()),
            "data": pa.array([b.data for b in blobs], pa.large_binary()),
        }
    )
