"""When an iteration is sealed: the waiting rules of the aggregator. Pure; time is passed in.

What is decided is journaled as an entry and folded by ``state``; how long was waited, and who
was heard meanwhile, is nobody's business after a restart and lives here.
"""

from __future__ import annotations

from unilab_metrics.aggregate.folding.attendance import is_everyone_done
from unilab_metrics.aggregate.folding.entries import Seal
from unilab_metrics.aggregate.folding.late_reports import WHY as WHY_REPORTS
from unilab_metrics.aggregate.folding.late_reports import has_late_reports
from unilab_metrics.aggregate.folding.remembering import MAX_REMEMBERED_ITERATIONS
from unilab_metrics.aggregate.folding.sealing import Shares
from unilab_metrics.aggregate.folding.state import AggregatorState

MAX_OPEN_WINDOWS = 1024
MAX_HELD_BYTES = 128 * 1024 * 1024
"""Of the values in them; beyond, the lowest is sealed as it is."""
MAX_LATE_WINDOWS = 256
"""Sealed iterations for which values are gathered at a time."""
COLLECTOR_SILENT_S = 1.0
"""A collector that was not heard for this long is not waited for until it is heard again. A
fixed wait per iteration would either put a busy node's reports into the wrong iteration, or
hold every iteration up while a collector is stopped."""
COLLECTOR_WAIT_S = 2.0
"""How long a collector is waited for that is heard and does not catch up."""
SUPPLEMENT_WAIT_S = 1.0
"""How long values for a sealed iteration are gathered over the ranks."""

_Key = tuple[int, int]


