"""What a browser, or whoever has the token, may send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("textual_serve")

from aiohttp import WSMessage, WSMsgType, web
from aiohttp.test_utils import make_mocked_request

from unilab_sidecar.serving.admission import Door
from unilab_sidecar.serving.server import Server


def server() -> Server:
    return Server(["false"], "run", Door(""), tabs=2)


class Socket:
    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self.sent: list[object] = []

    async def __aiter__(self) -> AsyncIterator[WSMessage]:
        for text in self._texts:
            yield WSMessage(WSMsgType.TEXT, text, None)

    async def send_json(self, data: object) -> None:
        self.sent.append(data)


class Tab:
    async def set_terminal_size(self, width: int, height: int) -> None:
        """Taken."""


@pytest.mark.parametrize(
    "text",
    [
        '["resize", {"width": 1e999, "height": 3}]',
        '["resize", {"width": ' + "9" * 5000 + ', "height": 3}]',
        "[" * 60_000,
        "{}",
        "[]",
        "7",
        '["ping"]',
        '["resize", {"width": null, "height": 3}]',
    ],
)
def test_a_message_that_no_page_of_ours_sends_ends_the_view_quietly(text: str) -> None:
    socket: Any = Socket(text, '["ping", 1]')
    tab: Any = Tab()
    asyncio.run(server()._serve(socket, tab))
    assert socket.sent == []


@pytest.mark.parametrize("size", ["9" * 5000, "-1", "1e3", "x", "1%00", "%EF%BC%98"])
def test_a_size_that_is_no_number_is_a_bad_request(size: str) -> None:
    request = make_mocked_request("GET", f"/?fontsize={size}", headers={"Host": "localhost"})
    with pytest.raises(web.HTTPBadRequest):
        asyncio.run(server()._page(request))
    for name in ("width", "height"):
        request = make_mocked_request("GET", f"/ws/x?{name}={size}", headers={"Host": "localhost"})
        with pytest.raises(web.HTTPBadRequest):
            asyncio.run(server()._socket(request))


@pytest.mark.parametrize("host", ["localhost:80; script-src *", "evil.com@127.0.0.1", ""])
def test_a_host_that_is_none_is_a_bad_request(host: str) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response()

    request = make_mocked_request("GET", "/", headers={"Host": host})
    assert asyncio.run(server()._guard(request, handler)).status == 400
    request = make_mocked_request("GET", "/", headers={"Host": "localhost:80"})
    assert asyncio.run(server()._guard(request, handler)).status == 200
