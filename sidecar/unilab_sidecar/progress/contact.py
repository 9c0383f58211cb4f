"""Whether the aggregator speaks, and what a successor's first seconds say of sources. Pure."""

from __future__ import annotations

import msgspec

from unilab_schema.control import Head, SourceStatus
from unilab_schema.identity import SourceKey
from unilab_sidecar.progress.source_states import as_shown

REJOIN_S = 15.0
"""How long sources may take to find a new aggregator; after that, silence is their own."""
_TOLERANCE_S = 0.05


class Contact:
    """Follows the announcements. After a restart of the aggregator every source is unheard
    until it has connected again, which says nothing about the source."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._first_mono_ns: int | None = None
        self._attempt = 0
        self._awaited: set[SourceKey] = set()

    def heed(self, head: Head) -> None:
        """Takes the newest announcement."""
        known, self._head = self._head, head
        if known is not None and known.epoch != head.epoch:
            self._first_mono_ns, self._attempt = head.mono_ns, known.attempt
            self._awaited = {status.key for status in known.sources if status.state == "live"}
        if self._awaited:
            since_s = self._since_s()
            self._awaited -= {s.key for s in head.sources if _has_spoken(s, since_s)}

    def restarted_s(self) -> float | None:
        """Seconds since a successor's first announcement, ``None`` when that is no news, or when
        it is not back: another attempt has an aggregator of its own."""
        is_another = self._head is not None and self._head.attempt != self._attempt
        return None if is_another else self._rejoining_s()

    def _rejoining_s(self) -> float | None:
        since_s = self._since_s()
        return since_s if self._first_mono_ns is not None and since_s < REJOIN_S else None

    def sources(self, *, are_gone: bool = False) -> tuple[SourceStatus, ...]:
        """The announced sources; those that a new aggregator still waits for are ``awaited``.
        ``are_gone``: nobody is at work on the run any more, so those who were are ``gone``."""
        return tuple(as_shown(status) for status in self._standing(are_gone=are_gone))

    def _standing(self, *, are_gone: bool) -> tuple[SourceStatus, ...]:
        if self._head is None:
            return ()
        if are_gone:
            return tuple(
                msgspec.structs.replace(status, state="gone")
                if status.state in ("live", "silent")
                else status
                for status in self._head.sources
            )
        if self._rejoining_s() is None:
            return self._head.sources
        return tuple(
            msgspec.structs.replace(status, state="awaited")
            if status.state == "silent" and status.key in self._awaited
            else status
            for status in self._head.sources
        )

    def _since_s(self) -> float:
        if self._head is None or self._first_mono_ns is None:
            return 0.0
        return (self._head.mono_ns - self._first_mono_ns) / 1e9


def _has_spoken(status: SourceStatus, since_s: float) -> bool:
    return status.state in ("finished", "lost") or status.age_s < since_s - _TOLERANCE_S
