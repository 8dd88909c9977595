"""Loads a model beside the page, so that an estimate is exact and the run starts at once."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import streamlit as st

from backend.models import load


def loading(name: str) -> Future:
    """The loading of a model, begun by whoever asks first; it ends with None or with what went wrong."""
    pool, futures = _loader()
    if name not in futures:
        futures[name] = pool.submit(_load_only, name)
    return futures[name]


def forget(name: str) -> None:
    """A load that failed is tried again at the next change, for instance when the network is back."""
    _loader()[1].pop(name, None)


@st.cache_resource(show_spinner=False)
def _loader() -> tuple[ThreadPoolExecutor, dict[str, Future]]:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="headwater-model"), {}


def _load_only(name: str) -> None:
    """Loads into the process' own bounded store of models; the future must not keep the model alive beside it."""
    load(name)
