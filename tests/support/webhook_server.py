"""A server on loopback that takes alerts."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class WebhookServer(http.server.ThreadingHTTPServer):
    """``answers``: the next statuses, 200 when there are none left. ``got``: what was POSTed;
    ``authorizations``: with which header of that name. ``elsewhere``: where it says that it is to
    be found. ``paths``: what was asked for by any method."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.answers: list[int] = []
        self.got: list[bytes] = []
        self.authorizations: list[str] = []
        self.elsewhere = ""
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/secret-path"


class _Taker(http.server.BaseHTTPRequestHandler):
    server: WebhookServer

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        self.server.authorizations.append(self.headers.get("Authorization", ""))
        self.server.got.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.send_header("Content-Length", "0")
        if self.server.elsewhere:
            self.send_header("Location", self.server.elsewhere)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def webhook_server() -> Iterator[WebhookServer]:
    """One that is closed afterwards."""
    made = WebhookServer()
    thread = threading.Thread(target=made.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
        thread.join()
