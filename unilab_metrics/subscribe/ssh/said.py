"""What ssh writes to its error stream, in words that say what to do. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from unilab_metrics.errors import ExitCode, SshError

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
MOST_WORDS = 16 * 1024
"""Characters that people are shown of what a host tells them while connecting."""
_MOST_OF_A_LINE = 400
_OWN_STATUS = 255
"""ssh's own failures; other statuses are those of the command at the other end."""
_ASKS = "is anew asked for a password, code or key, which a running view cannot give"


class Said(NamedTuple):
    """``reason``: what it means. ``asks``: a person has to prove who he is."""

    reason: str
    exit_code: int
    asks: bool = False


class _Meaning(NamedTuple):
    words: str
    reason: str
    exit_code: int
    asks: bool = False


_CHANGED = (
    "its host key is another one than known_hosts has; if that is right, "
    "`ssh-keygen -R HOST` forgets the old one"
)
_NO_FORWARDING = (
    "its sshd forwards no unix sockets; it needs `AllowStreamLocalForwarding yes` and no "
    "`DisableForwarding`, or use `tcp://HOST:PORT --key FILE`"
)
_MANY_KEYS = (
    "too many keys were offered; name the right one with IdentityFile and IdentitiesOnly yes "
    "in ~/.ssh/config"
)
_UNKNOWN_KEY = "its host key is not known here; connect once with `ssh` and accept it"
_UNKNOWN_HOST = "there is no such host, nor an alias in ~/.ssh/config"
_OPTIONS = "ssh does not take its options"
_MEANINGS = (
    _Meaning("REMOTE HOST IDENTIFICATION HAS CHANGED", _CHANGED, ExitCode.REFUSED),
    _Meaning("Host key verification failed", _UNKNOWN_KEY, ExitCode.REFUSED, asks=True),
    _Meaning("administratively prohibited", _NO_FORWARDING, ExitCode.REFUSED),
    _Meaning("Too many authentication failures", _MANY_KEYS, ExitCode.REFUSED, asks=True),
    _Meaning(
        "Permission denied",
        "it does not let you in; see whether plain `ssh` does",
        ExitCode.REFUSED,
        asks=True,
    ),
    _Meaning("Could not resolve hostname", _UNKNOWN_HOST, ExitCode.NO_LIVE_RUN),
    _Meaning("Connection refused", "no sshd listens there", ExitCode.NO_LIVE_RUN),
    _Meaning("No route to host", "there is no way to the host", ExitCode.NO_LIVE_RUN),
    _Meaning("Network is unreachable", "there is no way to the host", ExitCode.NO_LIVE_RUN),
    _Meaning("timed out", "the host does not answer", ExitCode.NO_LIVE_RUN),
    _Meaning("not responding", "the host does not answer any more", ExitCode.NO_LIVE_RUN),
    _Meaning("Bad configuration option", _OPTIONS, ExitCode.USAGE),
    _Meaning("command-line line", _OPTIONS, ExitCode.USAGE),
    _Meaning("unknown option --", _OPTIONS, ExitCode.USAGE),
    _Meaning("Bad owner or permissions", "ssh does not take its configuration", ExitCode.USAGE),
    _Meaning("Can't open user config file", "ssh finds no such configuration", ExitCode.USAGE),
    _Meaning("currently not available", "its account has no shell", ExitCode.REFUSED),
)
_NOISE = re.compile(r"Connection to .* closed|^\*+$|mux_client|Pseudo-terminal")
_REPLACED = re.compile(
    r"^(?:channel \d+: |client_loop: |Read from remote host|Connection (?:reset|closed))"
)
"""Told in words of ours, or of something that is tried again."""
NO_FORWARDING = Said(_NO_FORWARDING, ExitCode.REFUSED)
"""The run is at work, and ssh does not reach its sockets."""


def understand(text: str, exit_status: int | None) -> Said:
    """Why a connection did not come about or has ended."""
    for words, reason, exit_code, asks in _MEANINGS:
        line = next((one for one in reversed(text.splitlines()) if words in one), None)
        if line is not None:
            quoted = short(line.strip().removeprefix("ssh: "))
            return Said(f"{reason} (ssh: {quoted})", exit_code, asks)
    last = last_line(text)
    if exit_status is not None and exit_status < 0:
        return Said(f"ssh was ended by signal {-exit_status}", ExitCode.NO_LIVE_RUN)
    if exit_status is not None and exit_status != _OWN_STATUS:
        words = f"`sh` ended there with status {exit_status}{f': {last}' if last else ''}"
        return Said(f"the account has no usual shell ({words})", ExitCode.REFUSED)
    return Said(
        f"the connection has ended{f' (ssh: {last})' if last else ''}", ExitCode.NO_LIVE_RUN
    )


def for_people(text: str) -> str:
    """What a person should read while connecting: a host's greeting, a warning; nothing that
    the error says again."""
    return "".join(
        f"{short(line)}\n"
        for line in text.splitlines()
        if not (_NOISE.search(line) or _REPLACED.search(line))
        and not any(words in line for words, *_ in _MEANINGS)
    )


class Words:
    """What people are shown of all that one host tells them. Owned by one thread."""

    def __init__(self) -> None:
        self._left = MOST_WORDS

    def take(self, text: str) -> str:
        """As :func:`for_people`, until that has been enough."""
        if self._left <= 0:
            return ""
        words = for_people(text)
        shown, self._left = words[: self._left], self._left - len(words)
        return words if self._left > 0 else f"{shown}\n(the host says more than is shown here)\n"


def last_line(text: str) -> str:
    """The last words that are more than noise."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return short(next((line for line in reversed(lines) if not _NOISE.search(line)), ""))


def short(line: str) -> str:
    """A line as it can be shown, however long somebody has made it."""
    return line if len(line) <= _MOST_OF_A_LINE else f"{line[: _MOST_OF_A_LINE - 3]}..."


def error(destination: str, said: Said, *, again: str = "") -> SshError:
    """``again``: how to attach anew, where a running view cannot be helped."""
    reason = f"{_ASKS}; run `unilab-metrics attach {again}` anew" if again else said.reason
    return SshError(destination, reason, said.exit_code)


def pause_s(failures: int) -> float:
    """How long to wait after so many attempts in a row that failed."""
    return min(FIRST_PAUSE_S * 2.0 ** max(0, min(failures, 10) - 1), LONGEST_PAUSE_S)
