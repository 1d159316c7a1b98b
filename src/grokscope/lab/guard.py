"""Who may talk to the lab. It listens on this machine only, and other pages in the same browser,
other users and other machines that were made to look like this one all stay outside.

    Host      must be one of ours with its port: a foreign name that resolves to this machine (DNS
              rebinding) gets 421
    token     stands in the link that the terminal prints, and is exchanged for a cookie that
              scripts cannot read and other sites cannot send; the browser that the lab opens gets
              one that works once, since other users can read its command line
    Origin    must be ours for every method but GET and HEAD
    body      is bounded before it is read
"""

from __future__ import annotations

import hmac
import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 64 * 1024  # bytes; a spec with every field has about 4 kB
TOO_LARGE = f"The request is larger than {MOST_BODY} bytes."
SAFE = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
WELCOME = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>grokscope lab</title>'
    '<meta http-equiv="refresh" content="0;url=/"><a href="/">The lab</a></html>'
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class TooLarge(Exception):
    """A body that had not told its length has turned out to be too long."""


class Guard:
    """Stands before the whole application, its static files included."""

    def __init__(self, app: ASGIApp, port: int, token: str | None = None) -> None:
        self.app = app
        self.token = token or secrets.token_urlsafe(24)
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        # Cookies do not know ports: two labs on one machine must not overwrite each other's.
        self.cookie = f"grokscope-lab-{port}"
        self._session = secrets.token_urlsafe(24)
        self._invitations: set[str] = set()

    def invite(self) -> str:
        """A token that opens the lab once."""
        token = secrets.token_urlsafe(24)
        self._invitations.add(token)
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("The lab speaks HTTP only.")
        send = _with_headers(send)
        answer = self._judge(Request(scope))
        if answer is not None:
            await answer(scope, receive, send)
            return
        await self.app(scope, _bounded(receive), send)

    def _judge(self, request: Request) -> Response | None:
        """None for those who may come in, else the answer that they get."""
        headers, method = request.headers, request.method
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return refuse(421, "This lab answers on this machine only, under its own address.")
        if (origin is None and method not in SAFE) or (origin not in (None, f"http://{host}")):
            return refuse(403, "Only the lab's own page may ask for this.")
        if request.scope["path"] == "/" and method in SAFE:
            given = request.query_params.get("token")
            if given is not None and self._admits(given):
                return self._welcome()
        session = request.cookies.get(self.cookie, "")
        if not hmac.compare_digest(session.encode(), self._session.encode()):
            return refuse(403, "Open the lab with the link that `grokscope lab` has printed.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BODY:
            return refuse(413, TOO_LARGE)
        return None

    def _admits(self, given: str) -> bool:
        for token in (self.token, *self._invitations):
            if hmac.compare_digest(given.encode(), token.encode()):
                self._invitations.discard(token)
                return True
        return False

    def _welcome(self) -> Response:
        """The token for a cookie; it disappears from the address. The page goes on by itself: after
        a redirect the browser would take "/" for a wish of the site with the link, and keep the
        cookie back."""
        response = HTMLResponse(WELCOME)
        response.set_cookie(self.cookie, self._session, httponly=True, samesite="strict")
        return response


def refuse(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _bounded(receive: Receive) -> Receive:
    """A body without a length is counted as it comes."""
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BODY:
            raise TooLarge
        return message

    return receiving
