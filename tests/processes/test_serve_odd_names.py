"""``unilab-metrics serve`` of a directory whose name means something to a shell, a page or a program."""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import pytest
from history_files import Segments, update

NAME = "-r $(touch pwned) `touch pwned`; touch pwned & '\"><b>%s{x}[b]\n损失🔥"
OTHER = "r"
PATIENCE_S = 40.0


async def page_and_screen(url: str, words: bytes) -> tuple[str, bytes]:
    """The page, and what its terminal is sent until ``words`` are in it."""
    parts = urlsplit(url)
    path, query = "/ws/one", f"{parts.query}&width=140&height=30"
    sent, deadline_s = b"", time.monotonic() + PATIENCE_S
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as response:
            page = await response.text()
        async with session.ws_connect(urlunsplit(parts._replace(path=path, query=query))) as tab:
            while words not in sent and time.monotonic() < deadline_s:
                with contextlib.suppress(asyncio.TimeoutError):
                    message = await tab.receive(0.5)
                    data: object = message.data
                    sent += data if isinstance(data, bytes) else str(data).encode()
    return page, sent


@pytest.mark.slow
def test_the_very_run_is_shown_and_nothing_of_its_name_is_executed(tmp_path: Path) -> None:
    for name, iterations in ((NAME, 4711), (OTHER, 3)):
        bus = tmp_path / name / "bus"
        bus.mkdir(mode=0o700, parents=True)
        written = Segments(bus)
        written.append(written.start(), *(update(n) for n in range(1, iterations + 1)))
    command = [sys.executable, "-m", "unilab_metrics", "serve", "--", NAME]
    errors = tmp_path / "errors"
    with (
        errors.open("w") as file,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=file, text=True, cwd=tmp_path,
            start_new_session=True,
        ) as server,
    ):  # fmt: skip
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            assert url.startswith("http://"), errors.read_text()
            page, sent = asyncio.run(page_and_screen(url, b"iter 4711"))
            assert b"iter 4711" in sent
            assert html.escape(NAME) in page
            assert "<b>" not in page
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 130
        finally:
            server.kill()
    assert sorted(os.listdir(tmp_path)) == sorted([NAME, OTHER, "errors"])
    assert "pwned" not in {path.name for path in tmp_path.rglob("*")}
