"""A run that was started on a page shows what it made there, once, when it has ended."""

from __future__ import annotations

import streamlit as st

from pages.shared.address import select
from pages.shared.panels.run_cards import UNDER_WAY, my_jobs


def show_when_done(waiting: str, parameter: str) -> None:
    """Puts the result of the job whose id the session holds under `waiting` into `parameter` of the address.

    A job that failed or was cancelled changes nothing; its card says what happened."""
    waited_for = st.session_state.get(waiting)
    job = next((job for job in my_jobs() if job.id == waited_for), None)
    if job is None or job.state in UNDER_WAY:
        return
    del st.session_state[waiting]
    if job.state == "done" and job.analysis_id:
        select(**{parameter: job.analysis_id})
        st.rerun()
