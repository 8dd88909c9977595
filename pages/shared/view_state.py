"""Everything a page shows follows from its address: a frozen record and its two translations. Pure.

    query string --parse--> ViewState --fit(outline)--> ViewState that exists --to_query--> query string

`parse` knows the form of each parameter, `fit` knows what the opened analysis has. Both return the nearest valid
view together with sentences that say what was changed; an address never makes a page fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from backend.map_sizes import MapSize

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")
WHOLE = re.compile(r"-?[0-9]{1,9}")
SPAN = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
PALETTES = ("cividis", "viridis", "greys")
THEMES = ("auto", "light", "dark", "projector")
LONGEST_EXTRA = 4_000  # characters of a parameter that a page adds; a query is the longest

Span = tuple[int, int]


@dataclass(frozen=True)
class ViewState:
    """What is on the screen. `None` means: not chosen, the page takes its default."""

    analysis: str | None = None
    study: str | None = None
    kind: str | None = None  # "self"; "encoder", "decoder", "cross" for encoder-decoders
    layer: int | None = None  # the model's own number
    head: int | None = None
    rows: Span | None = None  # window of queries, [start, stop); None = all
    columns: Span | None = None  # window of keys
    measure: str | None = None  # a statistic's name
    query: int | None = None  # the selected row
    key: int | None = None  # the selected column
    sinkfree: str | None = None  # "on": shares without the sinks (K-05); None = the page's own default
    palette: str = PALETTES[0]
    theme: str = THEMES[0]
    extra: tuple[tuple[str, str], ...] = ()  # parameters that one page adds, sorted by name

    def without_sinks(self, default: bool = False) -> bool:
        """Whether shares are shown without the sinks; `default` is what the page does when nobody chose."""
        return default if self.sinkfree is None else self.sinkfree == "on"

    def more(self, name: str, default: str = "") -> str:
        """A parameter that the page adds itself; the page checks its value."""
        return dict(self.extra).get(name, default)

    def with_more(self, **values: str | None) -> ViewState:
        """The same view with page parameters set, or removed where the value is None."""
        merged = {**dict(self.extra), **values}
        return replace(self, extra=tuple(sorted((k, v) for k, v in merged.items() if v is not None)))


@dataclass(frozen=True)
class Outline:
    """What an opened analysis has, as far as an address can name it."""

    sites: Mapping[str, Mapping[int, MapSize]]  # kind -> layer -> size; only layers that have maps
    measures: frozenset[str] = field(default_factory=frozenset)
    default_measure: str = "first_mass"


OWN_NAMES = frozenset(f.name for f in fields(ViewState)) - {"extra"}


def parse(query: Mapping[str, str | list[str]]) -> tuple[ViewState, list[str]]:
    """The view an address asks for, and what of the address could not be read."""
    texts = {name: value if isinstance(value, str) else (value[-1] if value else "") for name, value in query.items()}
    notices: list[str] = []
    values: dict[str, object] = {}
    for name, read in READERS.items():
        text = texts.get(name, "").strip()
        if not text:
            continue
        value, expected = read(text)
        if value is None:
            notices.append(f"The address has {name}={shorten(text)!r}, but {expected} was expected; it is left out.")
        else:
            values[name] = value
    extra = ((k, v[:LONGEST_EXTRA]) for k, v in texts.items() if k not in OWN_NAMES and WORD.fullmatch(k) and v)
    return ViewState(**values, extra=tuple(sorted(extra))), notices


def to_query(state: ViewState) -> dict[str, str]:
    """The parameters of the address, without what is default."""
    query: dict[str, str] = {}
    for item in fields(state):
        value = getattr(state, item.name)
        if item.name == "extra" or value is None or value == item.default:
            continue
        query[item.name] = f"{value[0]}:{value[1]}" if isinstance(value, tuple) else str(value)
    return {**query, **dict(state.extra)}


def fit(state: ViewState, outline: Outline) -> tuple[ViewState, list[str]]:
    """The nearest view that the analysis has; every choice is made, and what had to change is said."""
    notices: list[str] = []
    kind = _choose("kind", state.kind, list(outline.sites), notices)
    layers = outline.sites[kind]
    layer = _nearest("layer", state.layer, sorted(layers), notices)
    site = layers[layer]
    return replace(
        state,
        kind=kind,
        layer=layer,
        head=_nearest("head", state.head, range(site.heads), notices),
        rows=_clip("rows", state.rows, site.queries, notices),
        columns=_clip("columns", state.columns, site.keys, notices),
        measure=_measure(state.measure, outline, notices),
        query=None if state.query is None else _nearest("query", state.query, range(site.queries), notices),
        key=None if state.key is None else _nearest("key", state.key, range(site.keys), notices),
    ), notices


def fit_part(state: ViewState, parts: Mapping[str, str] | None) -> tuple[ViewState, list[str]]:
    """The view with a part that its page has (name -> title, the default first), and what had to change."""
    wanted = state.more("part")
    if parts is None or wanted in ("", *parts):
        return state, []
    shown = next(iter(parts.values()))
    return state.with_more(part=None), [f"This page has no part {shorten(wanted)!r}; {shown!r} is shown."]


def without_defaults(state: ViewState, outline: Outline) -> ViewState:
    """A fitted view with the choices that `fit` would make anyway taken out, for a short address."""
    plain, _ = fit(ViewState(kind=state.kind), outline)
    first_kind = next(iter(outline.sites))
    return replace(
        state,
        kind=None if state.kind == first_kind else state.kind,
        layer=None if state.layer == plain.layer else state.layer,
        head=None if state.head == plain.head else state.head,
        measure=None if state.measure == plain.measure else state.measure,
    )


def shorten(text: str, most: int = 40) -> str:
    """A text of the address, cut in the middle, for a sentence."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


