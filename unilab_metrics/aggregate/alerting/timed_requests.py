"""Requests over HTTP with one deadline, however slowly the other side answers.

The timeout of ``urllib`` counts from each byte that comes: a server that sends one every few
seconds would hold whoever waits for as long as it likes.
"""

from __future__ import annotations

import http.client
import io
import time
import urllib.request
from typing import Any, cast


class _Rest(io.RawIOBase):
    """What a socket still brings before a deadline."""

    def __init__(self, connected: Any, stream: io.RawIOBase, by_s: float) -> None:
        self._connected, self._stream, self._by_s = connected, stream, by_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        left_s = self._by_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connected.settimeout(left_s)
        return cast("int | None", cast("Any", self._stream).readinto(buffer))

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Reply(http.client.HTTPResponse):
    def __init__(self, connected: Any, *arguments: Any, by_s: float, **more: Any) -> None:
        super().__init__(connected, *arguments, **more)
        stream = self.fp.detach()
        self.fp = io.BufferedReader(_Rest(connected, stream, by_s))


class _Timed(http.client.HTTPConnection):
    """``timeout``: for everything together. Connecting may take as long for each address that the
    host has."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        by_s = time.monotonic() + float(self.timeout or 0.0)

        def reply(connected: Any, *arguments: Any, **more: Any) -> _Reply:
            return _Reply(connected, *arguments, by_s=by_s, **more)

        self.response_class = cast("Any", reply)


class _TimedTls(_Timed, http.client.HTTPSConnection):
    pass


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Timed, req)


class _Tls(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_TimedTls, req)


def timed_opener(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """``handlers``: beyond the usual ones. The ``timeout`` of its ``open`` is for all of it, until
    the head of the reply is there, and for what is read of the rest."""
    return urllib.request.build_opener(_Plain(), _Tls(), *handlers)
