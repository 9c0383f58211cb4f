"""The web server: every request passes the door, every tab has a sidecar of its own."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import textual_serve
from aiohttp import WSMsgType, web
from textual_serve.download_manager import DownloadManager

from unilab_sidecar.serving.admission import NO_HOST, Asking, Door
from unilab_sidecar.serving.page import FONT_PX, page, policy
from unilab_sidecar.serving.tab import MAX_COLUMNS, MAX_ROWS, Tab, within
from unilab_sidecar.terminal.snapshot import SVG

_STATIC = Path(textual_serve.__file__).parent / "static"
_HEARTBEAT_S = 15.0
_MAX_MESSAGE_BYTES = 64 * 1024
_KEPT_WORDS = 100
_CLOSING_S, _STEP_S = 5.0, 0.05
_NUMBER = re.compile(r"[0-9]{1,8}")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Owned by one event loop. ``command``: of the sidecar that each tab gets. ``tabs``: how many
    there may be at once."""

    def __init__(
        self,
        command: Sequence[str],
        title: str,
        door: Door,
        *,
        tabs: int,
        inherited: Sequence[int] = (),
    ) -> None:
        """``inherited``: descriptors for the sidecars."""
        self._command = tuple(command)
        self._title = title
        self._door = door
        self._most = tabs
        self._inherited = inherited
        self._tabs: set[Tab] = set()
        self._downloads = DownloadManager()
        self._words: dict[str, str] = {}
        # The port is not part of what a cookie belongs to, and several servers may run.
        self._cookie = f"unilab_metrics_{secrets.token_hex(4)}"

    @property
    def is_used(self) -> bool:
        """Whether any tab is open."""
        return bool(self._tabs)

    def application(self) -> web.Application:
        """What answers."""

        @web.middleware
        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guard(request, handler)

        app = web.Application(middlewares=[guard])
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/ws/{tab}", self._socket),
                web.get("/words/{tab}", self._say),
                web.get("/download/{key}", self._download),
                web.static("/static", _STATIC),
            ]
        )
        app.on_shutdown.append(self._end)
        app.on_response_prepare.append(_add_headers)
        return app

    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        shown = (request.query.get("token"), request.cookies.get(self._cookie))
        headers = request.headers
        asking = Asking(
            host=headers.get("Host", ""),
            origin=headers.get("Origin", ""),
            fetch_site=headers.get("Sec-Fetch-Site", ""),
            tokens=tuple(one for one in shown if one),
            is_page=request.path == "/",
        )
        if refusal := self._door.refusal(asking):
            status = 400 if refusal == NO_HOST else 403
            return web.Response(status=status, text=f"{refusal}\n")
        return await handler(request)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if self._is_full():
            return self._full()
        nonce = secrets.token_urlsafe(16)
        font_px = _number(request.query.get("fontsize"), FONT_PX)
        tab = secrets.token_hex(8)
        text = page(self._title, nonce, tab, font_px)
        response = web.Response(text=text, content_type="text/html")
        response.headers["Content-Security-Policy"] = policy(nonce, request.headers["Host"])
        if self._door.token:
            # For what the page asks for next, so that the token need not stay in its address.
            response.set_cookie(
                self._cookie, self._door.token, httponly=True, samesite="Strict", path="/"
            )
        return response

    def _is_full(self) -> bool:
        return len(self._tabs) >= self._most

    def _full(self) -> web.Response:
        text = f"{self._most} views are open, which is the limit; close one, or see --sessions.\n"
        return web.Response(status=503, text=text)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if self._is_full():
            return self._full()
        socket = web.WebSocketResponse(heartbeat=_HEARTBEAT_S, max_msg_size=_MAX_MESSAGE_BYTES)
        width = _number(request.query.get("width"), 80)
        height = _number(request.query.get("height"), 24)
        tab = Tab(
            "",
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=socket.close,  # pyright: ignore[reportArgumentType]
            download_manager=self._downloads,
        )
        tab.arguments, tab.inherited = self._command, self._inherited
        self._tabs.add(tab)
        try:
            await socket.prepare(request)
            await tab.start(within(width, MAX_COLUMNS), within(height, MAX_ROWS))
            await self._serve(socket, tab)
        finally:
            try:
                await tab.end()
            finally:
                self._tabs.discard(tab)
                self._keep_words(request.match_info["tab"], tab.words)
        return socket

    def _keep_words(self, tab: str, words: str) -> None:
        self._words[tab] = words
        while len(self._words) > _KEPT_WORDS:
            del self._words[next(iter(self._words))]

    async def _say(self, request: web.Request) -> web.StreamResponse:
        """What a view that has closed has said of its run."""
        deadline_s = time.monotonic() + _CLOSING_S
        while (words := self._words.pop(request.match_info["tab"], None)) is None:
            if time.monotonic() > deadline_s:
                break
            await asyncio.sleep(_STEP_S)
        return web.Response(text=words or "")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        """A picture that a view has sent, once."""
        key = request.match_info["key"]
        try:
            download = await self._downloads.get_download_metadata(key)
        except KeyError:
            return web.Response(status=404, text="There is nothing to download here.\n")
        name = _NO_NAME.sub("_", download.file_name)
        response = web.StreamResponse()
        response.content_type = SVG
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
        await response.prepare(request)
        async for chunk in self._downloads.download(key):
            await response.write(chunk)
        await response.write_eof()
        return response

    async def _serve(self, socket: web.WebSocketResponse, tab: Tab) -> None:
        async for message in socket:
            if message.type != WSMsgType.TEXT:
                continue
            try:
                kind, *rest = json.loads(message.data)
                if kind == "stdin":
                    await tab.send_bytes(str(rest[0]).encode("utf-8", "replace"))
                elif kind == "resize":
                    await tab.set_terminal_size(int(rest[0]["width"]), int(rest[0]["height"]))
                elif kind == "ping":
                    await socket.send_json(["pong", rest[0]])
                elif kind in ("blur", "focus"):
                    await tab.send_meta({"type": kind})
            except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
                # Not of our page.
                return

    async def _end(self, _app: web.Application) -> None:
        for tab in list(self._tabs):
            await tab.end()


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers[name] = value


def _number(text: str | None, usual: int) -> int:
    """Raises ``HTTPBadRequest`` for what is no number of up to eight digits."""
    if not text:
        return usual
    if not _NUMBER.fullmatch(text):
        raise web.HTTPBadRequest(text="A size is a number of up to eight digits.\n")
    return int(text)
