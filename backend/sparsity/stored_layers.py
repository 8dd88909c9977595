"""The layers of a stored analysis as policies see them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from backend.errors import Refused
from backend.map_sizes import map_sizes
from backend.policies import Layer
from backend.store import Analysis
from backend.types import LayerInfo

SHARE_BEHIND = 4  # one token in so many judges
MOST_BEHIND = 256


def context_length(n_tokens: int) -> int:
    """Tokens in the cache when a policy decides; the last quarter, at most 256 tokens, judges. Refused below 2."""
    if n_tokens < 2:
        raise Refused("A policy needs at least two tokens: one to keep or drop and one behind it that looks back.")
    return n_tokens - min(MOST_BEHIND, max(1, n_tokens // SHARE_BEHIND))


def stored_layers(analysis: Analysis, kind: str, n: int | None = None) -> list[Callable[[], Layer]]:
    """One loader per layer. Refused where the model reads both ways, or not all heads were kept exactly."""
    layers = [layer for layer in analysis.layers(kind) if layer.attention == "softmax"]
    size = map_sizes(analysis)[kind][layers[0].layer]
    if kind == "cross":
        raise Refused(
            "Cross-attention reads the keys of the encoder, and no cache grows with the text: nothing to evict."
        )
    if kind not in ("self", "decoder") or not analysis.score(layers[0].layer, kind).causal:
        raise Refused("This model reads both ways and has no cache: there is nothing to evict, only patterns apply.")
    for layer in layers:
        if len(analysis.exact_heads(layer.layer, kind)) < layer.heads:
            raise Refused(
                f"A policy looks at all heads of a layer, and of layer {layer.layer} not all were kept exactly. Run "
                'the analysis again with exact maps of all heads ("all").'
            )
    n = context_length(size.queries) if n is None else n
    return [
        lambda at=at, layer=layer: read_layer(analysis, layer, at, len(layers), n) for at, layer in enumerate(layers)
    ]


def not_counted(analysis: Analysis, kind: str) -> str | None:
    """What is said of layers of a hybrid model that keep no keys; None where there is none."""
    numbers = [layer.layer for layer in analysis.layers(kind) if layer.attention == "softmax"]
    if kind != "self" or not numbers:
        return None
    count, of = len(numbers), numbers[-1] + 1
    if count == of:
        return None
    return f"Counted are the {count:,} layers of softmax attention among the first {of:,}; the others keep no keys."


def read_layer(analysis: Analysis, info: LayerInfo, place: int, layers: int, n: int) -> Layer:
    """One layer. Refused for families whose own softmax was stored instead of queries and keys."""
    heads = [analysis.kept(info.layer, head, kind=info.kind) for head in range(info.heads)]
    if any(head.dense is not None for head in heads):
        raise Refused("Only the weights of this family were stored, not its queries and keys, which policies look at.")
    group = info.heads // info.key_heads
    table = analysis.sql(
        "select value_norm from keys where kind = ? and layer = ? and head % ? = 0 order by head, key",
        (info.kind, info.layer, group),
    )
    norms = table["value_norm"].to_pylist()
    unknown = None in norms  # the family's layers handed over no values
    return Layer(
        number=info.layer,
        place=place,
        layers=layers,
        n=n,
        query=torch.cat([head.query[0] for head in heads]).float(),
        key=torch.cat([heads[h * group].key[0] for h in range(info.key_heads)]).float(),
        lse=torch.cat([head.lse[0] for head in heads]),
        score=analysis.score(info.layer, info.kind),
        value_norm=None if unknown else torch.tensor(norms).reshape(info.key_heads, -1),
    )
