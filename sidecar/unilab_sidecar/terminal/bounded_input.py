"""What of a Textual driver hands over keys: no more at once than the app hears soon.

An app with a full queue handles all of it before its loop runs anything else, so that a signal, a
timer and the end of the app would wait behind a flood of keys.
"""

from __future__ import annotations

from typing import Any

from textual.driver import Driver
from textual.message import Message

from unilab_sidecar.terminal.waiting_input import WaitingInput

MOST_AHEAD = 32
_AGAIN_S = 0.01


class BoundedInput(Driver):
    """Mixed into a driver. All methods belong to the app's thread, but :meth:`send_message`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting = WaitingInput()

    def send_message(self, message: Message) -> None:
        """Have the app hear it, in its turn. From the thread that reads the input."""
        if self._waiting.put(message):
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        room = MOST_AHEAD - self._app.message_queue_size
        if room > 0:
            for message in self._waiting.take(room):
                self._app.post_message(message)
        if self._waiting:
            self._loop.call_later(_AGAIN_S, self._hand_over)
