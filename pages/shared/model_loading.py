"""Loads a model beside the page, so that an estimate is exact and the run starts at once."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import streamlit as st

from backend.models import in_memory, load, load_time


def loading(name: str) -> Future:
    """The loading of a model, begun by whoever asks first; it ends with None or with what went wrong.

    One that had to leave the memory for others is loaded anew: the page never waits for it."""
    pool, futures = _loader()
    known = futures.get(name)
    if known is None or (known.done() and known.exception() is None and not in_memory(name)):
        futures[name] = pool.submit(_load_only, name)
    return futures[name]


def forget(name: str) -> None:
    """A load that failed is tried again at the next change, for instance when the network is back."""
    _loader()[1].pop(name, None)


def loads_in(name: str) -> str:
    """How long loading takes, as the end of a sentence; nothing where that is not known."""
    expected = load_time(name)
    return "" if expected is None else f", which takes {expected.sentence}"


@st.cache_resource(show_spinner=False)
def _loader() -> tuple[ThreadPoolExecutor, dict[str, Future]]:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="headwater-model"), {}


def _load_only(name: str) -> None:
    """Loads into the process' own bounded store of models; the future must not keep the model alive beside it."""
    load(name)
