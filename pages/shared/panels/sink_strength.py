"""How strong are the sinks of this model? The sink percentage as a study, started and shown here."""

from __future__ import annotations

from backend.studies.sink_percentage import STUDY
from pages.shared.panels.page_study import page_study
from pages.shared.panels.sink_data import SinkData
from pages.shared.panels.sink_percentage import parameters, result
from pages.shared.view_state import ViewState


def sink_strength(state: ViewState, data: SinkData) -> None:
    """Draws the part."""
    study = page_study(state, STUDY, parameters(), data.analysis.info)
    if study is not None:
        result(state, study)
