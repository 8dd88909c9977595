"""What is kept of a layer's queries and keys, so that any weight can be computed again.

A weight is exp(score - lse). Queries and keys go into 16 bits, so the lse must be that of the *decoded* ones: with it a
row still sums to 1 and the largest error of a weight stays near 1e-3; with the original lse it would be ten times that.
Heads for which that is not enough (large scores) are kept in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend.errors import Refused
from backend.store.blobs import Blob
from backend.store.codec import encode, through_int16
from backend.types import LayerRecord
from kernels.api import attend, weights
from kernels.measures import NOTHING

LARGEST_ERROR = 2e-3  # of a weight; a head above it is kept in float32
SMALL_ANALYSIS = 4 * 1024 * 1024  # bytes of all queries and keys in float32: below, nothing is quantised
SAMPLED_BLOCK = 16  # rows per sampled block: the last ones, and three blocks spread before them
SAMPLED_BLOCKS = 4
DENSE_FLOAT32 = 512  # tokens; up to DENSE_FLOAT16 in 16 bits, nothing dense above
DENSE_FLOAT16 = 1024
HALF = {torch.bfloat16: "bfloat16", torch.float16: "float16"}


def float32_bytes(record: LayerRecord) -> int:
    """What the kept queries and keys of this layer would take in float32."""
    if not record.exact or record.dense is not None:
        return 0
    group = record.info.heads // record.info.key_heads
    key_heads = {head // group for head in record.exact}
    return 4 * (len(record.exact) * record.query[0].numel() + len(key_heads) * record.key[0].numel())


def keep(record: LayerRecord, small: bool) -> tuple[list[Blob], Tensor]:
    """Blobs of the kept heads, and the lse [H, Nq] float32 that goes with them (NaN for dense heads).

    small: the whole analysis is small enough for float32.
    """
    if record.dense is not None:
        return dense_blobs(record), torch.full(record.dense.shape[:2], torch.nan)
    lse = record.lse.to(torch.float32).cpu()
    if not record.exact:
        return [], lse
    query_codec, key_codec, errors = ["float32"] * record.info.heads, ["float32"] * record.info.key_heads, None
    if not small:
        half = HALF.get(record.query.dtype) if record.query.dtype == record.key.dtype else None
        if half is not None:  # already 16 bits: kept as they are, nothing is lost
            query_codec, key_codec = [half] * record.info.heads, [half] * record.info.key_heads
        else:
            query_codec, key_codec, lse, errors = quantise(record)
    group = record.info.heads // record.info.key_heads
    blobs = []
    for head in record.exact:
        error = 0.0 if errors is None else float(errors[head])
        queries = record.query[head]
        blobs.append(
            Blob("query", head, query_codec[head], tuple(queries.shape), encode(queries, query_codec[head]), error)
        )
        blobs.append(Blob("lse", head, "float32", tuple(lse[head].shape), encode(lse[head], "float32")))
    for head in sorted({head // group for head in record.exact}):
        keys = record.key[head]
        blobs.append(Blob("key", head, key_codec[head], tuple(keys.shape), encode(keys, key_codec[head])))
    return blobs, lse


def quantise(record: LayerRecord) -> tuple[list[str], list[str], Tensor, Tensor]:
    """Codec of every query head and key head, the lse [H, Nq] of what they decode to, and the error [H] of a weight."""
    query, key = record.query.to(torch.float32), record.key.to(torch.float32)
    score = record.score.to(query.device)
    truth = sampled_weights(query, key, record, record.lse.to(query.device, torch.float32))
    heads, key_heads = record.info.heads, record.info.key_heads
    group = heads // key_heads
    whole_query = ~query.isfinite().flatten(1).all(1)  # heads kept in float32
    whole_key = ~key.isfinite().flatten(1).all(1)
    while True:
        decoded_query = torch.where(whole_query[:, None, None], query, through_int16(query))
        decoded_key = torch.where(whole_key[:, None, None], key, through_int16(key))
        nothing = torch.zeros(1, key_heads, key.shape[1], 1, device=key.device)
        lse = attend(decoded_query[None], decoded_key[None], nothing, score, NOTHING).lse[0].to(torch.float32)
        found = sampled_weights(decoded_query, decoded_key, record, lse)
        errors = torch.stack([(a - b).abs().nan_to_num(0.0).amax((1, 2)) for a, b in zip(found, truth, strict=True)])
        errors = errors.amax(0)
        bad = (errors > LARGEST_ERROR) & ~whole_query
        if not bad.any():
            break
        whole_query = whole_query | bad
        whole_key = whole_key | bad.view(key_heads, group).any(1)
    codecs = [["float32" if whole else "int16" for whole in wholes.tolist()] for wholes in (whole_query, whole_key)]
    return codecs[0], codecs[1], lse.cpu(), errors.cpu()


def sampled_weights(query: Tensor, key: Tensor, record: LayerRecord, lse: Tensor) -> list[Tensor]:
    """Weights [H, rows, Nk] of the last rows and of blocks spread before them."""
    score = record.score.to(query.device)
    n_query, n_key = query.shape[1], key.shape[1]
    last = max(0, n_query - SAMPLED_BLOCK)
    starts = sorted({last * block // (SAMPLED_BLOCKS - 1) for block in range(SAMPLED_BLOCKS)})
    return [
        weights(query[None], key[None], score, lse[None], slice(s, min(n_query, s + SAMPLED_BLOCK)), slice(0, n_key))[0]
        for s in starts
    ]


def dense_blobs(record: LayerRecord) -> list[Blob]:
    """The probabilities themselves, for families that compute their own softmax. Refused above DENSE_FLOAT16 tokens."""
    dense = record.dense
    n_query, n_key = dense.shape[1:]
    longest = max(n_query, n_key)
    if longest > DENSE_FLOAT16:
        raise Refused(
            f"Maps of models with their own softmax are kept up to {DENSE_FLOAT16} tokens; this one has {longest}. "
            "Shorten the prompt."
        )
    number = "float32" if longest <= DENSE_FLOAT32 else "float16"
    codec = number + (":triangle" if record.score.causal and n_query == n_key else "")
    blobs = []
    for head in record.exact:
        values = dense[head].to(torch.float32)
        error = float((values - values.to(getattr(torch, number))).abs().nan_to_num(0.0).amax())
        blobs.append(Blob("dense", head, codec, (n_query, n_key), encode(values, codec), error))
    return blobs


def pooled_blobs(record: LayerRecord) -> list[Blob]:
    """The pooled maps, in float16; not those of heads whose exact map is kept and no larger."""
    blobs = []
    for part in ("pooled_mean", "pooled_max"):
        maps = record.measures.get(part)
        if maps is None:
            continue
        n_query, n_key = n_rows(record), n_keys(record)
        shape = tuple(maps.shape[1:])
        redundant = shape == (n_query, n_key)
        codec = "float16:triangle" if record.score.causal and n_query == n_key else "float16"
        for head in range(record.info.heads):
            if not (redundant and head in record.exact):
                blobs.append(Blob(part, head, codec, shape, encode(maps[head], codec)))
    return blobs


def n_rows(record: LayerRecord) -> int:
    """Number of query rows of the layer."""
    return record.lse.shape[1] if record.dense is None else record.dense.shape[1]


def n_keys(record: LayerRecord) -> int:
    """Number of keys of the layer."""
    return record.key.shape[1] if record.dense is None else record.dense.shape[2]
