"""A damaged part of a file, or a statistic that an older file lacks, costs its own panel, not the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from backend.errors import HeadwaterError


@contextmanager
def readable() -> Iterator[None]:
    """Around the drawing of one panel: what cannot be read is said in its place, as plain text."""
    try:
        yield
    except HeadwaterError as error:
        st.text(str(error))
