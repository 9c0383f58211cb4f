"""Webhooks whose servers answer a few bytes at a time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unilab_metrics.aggregate.alerting import webhook as webhook_module
from unilab_metrics.aggregate.alerting.webhook import Webhook

_DRIP_S = 0.05
_PIECES = 80


@contextmanager
def _dripping(first: bytes, piece: bytes) -> Iterator[str]:
    """The URL of a server that answers ``first``, and then for seconds one ``piece`` at a time."""
    is_over = threading.Event()

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(first)
                for _ in range(_PIECES):
                    if is_over.wait(_DRIP_S):
                        break
                    peer.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            is_over.set()
            thread.join()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_module, "PAUSES_S", ())


def _outcome(url: str, place: Path) -> tuple[Webhook, float]:
    hook = Webhook(url, place)
    began = time.monotonic()
    hook.send(7, {"id": "a-7"})
    while not (hook.undelivered or hook.delivered_through) and time.monotonic() < began + 10:
        time.sleep(0.01)
    took_s = time.monotonic() - began
    hook.close()
    return hook, took_s


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_a_head_that_never_ends_holds_one_try_no_longer_than_its_time(
    first: bytes, piece: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(webhook_module, "TIMEOUT_S", 0.3)
    with _dripping(first, piece) as url:
        hook, took_s = _outcome(url, tmp_path)
    assert hook.undelivered == 1
    assert took_s < _PIECES * _DRIP_S - 1


def test_a_body_that_never_ends_is_not_waited_for(tmp_path: Path):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n"
    with _dripping(head, b"x") as url:
        hook, took_s = _outcome(url, tmp_path)
    assert (hook.undelivered, hook.delivered_through) == (0, 7)
    assert took_s < _PIECES * _DRIP_S - 1
