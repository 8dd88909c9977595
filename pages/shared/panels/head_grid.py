"""All heads at a glance, as small maps or by the chosen statistic; a click chooses the head."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pages.shared import head_grid as grid
from pages.shared.address import select
from pages.shared.panels.head_values import HeadValues
from pages.shared.view_state import ViewState

Head = tuple[int, int]  # layer, head
WITHOUT, WITH = "Numbers: without sinks.", "Numbers: with sinks."


def head_grid(
    state: ViewState,
    values: HeadValues,
    pins: Sequence[Head] | None = None,
    on_pin: Callable[[Head], None] = lambda head: None,
) -> None:
    """Draws the grid; what its cells show, their order and the least value are in the address. pins: None = no pins."""
    view = grid.GridView(
        analysis=state.analysis,
        kind=state.kind,
        values=values.by_layer,
        measure=values.words,
        unit=values.statistic.unit,
        layer=state.layer,
        head=state.head,
        arranged=grid.read_arranged(state.more("grid"), state.more("order"), state.more("least")),
        palette=state.palette,
        pins=None if pins is None else tuple(pins),
        sinkfree=state.without_sinks(),
        note=WITHOUT if values.sinkfree else WITH if state.without_sinks() else "",
    )
    grid.head_grid(
        view,
        on_pick=lambda layer, head: select(layer=layer, head=head),
        on_pin=lambda layer, head: on_pin((layer, head)),
        on_arrange=_take_arranged,
    )


def _take_arranged(arranged: grid.Arranged) -> None:
    plain = grid.Arranged()
    select(
        grid=arranged.mode if arranged.mode != plain.mode else None,
        order=arranged.order if arranged.order != plain.order else None,
        least=None if arranged.least is None else f"{arranged.least:g}",
    )
