"""Alerts to a URL of the user's, from a thread of the aggregator's process.

At least once: each has an id, and one whose delivery is not known is sent again after a restart
while it is open. The URL may be a secret: only its host is ever shown.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import queue
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from unilab_metrics.aggregate.alerting.timed_requests import timed_opener
from unilab_metrics.storage.filesystem import read_private, write_atomic

MARK_FILE = "alert_webhook.json"
MAX_WAITING = 64
TIMEOUT_S = 5.0
"""For one try, from the connection to the head of the reply."""
PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Before each further try; after the last one the alert counts as not delivered."""
CLOSE_S = 5.0
"""How long the end of the aggregator waits for what has not been delivered."""
_MAX_MARK_BYTES = 4096
_FAILURES = (OSError, http.client.HTTPException, ValueError)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any, **_more: Any) -> None:
        """A POST that is sent elsewhere would arrive as a GET."""


class Webhook:
    """Any method is called from the aggregator's main thread and never waits, but for
    :meth:`close`, which takes at most :data:`CLOSE_S`."""

    def __init__(self, url: str, bus_dir: Path) -> None:
        self.host = urlsplit(url).hostname or ""
        self._url, self._authorization = _split_credentials(url)
        self._mark = bus_dir / MARK_FILE
        self._box: queue.Queue[tuple[int, bytes]] = queue.Queue(MAX_WAITING)
        self._closing = threading.Event()
        self._close_by_s = float("inf")
        self._opener = timed_opener(_NoRedirect())
        self.undelivered = 0
        self._why = ""
        self.failing = ""
        """Why the newest one was not delivered; empty if it was."""
        self.delivered_through = self._read_mark()
        self._thread = threading.Thread(target=self._run, name="alert-webhook", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        """What could not be delivered so far, with the last reason; empty for nothing."""
        if not self.undelivered:
            return ""
        return f"alert webhook at {self.host}: {self.undelivered:,} not delivered ({self._why})"

    def send(self, sequence: int, body: dict[str, Any]) -> None:
        """Have one delivered; beyond :data:`MAX_WAITING` it counts as not delivered."""
        data = json.dumps(body, ensure_ascii=True, default=str).encode()
        try:
            self._box.put_nowait((sequence, data))
        except queue.Full:
            self._failed(f"{MAX_WAITING} wait already")

    def close(self) -> None:
        """Deliver what can be within the time, then leave the rest."""
        self._close_by_s = time.monotonic() + CLOSE_S
        self._closing.set()
        with contextlib.suppress(queue.Full):
            self._box.put_nowait((0, b""))
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not (self._closing.is_set() and self._box.empty()):
            sequence, data = self._box.get()
            if not data:
                continue
            if time.monotonic() >= self._close_by_s:
                self._failed("no time was left")
            elif self._deliver(data):
                self.failing = ""
                self._write_mark(sequence)

    def _deliver(self, data: bytes) -> bool:
        for pause_s in (*PAUSES_S, None):
            why = self._post(data)
            if not why:
                return True
            if pause_s is None or self._closing.is_set():
                self._failed(why)
                return False
            self._closing.wait(pause_s)
        return False

    def _post(self, data: bytes) -> str:
        """Why it did not work; empty if it did. Never the text of an error: it may name the URL."""
        left_s = max(min(TIMEOUT_S, self._close_by_s - time.monotonic()), 0.1)
        headers = {"Content-Type": "application/json", "User-Agent": "unilab-metrics"}
        headers |= self._authorization
        try:
            request = urllib.request.Request(self._url, data, headers, method="POST")  # noqa: S310
            # That it was taken stands in the head; nobody wants the rest.
            self._opener.open(request, timeout=left_s).close()
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP {error.code}"
        except urllib.error.URLError as error:
            return type(error.reason).__name__ if isinstance(error.reason, OSError) else "URLError"
        except _FAILURES as error:
            return type(error).__name__
        return ""

    def _failed(self, why: str) -> None:
        self.undelivered += 1
        self._why = self.failing = why

    def _read_mark(self) -> int:
        try:
            mark = json.loads(read_private(self._mark, _MAX_MARK_BYTES))["delivered_through"]
        except Exception:  # noqa: BLE001 - unknown means that what is open is sent again
            return 0
        return mark if isinstance(mark, int) else 0

    def _write_mark(self, sequence: int) -> None:
        self.delivered_through = max(self.delivered_through, sequence)
        with contextlib.suppress(Exception):
            write_atomic(
                self._mark, json.dumps({"delivered_through": self.delivered_through}).encode()
            )


def _split_credentials(url: str) -> tuple[str, dict[str, str]]:
    """The URL without its user and password, and the header that says them: urllib takes them for
    a part of the host."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return url, {}
    said = b":".join(unquote_to_bytes(part or "") for part in (parts.username, parts.password))
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, {"Authorization": f"Basic {base64.b64encode(said).decode()}"}
