"""Gives every browser a random name in a cookie, so that private analyses have an owner without any account."""

from __future__ import annotations

import re
import secrets
from http.cookies import SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.shelf import OWNER_COOKIE

YEARS = 5 * 365 * 24 * 3600
NAME = re.compile(r"[A-Za-z0-9_-]{22,64}")


class OwnerCookie:
    """ASGI middleware: an HTML page that goes to a browser without the cookie brings one along."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _has_name(Headers(scope=scope)):
            await self.app(scope, receive, send)
            return

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.append("set-cookie", _cookie(secure=scope.get("scheme") == "https"))
            await send(message)

        await self.app(scope, receive, with_cookie)


def _has_name(headers: Headers) -> bool:
    return bool(NAME.fullmatch(cookie_parser(headers.get("cookie", "")).get(OWNER_COOKIE, "")))


def _cookie(*, secure: bool) -> str:
    cookie = SimpleCookie({OWNER_COOKIE: secrets.token_urlsafe(24)})
    cookie[OWNER_COOKIE].update({"path": "/", "max-age": YEARS, "httponly": True, "samesite": "Lax", "secure": secure})
    return cookie[OWNER_COOKIE].OutputString()
