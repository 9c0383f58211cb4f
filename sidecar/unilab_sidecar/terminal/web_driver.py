"""Textual's driver for a view in a browser, which lives as long as the server that started it."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from textual.drivers.web_driver import WebDriver

from unilab_sidecar.terminal.bounded_input import BoundedInput

LAST_WORDS = "last_words"
"""Kind of what a view says when it closes, besides those of Textual."""
_LINGER_S = 3.0


class BrowserDriver(BoundedInput, WebDriver):
    """All methods belong to the main thread, but :meth:`run_input_thread`."""

    def write(self, data: str) -> None:
        """To the server; nothing any more once it is gone."""
        try:
            super().write(data)
        except OSError:
            self._leave()

    def write_meta(self, data: dict[str, object]) -> None:
        """The same for what is no picture; before the end what is to be said there."""
        try:
            if data.get("type") == "exit":
                words = str(getattr(self._app, "last_words", ""))
                super().write_meta({"type": LAST_WORDS, "words": words})
            super().write_meta(data)
        except OSError:
            self._leave()

    def run_input_thread(self) -> None:
        """Read what the server passes on, until it closes the input or is gone."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._leave()

    def _leave(self) -> None:
        if self.exit_event.is_set():
            return
        self.exit_event.set()
        app: Any = self._app
        # From whatever thread; and whatever the loop does, nobody looks any more.
        app.call_later(app.exit, None, 128 + signal.SIGHUP)
        last = threading.Timer(_LINGER_S, os._exit, (128 + signal.SIGHUP,))
        last.daemon = True
        last.start()
