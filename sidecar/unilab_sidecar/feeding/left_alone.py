"""Whether anybody is still at work on a run that says nothing. Pure: times and what is found are
handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from unilab_metrics.errors import UnreadSettingsError
from unilab_schema.control import Head
from unilab_schema.updates import AttemptOpened, RunEnded
from unilab_sidecar.feeding.summary import Summary

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

LOOK_S = 0.5
HEARD_WITHIN_S = 5.0
"""Who goes on with a run is heard by then, or has ended it: so long it stays as it was said."""


class _Source(Protocol):
    @property
    def connected(self) -> bool: ...

    @property
    def reads_files(self) -> bool: ...

    def poll(self, timeout_ms: int) -> list[HistoryRecord]: ...


class LeftAlone:
    """Owned by the feed's thread. ``gone``: who is gone, by name, if nobody is at work on the run.
    ``ended``: how it has ended, where its files are out of sight and say so, with ``summary``."""

    def __init__(
        self,
        find_abandoned: Callable[[], tuple[str, ...] | None],
        read_summary: Callable[[int], Summary | None],
        *,
        sees_files: bool,
    ) -> None:
        """``sees_files``: whether all that a dead run has left comes from the source."""
        self._find_abandoned = find_abandoned
        self._read_summary = read_summary
        self._sees_files = sees_files
        self._looked_s = self._sure_s = 0.0
        self._untold_s: float | None = None
        self._has_ended = False
        self.gone: tuple[str, ...] | None = None
        self.ended = ""
        self.summary: Summary | None = None

    @property
    def is_untold(self) -> bool:
        """Whether the answer is awaited: damaged settings keep it from being told at once."""
        return self._untold_s is not None and not self._has_ended

    def heed(self, records: Iterable[HistoryRecord]) -> None:
        """Takes the entries that have come. Who is gone of one attempt says nothing of the next,
        whose processes wrote what follows the end."""
        for record in records:
            if self._has_ended or isinstance(record.entry, AttemptOpened):
                self.gone, self.ended = None, ""
            self._has_ended = isinstance(record.entry, RunEnded)

    def look(self, source: _Source, head: Head | None, now_s: float) -> list[HistoryRecord]:
        """To be called after each poll, whose entries :meth:`heed` has taken; entries that came too
        late for it, which it takes by itself. Raises what ``find_abandoned`` does, an
        ``UnreadSettingsError`` only after :data:`HEARD_WITHIN_S`, and never of a run that has ended.
        """
        self.summary = None
        if source.connected:
            self.gone, self.ended, self._untold_s = None, "", None
            return []
        if now_s - self._looked_s < LOOK_S:
            return []
        found = self._found(now_s)
        is_known = self.gone is not None or bool(self.ended)
        if found is None and is_known and now_s - self._sure_s < HEARD_WITHIN_S:
            self._looked_s = now_s
            return []
        # They may have ended the run after the poll: only who reads on and finds nothing knows
        # that they have not.
        more = source.poll(0) if found is not None and not is_known else []
        is_sure = is_known or (not more and (source.reads_files or not self._sees_files))
        self._looked_s, self._sure_s = 0.0 if more else now_s, now_s
        self.gone, self.ended = found if is_sure else None, ""
        self.heed(more)
        if self.gone is not None and not self._sees_files and head is not None:
            # What ended unheard has said so itself.
            self.summary = self._read_summary(head.attempt)
            if self.summary is not None and self.summary.status:
                self.gone, self.ended = None, self.summary.status
        return more

    def _found(self, now_s: float) -> tuple[str, ...] | None:
        try:
            found = self._find_abandoned()
        except UnreadSettingsError:
            # A training that is at work starts an aggregator again, which is heard by then.
            if self._untold_s is None:
                self._untold_s = now_s
            if not self._has_ended and now_s - self._untold_s >= HEARD_WITHIN_S:
                raise
            return None
        self._untold_s = None
        return found
