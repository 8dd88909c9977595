"""Which models a visitor may have loaded: packaged ones always; folders and hub ids only where the server allows it.

A field that takes folders lets a visitor read the server's disk, one that takes hub ids lets them fill it and makes the
server ask other hosts. Whoever can reach only this machine's own address is taken to be its owner.
"""

from __future__ import annotations

import streamlit as st

from backend.errors import Refused
from backend.models import available
from backend.settings import ANY_MODEL

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def any_model() -> bool:
    """Whether folders of the server and ids of the hub may be named."""
    chosen = ANY_MODEL.text()
    return chosen == "1" or (chosen == "auto" and st.get_option("server.address") in LOOPBACK)


def check_model(name: str) -> str:
    """The name itself; Refused for a model that visitors of this server may not have loaded."""
    if not any_model() and name not in {choice.name for choice in available()}:
        raise Refused(
            f"The model {name[:80]!r} is not run here: this server runs packaged models only. Its owner can allow "
            "others with HEADWATER_ANY_MODEL=1."
        )
    return name
