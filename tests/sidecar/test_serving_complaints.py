"""What whoever reaches the port of ``serve`` can have printed on its terminal."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("textual_serve")

from aiohttp import web

from unilab_sidecar.serving.__main__ import runner_of
from unilab_sidecar.serving.admission import Door
from unilab_sidecar.serving.server import Server


async def answer(application: web.Application, request: bytes) -> bytes:
    """The first line of it."""
    runner = runner_of(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        writer.write(request)
        line = await reader.readline()
        writer.close()
        return line
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nno header\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_in_silence(
    request_: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    application = Server(["false"], "run", Door("token"), tabs=1).application()
    line = asyncio.run(answer(application, request_))
    assert line.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert capfd.readouterr() == ("", "")


def test_what_is_our_own_fault_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    async def fails(_request: web.Request) -> web.StreamResponse:
        raise RuntimeError("no such thing\x1b[2J")

    application = web.Application()
    application.add_routes([web.get("/", fails)])
    line = asyncio.run(answer(application, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    assert line.startswith(b"HTTP/1.1 500")
    said = capfd.readouterr().err
    assert said.startswith("unilab-metrics: ")
    assert "RuntimeError: no such thing" in said
    assert said.count("\n") == 1
    assert "\x1b" not in said
