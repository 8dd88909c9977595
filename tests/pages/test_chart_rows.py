"""Rows are handed to a chart as they are; none goes through Altair's copies."""

from __future__ import annotations

import json
from pathlib import Path

import altair as alt
import numpy as np
import pytest

from pages.shared import charts
from pages.shared.charts.rows import data_of
from pages.shared.charts.spec import spec_of

FOLDER = Path(charts.__file__).parent


def test_rows_come_out_as_they_went_in():
    rows = [{"name": "a·b", "value": np.float32(0.5), "there": None}, {"name": "$x$", "value": 2, "there": True}]
    chart = alt.Chart(data_of(rows)).mark_bar().encode(x="value:Q", y="name:N")
    spec = json.loads(json.dumps(spec_of(alt.layer(chart, chart.mark_rule()).properties(height=20))))
    assert spec["data"]["values"] == [
        {"name": "a·b", "value": 0.5, "there": None},
        {"name": "$x$", "value": 2, "there": True},
    ]


def test_a_chart_that_does_not_fit_the_schema_is_refused_where_charts_are_checked():
    wrong = alt.Chart(data_of([])).mark_bar().encode(x=alt.X("value:Q", scale=alt.Scale(type="no such scale")))
    with pytest.raises(alt.utils.schemapi.SchemaValidationError):
        spec_of(wrong)


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("*.py") if path.name != "rows.py"))
def test_every_chart_hands_its_rows_on(file):
    assert "alt.Data(" not in (FOLDER / file).read_text("utf-8"), "data_of(rows) is the way to give a chart its rows"
