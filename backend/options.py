"""Options: what a person may choose about a run, and which heads keep their exact maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from backend.errors import Refused
from backend.interventions import Intervention, from_dict
from backend.types import LayerInfo
from kernels.api import IMPLEMENTATIONS

MEGABYTE = 1e6
EXACT_MAPS = ("auto", "all", "none")


@dataclass(frozen=True)
class Options:
    """Choices of one run. What they change about the result is part of the cache key."""

    impl: str = "auto"
    exact_maps: str | list = "auto"  # keep Q, K: "auto" = all heads while the disk budget lasts, else every second
    # layer, fourth ...; "all"; "none"; [(layer, head), ...]
    disk_budget_mb: int = 2048
    pooled: int = 128
    top_links: int = 8  # stored for heads without exact maps, computed on demand for the others
    max_tokens: int | None = None  # refuse above it, naming both numbers
    new_tokens: int = 0  # generate, and keep their attention
    num_beams: int = 1
    predictions: int = 10  # top next tokens kept for the last position and each generated step
    temperature: float | None = None  # sampling of generated text; None = greedy
    top_p: float = 1.0
    seed: int = 0
    keep_media: bool = False  # store the picture or sound in the analysis
    interventions: tuple = ()  # of backend/interventions.py, or their dictionaries: what is changed while it runs

    def check(self) -> None:
        """Refused where a value makes no sense or asks for what this version does not do."""
        if self.impl not in IMPLEMENTATIONS:
            raise Refused(f"Options.impl: expected one of {', '.join(IMPLEMENTATIONS)}, got {self.impl!r}.")
        if isinstance(self.exact_maps, str) and self.exact_maps not in EXACT_MAPS:
            raise Refused(
                f"Options.exact_maps: expected {', '.join(EXACT_MAPS)} or a list of (layer, head), "
                f"got {self.exact_maps!r}."
            )
        for name in ("exact_maps", "interventions"):
            if not isinstance(getattr(self, name), str | list | tuple):
                raise Refused(f"Options.{name}: expected a list, got {getattr(self, name)!r}.")
        for name, least in (
            ("disk_budget_mb", 0),
            ("pooled", 1),
            ("top_links", 0),
            ("predictions", 0),
            ("new_tokens", 0),
            ("num_beams", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise Refused(f"Options.{name}: expected a whole number of {least} or more, got {value!r}.")
        if self.max_tokens is not None and (type(self.max_tokens) is not int or self.max_tokens < 1):
            raise Refused(
                f"Options.max_tokens: expected a whole number of 1 or more, or None, got {self.max_tokens!r}."
            )
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise Refused(f"Options.{name}: expected a number, got {value!r}.")
        if type(self.seed) is not int or not -(2**63) <= self.seed < 2**63:
            raise Refused(f"Options.seed: expected a whole number of at most 64 bits, got {self.seed!r}.")
        if type(self.keep_media) is not bool:
            raise Refused(f"Options.keep_media: expected True or False, got {self.keep_media!r}.")
        _ = self.changes

    @property
    def changes(self) -> tuple[Intervention, ...]:
        """The interventions. Refused for a dictionary that describes none."""
        return tuple(from_dict(given) if isinstance(given, Mapping) else given for given in self.interventions)

    def as_dict(self) -> dict:
        """All fields as JSON values, for `info`."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "interventions": [change.to_dict() for change in self.changes]}

    def result_key(self, exact: Sequence[tuple[int, ...]]) -> dict:
        """The options that change what is stored, for the cache key: limits are left out, the kept heads are in."""
        drawn = (self.temperature, self.top_p, self.seed) if self.temperature is not None else ()
        return {
            "impl": self.impl,
            "exact": [list(heads) for heads in exact],
            "pooled": self.pooled,
            "top_links": self.top_links,
            "predictions": self.predictions,
            "interventions": [change.to_dict() for change in self.changes],
            "writing": [self.new_tokens, self.num_beams, *drawn] if self.new_tokens else None,
        }


def exact_heads(
    exact_maps: str | list, budget_mb: float, layers: Sequence[LayerInfo], layer_bytes: Callable[[LayerInfo, int], int]
) -> list[tuple[int, ...]]:
    """The heads of each layer whose queries and keys are kept, in the order of `layers`.

    "auto" keeps all heads of every layer, or of every second, fourth ... layer, the first that fits the budget; none
    where a single layer does not fit. layer_bytes(layer, number of heads) says what keeping them takes on disk.
    """
    everything = [tuple(range(layer.heads)) for layer in layers]
    if exact_maps == "all":
        return everything
    if exact_maps == "none":
        return [() for _ in layers]
    if exact_maps != "auto":
        return _chosen(exact_maps, layers)
    stride = 1
    while stride < 2 * len(layers):
        kept = [heads if place % stride == 0 else () for place, heads in enumerate(everything)]
        needed = sum(layer_bytes(layer, len(heads)) for layer, heads in zip(layers, kept, strict=True) if heads)
        if needed <= budget_mb * MEGABYTE:
            return kept
        stride *= 2
    return [() for _ in layers]


def _chosen(pairs: list, layers: Sequence[LayerInfo]) -> list[tuple[int, ...]]:
    """The heads named as (layer, head); Refused for one that the model does not have."""
    heads_of: dict[int, int] = {}
    for layer in layers:  # of every kind that has a layer of this number
        heads_of[layer.layer] = max(layer.heads, heads_of.get(layer.layer, 0))
    chosen: dict[int, set[int]] = {}
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(type(part) is int for part in pair)):
            raise Refused(f"Options.exact_maps: expected pairs (layer, head) of whole numbers, got {pair!r}.")
        layer, head = pair
        if layer not in heads_of:
            raise Refused(f"Options.exact_maps: there is no attention layer {layer}; there are {sorted(heads_of)}.")
        if not 0 <= head < heads_of[layer]:
            raise Refused(f"Options.exact_maps: layer {layer} has heads 0 to {heads_of[layer] - 1}, got {head}.")
        chosen.setdefault(layer, set()).add(head)
    return [tuple(head for head in sorted(chosen.get(layer.layer, ())) if head < layer.heads) for layer in layers]
