"""The variants of the Triton kernels: one table that drives the interpreter against the reference and the compilation.

A variant is a rule (fields of ScoreSpec), a request, shapes and a type. bfloat16 is compiled only: the interpreter
multiplies its bit patterns. tests/kernels/test_triton_table.py says what the table must reach.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec

EVERYTHING = {"scores": True, "top": 3, "groups": 3, "tokens": 4, "sampled": 5, "pooled": 3}
DEFAULTS = {"sampled": 6, "pooled": 4}  # the defaults of MeasureRequest, at the size of a test
OUTPUT_ONLY = {"rows": False, "keys": False, "distances": False, "pooled": None, "sampled": 0}


@dataclass(frozen=True)
class Variant:
    name: str
    rule: dict = field(default_factory=dict)  # fields of ScoreSpec; a function is called with the variant
    request: dict = field(default_factory=lambda: DEFAULTS)  # groups and tokens are numbers of distinct ones here
    n_query: int = 33
    n_key: int | None = None  # None: as many as rows
    features: int = 16
    columns: int | None = None  # of the value; None: as many as features
    heads: tuple[int, int] = (2, 1)
    batch: int = 1
    dtype: torch.dtype = torch.float32
    layout: Callable[[Tensor], Tensor] | None = None  # the same numbers, lying differently
    interpreted: bool = True  # whether the interpreter test takes it; the compilation takes all

    @property
    def length(self) -> int:
        return self.n_key or self.n_query

    def build(self) -> tuple[Tensor, Tensor, Tensor, ScoreSpec, MeasureRequest]:
        """Query, key, value, rule and request, the same every time."""
        made = torch.Generator().manual_seed(7)

        def tensor(heads: int, rows: int, features: int) -> Tensor:
            values = (1.5 * torch.randn(self.batch, heads, rows, features, generator=made)).to(self.dtype)
            return values if self.layout is None else self.layout(values)

        query = tensor(self.heads[0], self.n_query, self.features)
        key = tensor(self.heads[1], self.length, self.features)
        value = tensor(self.heads[1], self.length, self.columns or self.features)
        with torch.random.fork_rng():
            torch.manual_seed(11)
            rule = {name: value_(self) if callable(value_) else value_ for name, value_ in self.rule.items()}
            request = dict(self.request)
            for name, low in (("groups", -1), ("tokens", 0)):
                if name in request:
                    request[name] = torch.randint(low, request[name], (self.batch, self.length))
        scale = rule.pop("scale", self.features**-0.5)
        return query, key, value, ScoreSpec(scale, **rule), MeasureRequest(**request)


def noise(*axes: str) -> Callable[[Variant], Tensor]:
    """Random numbers over named axes: B, H, q, k, d (distances), a number for an axis of that length."""

    def make(variant: Variant) -> Tensor:
        lengths = {"B": variant.batch, "H": variant.heads[0], "q": variant.n_query, "k": variant.length}
        lengths["d"] = variant.n_query + variant.length - 1
        return torch.randn(*(lengths[axis] if axis in lengths else int(axis) for axis in axes))

    return make


def some_true(*axes: str) -> Callable[[Variant], Tensor]:
    return lambda variant: noise(*axes)(variant) > -0.8


def with_holes(*axes: str) -> Callable[[Variant], Tensor]:
    """Biases of which about a fifth hide their cell."""

    def make(variant: Variant) -> Tensor:
        values = noise(*axes)(variant)
        return values.masked_fill(values < -0.8, float("-inf"))

    return make


def padding(*spans: tuple[float, float]) -> Callable[[Variant], Tensor]:
    """Real tokens of each sample as a span in shares of the length."""

    def make(variant: Variant) -> Tensor:
        at = (torch.arange(variant.length) + 0.5) / variant.length
        return torch.stack([(at >= low) & (at < high) for low, high in spans])

    return make


def blind_rows(variant: Variant) -> Tensor:
    """Row 0 sees nothing, row 5 sees key 5 alone."""
    mask = torch.ones(1, 1, variant.n_query, variant.length, dtype=torch.bool)
    mask[..., 0, :], mask[..., 5, :], mask[..., 5, 5] = False, False, True
    return mask


def strided(values: Tensor) -> Tensor:
    """Every other feature of a tensor that lies as [B, N, H, 2 D], as projections leave it."""
    batch, heads, rows, features = values.shape
    wide = values.new_full((batch, rows, heads, 2 * features), torch.nan)
    wide[..., ::2] = values.transpose(1, 2)
    return wide.transpose(1, 2)[..., ::2]


def expanded(values: Tensor) -> Tensor:
    """One sample and head, seen as all of them."""
    return values[:1, :1].expand(values.shape)


HALF, BRAIN = torch.float16, torch.bfloat16
GROUPED = {"heads": (4, 2)}
LEFT_AND_RIGHT = padding((0.3, 1.0), (0.0, 0.7))

VARIANTS = [
    # lengths and head sizes, float32 and float16
    Variant("length 1", n_query=1, features=8),
    Variant("length 2", n_query=2, features=24, request=EVERYTHING),
    Variant("length 15", n_query=15, features=80),
    Variant("length 16", n_query=16, features=96, dtype=HALF),
    Variant("length 17", n_query=17, features=112),
    Variant("length 63", n_query=63, features=128, dtype=HALF),
    Variant("length 64", n_query=64, features=32, columns=40),
    Variant("length 65", n_query=65, features=16, request=EVERYTHING, **GROUPED),
    Variant("length 127", n_query=127, features=192, columns=16, heads=(1, 1)),
    Variant("length 130", n_query=130, features=64, columns=24, heads=(1, 1), dtype=HALF),
    Variant("one row of many keys", n_query=1, n_key=65, features=256, heads=(1, 1)),
    Variant("fewer rows than keys", n_query=17, n_key=65, request=EVERYTHING),
    Variant("more rows than keys", n_query=65, n_key=17),
    Variant("bidirectional", {"causal": False}, n_query=17, n_key=40, request=EVERYTHING),
    Variant("strided", n_query=17, features=24, layout=strided, batch=2, **GROUPED),
    Variant("expanded", n_query=17, layout=expanded, batch=2, heads=(2, 2)),
    # what each row may see
    Variant("window", {"window": 9}, n_query=65),
    Variant("window and first keys", {"window": 20, "keep_first": 3}, n_query=65, request=EVERYTHING),
    Variant("around", {"causal": False, "around": (7, 33)}, n_query=65),
    Variant("around and first keys", {"causal": False, "around": (2, 3), "keep_first": 50}, n_query=40, n_key=70),
    Variant("around and causal", {"around": (20, 0)}, n_query=40),
    Variant("chunk", {"chunk": 19}, n_query=65, request=EVERYTHING),
    Variant("chunk, window, first keys, padded", {"chunk": 19, "window": 8, "keep_first": 2,
            "key_padding": LEFT_AND_RIGHT}, n_query=40, batch=2),
    Variant("padded", {"key_padding": LEFT_AND_RIGHT}, batch=2, request=EVERYTHING),
    Variant("padded encoder", {"key_padding": LEFT_AND_RIGHT, "causal": False}, batch=2),
    Variant("padded source and target", {"key_padding": LEFT_AND_RIGHT, "causal": False,
            "row_padding": lambda v: torch.arange(v.n_query)[None] < torch.tensor([[20], [33]])}, n_key=33, batch=2),
    Variant("mask", {"mask": some_true("B", "1", "q", "k")}, batch=2),
    Variant("rows that see nothing", {"mask": blind_rows}, request=EVERYTHING),
    Variant("rows that see nothing but a sink", {"mask": blind_rows, "sink": noise("H")}, request=EVERYTHING),
    # what becomes of a score
    Variant("softcap", {"softcap": 2.0, "scale": 0.5}, request=EVERYTHING),
    Variant("temperature", {"temperature": lambda v: torch.tensor([2.0, float("inf")])}, request=EVERYTHING),
    Variant("sink", {"sink": noise("H")}, n_query=40),
    Variant("large sink", {"sink": lambda v: torch.tensor([60.0, float("-inf")])}),
    Variant("bias by distance", {"bias_by_distance": noise("H", "d")}, n_query=17, n_key=40),
    Variant("bias by distance, holes", {"bias_by_distance": with_holes("H", "d"), "causal": False}),
    Variant("key bias", {"key_bias": with_holes("B", "1", "k")}, batch=2),
    Variant("key bias per head", {"key_bias": noise("1", "H", "k")}, dtype=HALF),
    Variant("row bias", {"row_bias": with_holes("1", "H", "q"), "row_bias_keys": some_true("k")}),
    Variant("row bias by group", {"row_bias": noise("B", "1", "q", "3"),
            "row_bias_keys": lambda v: torch.randint(-1, 3, (v.length,))}, batch=2),
    Variant("dense bias", {"bias": with_holes("1", "H", "q", "k")}),
    Variant("dense bias of the least number", {"bias": lambda v: torch.finfo(torch.float32).min
            * (torch.arange(v.length) > 3).expand(1, 1, v.n_query, v.length).float()}),
    Variant("scores of a million", {"scale": 4e5}, request=EVERYTHING | {"scores": False}),
    # what is asked for
    Variant("output only", request=OUTPUT_ONLY, n_query=40),
    Variant("rows only", request=OUTPUT_ONLY | {"rows": True}, n_query=40),
    Variant("keys only", request=OUTPUT_ONLY | {"keys": True}, n_query=70),
    Variant("keys only, window", {"window": 9, "key_padding": LEFT_AND_RIGHT}, OUTPUT_ONLY | {"keys": True}, n_query=70,
            batch=2),
    Variant("keys only, first keys", {"window": 9, "keep_first": 2}, OUTPUT_ONLY | {"keys": True}, 17, 70),
    Variant("keys only, more rows", request=OUTPUT_ONLY | {"keys": True}, n_query=70, n_key=40),
    Variant("keys only, around", {"causal": False, "around": (3, 30)}, OUTPUT_ONLY | {"keys": True}, n_query=40),
    Variant("distances only", request=OUTPUT_ONLY | {"distances": True}, n_query=40, n_key=70),
    Variant("pooled only", request=OUTPUT_ONLY | {"pooled": 33}, n_query=33, n_key=70),
    Variant("sampled only", request=OUTPUT_ONLY | {"sampled": 20}, n_query=40),
    Variant("tokens only", request=OUTPUT_ONLY | {"tokens": 4}, n_query=40),
    Variant("all rules at once", {"key_padding": LEFT_AND_RIGHT, "softcap": 3.0, "sink": noise("H"), "window": 20,
            "keep_first": 2, "key_bias": noise("1", "1", "k"), "bias_by_distance": noise("H", "d"),
            "temperature": lambda v: torch.tensor([2.0, 0.5])}, n_query=40, batch=2, features=80, columns=8),
]  # fmt: skip

# Compiled only: every head size of the block table in every type, as a model with a long prompt asks for it.
VARIANTS += [
    Variant(f"long, {str(dtype)[6:]}, {features}", request={}, n_query=16384, features=features, dtype=dtype,
            interpreted=False)
    for dtype in (BRAIN, HALF, torch.float32)
    for features in (16, 32, 64, 128, 256)
]  # fmt: skip
VARIANTS += [
    Variant("long, tokens", request={"tokens": 4}, n_query=16384, features=128, dtype=BRAIN, interpreted=False),
    Variant("long, keys only", request=OUTPUT_ONLY | {"keys": True}, n_query=16384, features=128, dtype=BRAIN,
            interpreted=False),
    Variant("long, head size 96", request={}, n_query=16384, features=96, dtype=BRAIN, interpreted=False),
    Variant("long, window and sink", {"window": 128, "sink": noise("H")}, request={}, n_query=16384, features=64,
            dtype=BRAIN, interpreted=False),
]  # fmt: skip


def by_name(name: str) -> Variant:
    return next(variant for variant in VARIANTS if variant.name == name)


def fields_of(record: type) -> list[str]:
    return [each.name for each in dataclasses.fields(record)]
