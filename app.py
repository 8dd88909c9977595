"""Headwater. `streamlit run app.py` serves the pages and, beside them, the addresses under /data.

This file is two things. As a module it makes the ASGI app; as a script, inside a browser's session, it is the first
page: what to read, what is being read, and what has been read.
"""

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx


def data_routes() -> list:
    """The addresses under /data and, behind a path prefix, under {prefix}/data too."""
    from backend.routes import routes
    from backend.settings import data_folder
    from backend.shelf import Shelf

    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    return routes(Shelf(data_folder()).open, ("", f"/{base}") if base else ("",))


def middleware() -> list:
    """What every request passes: the cookie that names a browser."""
    from starlette.middleware import Middleware

    from backend.routes.owner import OwnerCookie

    return [Middleware(OwnerCookie)]


def warn_of_hidden_rooms() -> None:
    """The optional package `kernels` of Hugging Face has the name of one of our folders; only one can be imported."""
    import logging
    from importlib.metadata import packages_distributions

    if "kernels" in packages_distributions():
        sentence = "The optional package 'kernels' has the name of a folder of Headwater: run `pip uninstall kernels`."
        logging.getLogger("headwater").warning(sentence)


if get_script_run_ctx(suppress_warning=True) is None:
    warn_of_hidden_rooms()
    app = st.App(__file__, routes=data_routes(), middleware=middleware())
else:
    from pages.shared.home import home

    home()