class Decider:
    """Says what to seal next. Owned by the aggregator's only thread."""

    def __init__(self, state: AggregatorState, straggler_deadline_s: float = 30.0) -> None:
        self._state = state
        self._straggler_deadline_ns = straggler_deadline_s * 1e9
        self._first_seen_mono_ns: dict[_Key, int] = {}
        self._ready_mono_ns: dict[_Key, int] = {}
        self._late_seen_mono_ns: dict[_Key, int] = {}
        self._heard_mono_ns: dict[int, int] = {}
        self._resumed_mono_ns: int | None = None
        self._given_up: set[int] = set()
        self._stragglers: dict[int, int] = {}

    def heard(self, source: int, mono_ns: int) -> None:
        """A source said something."""
        self._heard_mono_ns[source] = mono_ns

    def excuse(self, source: int) -> None:
        """A source says that nothing of what its training logs can reach us; it is not waited for
        until something does."""
        self._stragglers[source] = self._state.data.sources[source].frames

    def resumed(self, mono_ns: int) -> None:
        """We ourselves stood still until now, so nobody's silence means anything yet."""
        self._resumed_mono_ns = mono_ns

    def due(
        self, mono_ns: int, unix_ns: int, awaited_ranks: frozenset[int] = frozenset()
    ) -> Seal | None:
        """The next iteration to seal at this time, or ``None``. Call again after handling it.

        ``awaited_ranks``: ranks with a process that publishes already and is not known yet.
        """
        if self._resumed_mono_ns is None:
            self._resumed_mono_ns = mono_ns
        windows = self._state.data.windows
        self._note_new(mono_ns)
        sealed = self._state.data.sealed_tags
        if windows.late and len(sealed) >= MAX_REMEMBERED_ITERATIONS:
            # The next seal forgets this one, and with it what its late values would add.
            oldest = next(iter(sealed))
            if oldest in windows.late:
                return self._seal_late(oldest, mono_ns, unix_ns, "overflow")
        window = windows.lowest()
        if window is not None:
            why = self._why_now(window.iteration, window.shares.values(), mono_ns, awaited_ranks)
            unripe = len(windows.late) - len(windows.ripe())
            is_full = (
                len(windows.open) + unripe > MAX_OPEN_WINDOWS or windows.held_bytes > MAX_HELD_BYTES
            )
            if why is None and is_full:
                why = "overflow"
            if why is not None:
                key = self._key(window.iteration)
                self._first_seen_mono_ns.pop(key, None)
                self._ready_mono_ns.pop(key, None)
                return Seal(window.iteration, mono_ns, unix_ns, why)
        return self._late_due(mono_ns, unix_ns)

    def flush(self, mono_ns: int, unix_ns: int) -> Seal | None:
        """The next window that must be sealed because nobody can add to it any more."""
        windows = self._state.data.windows
        window = windows.lowest()
        if window is not None:
            return Seal(window.iteration, mono_ns, unix_ns, "end")
        if windows.late:
            return Seal(min(windows.late), mono_ns, unix_ns, "end", supplement=True)
        last = self._state.data.last_iteration
        if last is not None and has_late_reports(self._state):
            return Seal(last, mono_ns, unix_ns, WHY_REPORTS, supplement=True)
        return None

    def _why_now(
        self, iteration: int, shares: Shares, mono_ns: int, awaited_ranks: frozenset[int]
    ) -> str | None:
        key = self._key(iteration)
        first_seen = self._first_seen_mono_ns.setdefault(key, mono_ns)
        if not is_everyone_done(self._state, iteration, self._excused()):
            if self._waited_ns(first_seen, mono_ns) < self._straggler_deadline_ns:
                return None
            self._excuse(iteration)
            return "straggler"
        ready = self._ready_mono_ns.setdefault(key, mono_ns)
        # Also for a lost rank's successor: what it has logged already would be late.
        if awaited_ranks:
            self._ready_mono_ns[key] = mono_ns
            return None
        return None if self._must_wait(shares, mono_ns, ready) else "complete"

    def _note_new(self, mono_ns: int) -> None:
        """Each iteration has a deadline of its own, also while an earlier one is waited for."""
        seen = self._first_seen_mono_ns
        windows = self._state.data.windows.open
        for iteration in reversed(windows):
            key = self._key(iteration)
            if key in seen:
                break
            seen[key] = mono_ns
        # Whatever is looked through here was put there since the last time, by more than half.
        if len(seen) > 2 * len(windows) + MAX_OPEN_WINDOWS:
            kept = {self._key(iteration) for iteration in windows}
            self._first_seen_mono_ns = {key: at for key, at in seen.items() if key in kept}

    def _excuse(self, iteration: int) -> None:
        """A learner that has let a deadline pass is not waited for again until it says more:
        one that hangs or cannot be reached holds the others up once."""
        for source in self._state.live_learners():
            if not self._state.data.windows.is_done(source.index, iteration):
                self._stragglers[source.index] = source.frames

    def _excused(self) -> frozenset[int]:
        if not self._stragglers:
            return frozenset()
        sources = self._state.data.sources
        self._stragglers = {
            index: frames
            for index, frames in self._stragglers.items()
            if sources[index].frames == frames
        }
        return frozenset(self._stragglers)

    def _late_due(self, mono_ns: int, unix_ns: int) -> Seal | None:
        windows = self._state.data.windows
        late, ripe = windows.late, windows.ripe()
        if not ripe:
            return None
        if len(ripe) > MAX_LATE_WINDOWS:
            of_ripe = set(ripe)
            oldest = next(iteration for iteration in late if iteration in of_ripe)
            return self._seal_late(oldest, mono_ns, unix_ns, "overflow")
        live = {source.index for source in self._state.live_learners()}
        for iteration in ripe:
            key = self._key(iteration)
            seen = self._late_seen_mono_ns.setdefault(key, mono_ns)
            is_complete = live <= late[iteration].done
            if is_complete or self._waited_ns(seen, mono_ns) >= SUPPLEMENT_WAIT_S * 1e9:
                return self._seal_late(iteration, mono_ns, unix_ns, "complete")
        return None

    def _seal_late(self, iteration: int, mono_ns: int, unix_ns: int, why: str) -> Seal:
        self._late_seen_mono_ns.pop(self._key(iteration), None)
        return Seal(iteration, mono_ns, unix_ns, why, supplement=True)

    def _must_wait(self, shares: Shares, mono_ns: int, ready_mono_ns: int) -> bool:
        """Whether collectors that are behind can be expected to catch up."""
        behind = _collectors_behind(self._state, shares)
        self._given_up &= behind
        waiting = {
            source
            for source in behind - self._given_up
            if self._waited_ns(self._heard_mono_ns.get(source, 0), mono_ns)
            < COLLECTOR_SILENT_S * 1e9
        }
        if waiting and self._waited_ns(ready_mono_ns, mono_ns) >= COLLECTOR_WAIT_S * 1e9:
            self._given_up |= waiting
            return False
        return bool(waiting)

    def _waited_ns(self, since_mono_ns: int, mono_ns: int) -> int:
        """Time since then, without the time in which we ourselves stood still."""
        return mono_ns - max(since_mono_ns, self._resumed_mono_ns or 0)

    def _key(self, iteration: int) -> _Key:
        # The next attempt counts the same iterations again.
        return self._state.data.attempt, iteration


def _collectors_behind(state: AggregatorState, shares: Shares) -> set[int]:
    """Live collectors whose reports up to their learner's stamp may not all be here."""
    sources = state.data.sources
    behind: set[int] = set()
    if not state.others:
        return behind
    stamp_of = {share.rank: (share.mono_ns, share.source) for share in shares}
    for source in state.others:
        if source.status != "live" or source.ended is not None:
            continue
        stamp = stamp_of.get(source.rank)
        if stamp is None:
            continue
        mono_ns, learner = stamp
        same_clock = source.identity.boot_id == sources[learner].identity.boot_id
        if same_clock and source.watermark_mono_ns < mono_ns:
            behind.add(source.index)
    return behind
