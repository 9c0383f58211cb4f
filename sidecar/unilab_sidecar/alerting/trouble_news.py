"""Which troubles that cost no frame are going on. Pure.

Sources count them from their start on: a count alone says nothing of now. One that has risen
lately does, and so does that of a source that is silent.
"""

from __future__ import annotations

from unilab_schema.control import Head, SourceStatus
from unilab_schema.identity import SourceKey
from unilab_sidecar.picture import Trouble
from unilab_sidecar.progress.source_states import ENDED

NEWS_S = 60.0
"""How long a count that has risen is news."""


class TroubleNews:
    """Follows the announcements. One owner, no locks; bounded by the announced sources."""

    def __init__(self) -> None:
        self._counts: dict[tuple[SourceKey, int, str], int] = {}
        self._risen_mono_ns: dict[tuple[SourceKey, int, str], int] = {}
        self._seen = False

    def heed(self, head: Head) -> None:
        """Takes the newest announcement."""
        counts = {
            (source.key, source.pid, name): count
            for source in head.sources
            for name, count in source.troubles.items()
        }
        for what, count in counts.items():
            if self._seen and count > self._counts.get(what, 0):
                self._risen_mono_ns[what] = head.mono_ns
        self._risen_mono_ns = {
            what: at
            for what, at in self._risen_mono_ns.items()
            if what in counts and 0 <= head.mono_ns - at < NEWS_S * 1e9
        }
        self._counts, self._seen = counts, True

    def now(self, sources: tuple[SourceStatus, ...]) -> tuple[Trouble, ...]:
        """What is going on among the sources that are shown."""
        return tuple(
            Trouble(source.key.place, name, count)
            for source in sources
            for name, count in sorted(source.troubles.items())
            if count
            and source.state not in ENDED
            and (source.state == "silent" or (source.key, source.pid, name) in self._risen_mono_ns)
        )
