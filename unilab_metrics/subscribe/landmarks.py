"""Where in the files of a run its iterations and its attempts lie."""

from __future__ import annotations

from collections.abc import Callable

from unilab_metrics.subscribe.past_files import PastFiles
from unilab_schema.updates import AttemptOpened, Update

_FEW = 16
_AHEAD = 1000


class Landmarks:
    """Of a run that is over. Owned by one thread; each method raises as ``PastFiles.stretch``."""

    def __init__(self, past: PastFiles, last: int) -> None:
        """``last``: its last update sequence."""
        self._past, self._last = past, last

    def sequence_of(self, iteration: int) -> int:
        """Where the run came to an iteration; its end if it never did."""
        low = self._behind(lambda update: update.iteration >= iteration)
        records = self._past.stretch(low, _AHEAD).records
        updates = (r.sequence for r in records if isinstance(r.entry, Update))
        return next(updates, self._last)

    def first_iteration(self) -> int | None:
        """Of the run's first update, ``None`` without one."""
        found = self._update_behind(0)
        return None if found is None else found.iteration

    def first_of(self, attempt: int) -> Update | None:
        """The attempt's first update, ``None`` if it has none."""
        found = self._update_behind(0)
        if found is not None and found.attempt < attempt:
            # Most runs have one attempt, of which this is not looked for.
            found = self._update_behind(self._behind(lambda update: update.attempt >= attempt))
        return found if found is not None and found.attempt == attempt else None

    def opened(self, attempt: int) -> AttemptOpened | None:
        """How the attempt began, ``None`` where that cannot be read."""
        place = self._behind(lambda update: update.attempt >= attempt)
        # Between the last update of the attempt before and its own first one.
        before = max(place - _AHEAD, 0)
        for record in reversed(self._past.stretch(before, 2 * _AHEAD).records):
            entry = record.entry
            if isinstance(entry, AttemptOpened) and entry.attempt == attempt:
                return entry
        return None

    def _behind(self, is_there: Callable[[Update], bool]) -> int:
        """The place behind which ``is_there`` holds of all updates."""
        low, high = 0, self._last
        while low < high:
            middle = (low + high) // 2
            found = self._update_behind(middle)
            if found is None or is_there(found):
                high = middle
            else:
                low = middle + 1
        return low

    def _update_behind(self, sequence: int) -> Update | None:
        while True:
            found = self._past.stretch(sequence, _FEW)
            for record in found.records:
                if isinstance(record.entry, Update):
                    return record.entry
            if found.last <= sequence:
                return None
            sequence = found.last
