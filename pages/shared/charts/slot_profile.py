"""What each part of a prompt gets, in order: bars, the curve over them, a band, and the uniform baseline."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

BAR_COLOUR, GOLD_COLOUR, BASELINE_COLOUR, CURVE_COLOUR = "#6f7f99", "#c9a227", "#808080", "#3b6ea5"
GOLD_MARK = "★ "


def short_names(names: Sequence[str]) -> tuple[list[str], str | None]:
    """The numbers alone and the word they share, where the names are such as "document 3"; else the names."""
    words = {name.rpartition(" ")[0] for name in names}
    numbers = [name.rpartition(" ")[2] for name in names]
    if len(words) == 1 and all(words) and all(number.isdecimal() for number in numbers):
        return numbers, f"{words.pop()}, in the order of the prompt"
    return list(names), None


def slot_profile(
    names: Sequence[str],
    values: np.ndarray,
    uniform: np.ndarray,
    *,
    title: str,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
    gold: int | None = None,
    height: int = 260,
) -> alt.LayerChart:
    """values, uniform, low, high: [K] shares; NaN = out of reach: no bar, and counted in the title.

    gold: number of the part that is marked; it has a star and a colour of its own.
    """
    names, word = short_names(names)
    shown = [f"{GOLD_MARK}{name}" if place == gold else name for place, name in enumerate(names)]
    rows = [
        {"place": place, "name": shown[place], "value": float(value), "what": "marked" if place == gold else "part"}
        for place, value in enumerate(values)
        if np.isfinite(value)
    ]
    missing = len(values) - len(rows)
    note = f"; {missing} out of reach have no bar" if missing else ""
    axis = alt.Axis(labelAngle=0 if word else -40, labelOverlap=len(names) > 30)
    x = alt.X("name:N", sort=shown, title=word, scale=alt.Scale(domain=shown), axis=axis)
    y = alt.Y("value:Q", title=title, axis=alt.Axis(format="~p", tickCount=5))
    tooltip = [alt.Tooltip("name:N", title="part"), alt.Tooltip("value:Q", title=title, format=".4~p")]
    base = alt.Chart(data_of(rows))
    colour = alt.Color(
        "what:N", legend=None, scale=alt.Scale(domain=["part", "marked"], range=[BAR_COLOUR, GOLD_COLOUR])
    )
    layers = [base.mark_bar(opacity=0.75).encode(x=x, y=y, color=colour, tooltip=tooltip)]
    if low is not None and high is not None:
        layers.append(_band(shown, low, high, x))
    layers.append(base.mark_line(color=CURVE_COLOUR, point=alt.OverlayMarkDef(color=CURVE_COLOUR)).encode(x=x, y=y))
    layers.append(_baseline(shown, uniform, x))
    return alt.layer(*layers).properties(
        height=height, title=alt.TitleParams(f"{title}{note}", anchor="start", fontSize=12)
    )


def _band(names: list[str], low: np.ndarray, high: np.ndarray, x: alt.X) -> alt.Chart:
    rows = [
        {"name": name, "low": float(a), "high": float(b)}
        for name, a, b in zip(names, low, high, strict=True)
        if np.isfinite(a) and np.isfinite(b)
    ]
    tooltip = [
        alt.Tooltip("low:Q", title="95 % from", format=".4~p"),
        alt.Tooltip("high:Q", title="to", format=".4~p"),
    ]
    chart = alt.Chart(data_of(rows)).mark_rule(color=CURVE_COLOUR, size=2)
    return chart.encode(x=x, y="low:Q", y2="high:Q", tooltip=tooltip)


def _baseline(names: list[str], uniform: np.ndarray, x: alt.X) -> alt.Chart:
    rows = [
        {"name": name, "uniform": float(value)}
        for name, value in zip(names, uniform, strict=True)
        if np.isfinite(value)
    ]
    chart = alt.Chart(data_of(rows)).mark_line(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5)
    tooltip = [alt.Tooltip("uniform:Q", title="uniform attention", format=".4~p")]
    return chart.encode(x=x, y="uniform:Q", tooltip=tooltip)
