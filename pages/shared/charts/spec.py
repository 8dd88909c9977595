"""A chart as the Vega-Lite specification that a browser draws.

Altair checks a chart, each of its parts when it is made and the whole when it is written, against a schema of ten
thousand lines: half the time that a page with charts takes. The charts of this folder are fixed in form, so that is
done once, in the tests, which set CHECKED.
"""

from __future__ import annotations

import altair as alt
from altair.utils import schemapi

CHECKED = False

schemapi.disable_debug_mode()  # parts are not checked when they are made; the whole is, where CHECKED is set
alt.theme.enable("none")  # Altair's own sets a width and a height; Streamlit's theme is put on in the browser
alt.data_transformers.disable_max_rows()  # a chart here decides itself how many marks it has


def spec_of(chart: alt.TopLevelMixin) -> dict:
    """The specification with its data. SchemaValidationError where it is checked and does not fit the schema."""
    return chart.to_dict(validate=CHECKED)