def _choose(name: str, wanted: str | None, present: list[str], notices: list[str]) -> str:
    if wanted is not None and wanted not in present:
        notices.append(f"This analysis has no {name} {wanted!r}; {present[0]!r} is shown.")
    return wanted if wanted in present else present[0]


def _nearest(name: str, wanted: int | None, present: Iterable[int], notices: list[str]) -> int:
    numbers = present if isinstance(present, range) else list(present)
    if wanted is None:
        return numbers[0]
    if wanted in numbers:
        return wanted
    closest = min(max(wanted, numbers[0]), numbers[-1])
    if not isinstance(numbers, range):
        closest = min(numbers, key=lambda number: abs(number - wanted))
    notices.append(f"There is no {name} {wanted} ({numbers[0]} to {numbers[-1]} exist); {name} {closest} is shown.")
    return closest


def _clip(name: str, span: Span | None, size: int, notices: list[str]) -> Span | None:
    if span is None:
        return None
    start, stop = min(span[0], size - 1), min(span[1], size)
    if (start, stop) != span:
        notices.append(f"The window {name}={span[0]}:{span[1]} reaches beyond {size} tokens; it is cut.")
    return None if (start, stop) == (0, size) else (start, stop)


def _measure(wanted: str | None, outline: Outline, notices: list[str]) -> str:
    default = outline.default_measure
    if wanted is None or wanted in outline.measures:
        return wanted or default
    notices.append(f"This analysis has no measure {wanted!r}; {default!r} is shown.")
    return default


def _id(text: str) -> tuple[str | None, str]:
    return (text if ID.fullmatch(text) else None), "the id of an analysis or study"


def _word(text: str) -> tuple[str | None, str]:
    return (text if WORD.fullmatch(text) else None), "a name of small letters"


def _whole(text: str) -> tuple[int | None, str]:
    return (int(text) if WHOLE.fullmatch(text) else None), "a whole number"


def _span(text: str) -> tuple[Span | None, str]:
    match = SPAN.fullmatch(text)
    span = (int(match[1]), int(match[2])) if match else None
    return (span if span and span[0] < span[1] else None), "start:stop with start below stop"


def _one_of(*options: str):
    return lambda text: ((text if text in options else None), "one of " + ", ".join(options))


READERS = {
    "analysis": _id,
    "study": _id,
    "kind": _word,
    "layer": _whole,
    "head": _whole,
    "rows": _span,
    "columns": _span,
    "measure": _word,
    "query": _whole,
    "key": _whole,
    "sinkfree": _one_of("on", "off"),
    "palette": _one_of(*PALETTES),
    "theme": _one_of(*THEMES),
}
