"""A Chromium without a window, driven over two pipes.

What a terminal in a page shows is drawn on a canvas; so the bytes that the page receives over its
websocket are kept, and a terminal of ours reads them.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyte
import pytest

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--window-size=1280,800",
)
_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_WAIT_S = 40.0


def chromium() -> str:
    """Path of a Chromium; skips the test without one."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium on this machine")


class Page:
    """A tab. ``asked``: addresses it has asked for; ``failed``: errors of its scripts."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self.target = browser, session, target
        self._terminal = pyte.Screen(500, 250)
        self._stream = pyte.ByteStream(self._terminal)
        self.asked: list[str] = []
        self.failed: list[str] = []
        self.statuses: dict[str, int] = {}

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, parameters, self._session)

    def open(self, url: str) -> None:
        self._terminal.reset()
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    @property
    def screen(self) -> str:
        """What the terminal of the page shows."""
        return "\n".join(line.rstrip() for line in self._terminal.display).rstrip()

    def until_shown(self, text: str) -> None:
        self.until(lambda: text in self.screen, f"{text!r} in\n", lambda: self.screen)

    def until(self, condition: Callable[[], Any], what: str, told: Callable[[], str] = str) -> None:
        deadline_s = time.monotonic() + _WAIT_S
        while not condition():
            assert time.monotonic() < deadline_s, f"not in time: {what}{told()}"
            self._browser.hear(0.1)

    def type(self, text: str) -> None:
        for one in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=one, key=one)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=one)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, button="left", clickCount=1)

    def turn_wheel(self, x: float, y: float, pixels: float) -> None:
        """Down; negative: up."""
        step = 400 if pixels > 0 else -400
        for _ in range(int(pixels / step)):
            self._mouse("mouseWheel", x, y, deltaX=0, deltaY=step)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def picture(self) -> bytes:
        """As PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        self._browser.call("Target.closeTarget", {"targetId": self.target})

    def happened(self, method: str, what: dict[str, Any]) -> None:
        if method == "Network.webSocketFrameReceived":
            frame = what["response"]
            if frame["opcode"] == 2:
                self._stream.feed(base64.b64decode(frame["payloadData"]))
        elif method == "Network.requestWillBeSent":
            self.asked.append(what["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.asked.append(what["url"])
        elif method == "Network.responseReceived":
            self.statuses[what["response"]["url"]] = what["response"]["status"]
        elif method == "Runtime.exceptionThrown":
            self.failed.append(json.dumps(what["exceptionDetails"].get("exception", what)))
        elif method == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.failed.append(what["entry"]["text"])


class Browser:
    """One process of Chromium with its own empty profile."""

    def __init__(self, profile: Path) -> None:
        low_in, self._out = os.pipe()
        self._in, low_out = os.pipe()
        # It wants the numbers 3 and 4, which these may have themselves.
        theirs_in, theirs_out = (fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (low_in, low_out))
        os.close(low_in)
        os.close(low_out)
        numbers = [str(theirs_in), str(theirs_out)]
        command = [sys.executable, "-c", _START, *numbers, chromium(), *_FLAGS]
        command.append(f"--user-data-dir={profile}")
        self.process = subprocess.Popen(
            [*command, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number = 0
        self._rest = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}

    def call(
        self, method: str, parameters: dict[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline_s = time.monotonic() + _WAIT_S
        while number not in self._answers:
            assert time.monotonic() < deadline_s, f"no answer to {method}"
            self.hear(0.1)
        answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def page(self) -> Page:
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"], target)
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        return page

    def hear(self, timeout_s: float) -> None:
        if not select.select([self._in], [], [], timeout_s)[0]:
            return
        data = os.read(self._in, 1 << 20)
        assert data, "Chromium has ended"
        *whole, self._rest = (self._rest + data).split(b"\0")
        for one in whole:
            message = json.loads(one)
            if "id" in message:
                self._answers[message["id"]] = message
            elif page := self._pages.get(message.get("sessionId", "")):
                page.happened(message["method"], message["params"])

    def close(self) -> None:
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        finally:
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            os.close(self._out)
            os.close(self._in)


@contextmanager
def browsing(profile: Path) -> Iterator[Browser]:
    """A browser for a test."""
    browser = Browser(profile)
    try:
        yield browser
    finally:
        browser.close()
