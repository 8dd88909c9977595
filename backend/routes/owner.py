"""Who asks: every browser gets a random name in a cookie, so that analyses have an owner without any account."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from http.cookies import SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.shelf import OWNER_COOKIE, person

YEARS = 5 * 365 * 24 * 3600
PERSON = "headwater_person"  # in a request's scope: what the sign-in says
SignedIn = Callable[[dict[str, str]], Mapping[str, object] | None]


class OwnerCookie:
    """ASGI middleware: an HTML page that goes to a browser without the cookie brings one along."""

    def __init__(self, app: ASGIApp, signed_in: SignedIn | None = None) -> None:
        """signed_in: what the cookies of a request say about a signed-in person, if their signature is right."""
        self.app = app
        self.signed_in = signed_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.signed_in is not None:
            scope[PERSON] = self.signed_in(cookie_parser(Headers(scope=scope).get("cookie", "")))
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


def owner_of(request: Request) -> str | None:
    """Who asks: the signed-in person, else the name in the browser's cookie, else nobody."""
    return person(request.cookies.get(OWNER_COOKIE), request.scope.get(PERSON))


def _has_name(headers: Headers) -> bool:
    return person(cookie_parser(headers.get("cookie", "")).get(OWNER_COOKIE)) is not None


def _cookie(*, secure: bool) -> str:
    cookie = SimpleCookie({OWNER_COOKIE: secrets.token_urlsafe(24)})
    cookie[OWNER_COOKIE].update({"path": "/", "max-age": YEARS, "httponly": True, "samesite": "Lax", "secure": secure})
    return cookie[OWNER_COOKIE].OutputString()
