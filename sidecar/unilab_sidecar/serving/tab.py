"""The sidecar process behind one tab of a browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Sequence

from textual_serve.app_service import AppService

from unilab_sidecar.terminal.web_driver import LAST_WORDS

_END_S = 3.0
_MOST_WORDS = 200
MAX_COLUMNS, MAX_ROWS = 500, 250


class Tab(AppService):
    """Owned by the server's loop. The process is started from a list, never by a shell: whatever a
    run's directory is called, it is only ever an argument."""

    arguments: Sequence[str] = ()
    inherited: Sequence[int] = ()
    """Descriptors that the process gets."""
    words = ""
    """What the view has said last, for people."""

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        environment = self._build_environment(width=width, height=height)
        # The page's terminal, whatever the server's own is.
        environment.pop("NO_COLOR", None)
        environment.update(TERM="xterm-256color", COLORTERM="truecolor")
        process = await asyncio.create_subprocess_exec(
            *self.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            # Ctrl+C is the server's, which then closes its tabs.
            start_new_session=True,
            pass_fds=self.inherited,
        )
        # The protocol's reader wants one; what a broken process says is nobody's in a browser.
        process.stderr = asyncio.StreamReader()
        process.stderr.feed_eof()
        self._process, self._stdin = process, process.stdin
        return process

    async def on_meta(self, data: bytes) -> None:
        """Takes the last words; everything else is the protocol's."""
        told = json.loads(data)
        if told.get("type") == LAST_WORDS:
            self.words = str(told.get("words", ""))[:_MOST_WORDS]
        else:
            await super().on_meta(data)

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Within limits: the size comes from outside."""
        await super().set_terminal_size(within(width, MAX_COLUMNS), within(height, MAX_ROWS))

    async def end(self) -> None:
        """Ends the process, also one that does not listen."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.stop(), _END_S)
        process = self._process
        if process is None or process.returncode is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), _END_S)
                return


def within(value: int, most: int) -> int:
    """At least 1, at most so many."""
    return min(max(int(value), 1), most)
