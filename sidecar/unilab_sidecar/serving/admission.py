"""Who may use the server: the token, the names it answers to, and where a page may come from. Pure.

A web page of somebody else can send requests to a server on loopback, and can have its own name
resolve to it. So beside the token, which alone lets in, the name that the browser used has to be
one of this server, and what another page has asked for is refused.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from unilab_metrics.host_names import is_address

NO_HOST = "The Host header is none."
NO_TOKEN = "The address lacks the token: use the one that unilab-metrics serve has printed."  # noqa: S105
OTHER_NAME = "This server does not answer to that name."
OTHER_PAGE = "A page of another address asked for this."
_HOST = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")
_LOCAL_NAMES = frozenset({"localhost"})


@dataclass(frozen=True, slots=True)
class Asking:
    """A request. ``host``, ``origin``, ``fetch_site``: the headers, empty without. ``tokens``: what
    it shows, of its query and of its cookie."""

    host: str
    origin: str = ""
    fetch_site: str = ""
    tokens: tuple[str, ...] = ()
    is_page: bool = False


@dataclass(frozen=True, slots=True)
class Door:
    """``token``: empty if none is needed. ``names``: what the machine is called, lower case."""

    token: str
    names: frozenset[str] = frozenset()

    def refusal(self, asking: Asking) -> str:
        """Why it is not let in, in one sentence for people; empty if it is."""
        if not _HOST.fullmatch(asking.host):
            return NO_HOST
        if not self._is_our_name(asking.host):
            return OTHER_NAME
        if asking.origin and not _is_same(asking.origin, asking.host):
            return OTHER_PAGE
        # Somebody may come to the page by a link; nobody else's page may use what is behind it.
        if asking.fetch_site in ("cross-site", "same-site") and not asking.is_page:
            return OTHER_PAGE
        if self.token and not _is_any(asking.tokens, self.token):
            return NO_TOKEN
        return ""

    def _is_our_name(self, host: str) -> bool:
        name = host_name(host)
        # Only a name can be made to mean another machine; an address of numbers cannot.
        return name in _LOCAL_NAMES or name in self.names or is_address(name)


def host_name(host: str) -> str:
    """Of a ``Host`` header, without its port; empty if it is not just that."""
    found = _HOST.fullmatch(host)
    return found[1].strip("[]").rstrip(".").lower() if found is not None else ""


def _is_same(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _is_any(tokens: Collection[str], token: str) -> bool:
    wanted = token.encode()
    # Each is compared in whole, so that the time tells nothing.
    results = [hmac.compare_digest(one.encode("utf-8", "replace"), wanted) for one in tokens]
    return any(results)
