"""A tmux server of the test's own: panes, clients of any size, and what is shown."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pty_terminals import PATIENCE_S, PtyTerminal


class Tmux:
    """One server with one session and one pane, which runs ``command``."""

    def __init__(self, folder: Path, command: str, *, columns: int = 100, rows: int = 30) -> None:
        """``folder``: for the socket; its path must be short."""
        if shutil.which("tmux") is None:
            pytest.skip("no tmux")
        self._socket = folder / "tmux"
        self._ask("new-session", "-d", "-x", str(columns), "-y", str(rows), command)

    def attach(self, columns: int, rows: int) -> PtyTerminal:
        """A client in a terminal of its own; detached by :meth:`detach` or by hanging up."""
        arguments = ("tmux", "-S", str(self._socket), "-f", os.devnull, "attach")
        return PtyTerminal(*arguments, columns=columns, rows=rows, TMUX=None)

    def detach(self) -> None:
        self._ask("detach-client")

    def type(self, *keys: str) -> None:
        """Keys by their tmux names, such as ``C-z`` or ``Enter``."""
        self._ask("send-keys", *keys)

    def enter(self, line: str) -> None:
        """Type a line as it is."""
        self._ask("send-keys", "-l", line)
        self.type("Enter")

    def type_bytes(self, data: bytes) -> None:
        self._ask("send-keys", "-H", *(f"{byte:02x}" for byte in data))

    def shown(self) -> str:
        """The pane as it is on the screen."""
        return self._ask("capture-pane", "-p")

    def state(self, name: str) -> str:
        """A format variable of the pane, such as ``alternate_on`` or ``pane_pid``."""
        return self._ask("display-message", "-p", f"#{{{name}}}").strip()

    def panes(self) -> list[str]:
        """The size of each pane of the window, such as ``80x24``."""
        return self._ask("list-panes", "-F", "#{pane_width}x#{pane_height}").splitlines()

    def until(self, done: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline_s:
                pytest.fail("not in time; the pane:\n" + self.shown())
            time.sleep(0.05)

    def until_shown(self, words: str) -> None:
        self.until(lambda: words in self.shown())

    def kill_pane(self) -> None:
        self._ask("kill-pane")

    def kill_server(self) -> None:
        """Also where there is none any more."""
        self._run("kill-server")

    def _ask(self, *arguments: str) -> str:
        done = self._run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = os.environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        environ.pop("TMUX", None)
        return subprocess.run(
            ["tmux", "-u", "-S", str(self._socket), "-f", os.devnull, *arguments],
            capture_output=True, text=True, check=False, timeout=30, env=environ,
        )  # fmt: skip
