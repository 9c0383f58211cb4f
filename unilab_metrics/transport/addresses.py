"""TCP addresses: what a user may ask for, and under which address others reach this node."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from typing import NamedTuple

from unilab_metrics.errors import EndpointError
from unilab_metrics.host_names import is_address

AUTOMATIC = "auto"
"""Bind on this node's own address, for a training that spans several nodes."""
ANY = "*"
_EVERYWHERE = frozenset({ANY, AUTOMATIC, "0.0.0.0", "::"})  # noqa: S104 (to be replaced)
_PREFIX = "tcp://"
_HOST = re.compile(r"[0-9A-Za-z.\-_]{1,253}")
# TEST-NET-1: a datagram socket that is connected there sends nothing, but shows which of our
# addresses leads out of the node.
_ELSEWHERE = ("192.0.2.1", 9)


class TcpAddress(NamedTuple):
    """``host``: an address or a name without brackets, or ``*``. ``port``: 0 for any."""

    host: str
    port: int

    @property
    def endpoint(self) -> str:
        """As ZeroMQ wants it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_PREFIX}{host}:{self.port or ANY}"

    @property
    def is_ipv6(self) -> bool:
        """Whether the socket must speak IPv6."""
        return ":" in self.host


def parse_tcp(text: str) -> TcpAddress:
    """``tcp://HOST``, ``tcp://HOST:PORT``, ``tcp://*``, ``tcp://[::1]:7400``.

    Raises :class:`EndpointError` for anything else.
    """
    rest = text[len(_PREFIX) :] if text.startswith(_PREFIX) else ""
    host, colon, port = rest, "", ""
    if rest.startswith("["):
        host, bracket, tail = rest[1:].partition("]")
        colon, port = tail[:1], tail[1:]
        if not bracket or ":" not in host or not is_address(host) or colon not in {"", ":"}:
            raise EndpointError(text, "is no IPv6 address in brackets")
    elif rest.count(":") <= 1:
        host, colon, port = rest.partition(":")
        if host != ANY and not _HOST.fullmatch(host):
            raise EndpointError(text, "is no tcp://HOST:PORT")
    else:
        raise EndpointError(text, "needs brackets around an IPv6 address")
    if colon and port != ANY and not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise EndpointError(text, "has no port between 0 and 65535")
    return TcpAddress(host, int(port) if port not in {"", ANY} else 0)


def reachable_host(bound: str, towards: str = "") -> str:
    """The address that others use for what is bound on ``bound``.

    ``towards``: a host of the same job, such as its ``MASTER_ADDR``. May ask the resolver.
    """
    return node_address(towards) if bound in _EVERYWHERE else bound


def node_address(towards: str = "") -> str:
    """The address under which others see this node; loopback only where there is no other one.

    ``towards``: as in :func:`reachable_host`. May ask the resolver, so never in a training.
    """
    for target in (towards, socket.gethostname()):
        address = _resolve(target)
        if address and not ipaddress.ip_address(address).is_loopback:
            source = _source_address((address, _ELSEWHERE[1]))
            if source and not ipaddress.ip_address(source).is_loopback:
                return source
    return _source_address(_ELSEWHERE) or "127.0.0.1"


def _resolve(host: str) -> str:
    if not host:
        return ""
    with contextlib.suppress(OSError, UnicodeError):
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
        addresses = [str(entry[4][0]) for entry in found]
        # IPv4 first: the older a cluster, the fewer of its nodes route anything else.
        return next((address for address in addresses if ":" not in address), addresses[0])
    return ""


def _source_address(target: tuple[str, int]) -> str:
    family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0]).partition("%")[0]
    return ""
