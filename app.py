"""Headwater. `streamlit run app.py` serves the pages and, beside them, the addresses under /data.

This file is two things. As a module it makes the ASGI app; as a script, inside a browser's session, it is the first
page: what to read, what is being read, and what has been read.
"""

from collections.abc import Callable
from functools import cache

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
    """What every request passes: the cookie that names a browser, and Streamlit's scripts from memory."""
    from pathlib import Path

    from starlette.middleware import Middleware

    from backend.routes.frontend import Frontend
    from backend.routes.owner import OwnerCookie

    return [
        Middleware(OwnerCookie, signed_in=signed_in),
        Middleware(Frontend, static=Path(st.__file__).parent / "static"),
    ]


@cache
def signed_cookies() -> Callable | None:
    """What reads Streamlit's signed cookies. It is no public function: where it has gone, the log says so, once."""
    try:
        from streamlit.web.server.starlette.starlette_websocket import _get_signed_cookie_with_chunks
    except ImportError as error:
        import logging

        sentence = "This version of Streamlit does not tell who is signed in; under /data nobody is (%s)."
        logging.getLogger("headwater").warning(sentence, error)
        return None
    return _get_signed_cookie_with_chunks


def signed_in(cookies: dict[str, str]) -> dict | None:
    """What a request's cookies say about a person who signed in through Streamlit, if its signature is right.

    Streamlit gives this to pages only. Whatever goes wrong here, the person is not signed in for the data routes.
    """
    import json

    if "_streamlit_user" not in cookies or signed_cookies() is None:
        return None
    try:
        content = json.loads(signed_cookies()(cookies, "_streamlit_user") or b"null")
    except (ValueError, RuntimeError):
        return None
    return content if isinstance(content, dict) else None


def lifespan():
    """What happens between the server's start and its first visitor."""
    from backend.routes.prompt import prompt_answers

    return prompt_answers


def warn_of_hidden_rooms() -> None:
    """The optional package `kernels` of Hugging Face has the name of one of our folders; only one can be imported."""
    import logging
    from importlib.metadata import packages_distributions

    if "kernels" in packages_distributions():
        sentence = "The optional package 'kernels' has the name of a folder of Headwater: run `pip uninstall kernels`."
        logging.getLogger("headwater").warning(sentence)


def import_ahead() -> None:
    """Imports what running a model needs, beside the server's start, so that the first visitor does not wait for it."""
    from threading import Thread

    def work() -> None:
        import backend.pipeline  # noqa: F401
        from backend.lasting import leave_out_modules

        leave_out_modules()

    Thread(target=work, name="headwater-imports", daemon=True).start()


def greet() -> None:
    """Says where the app is, in the terminal it was started from."""
    address = st.get_option("server.address") or "localhost"
    shown = "localhost" if address in ("0.0.0.0", "::", "127.0.0.1") else address
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    print(f"Headwater is at http://{shown}:{st.get_option('server.port')}/{base}", flush=True)


if get_script_run_ctx(suppress_warning=True) is None:
    greet()
    warn_of_hidden_rooms()
    import_ahead()
    app = st.App(__file__, routes=data_routes(), middleware=middleware(), lifespan=lifespan())
else:
    from pages.shared.home import home

    home()
