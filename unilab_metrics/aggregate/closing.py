"""The end of a run: everything is sealed, durable and in the backends, and everybody knows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from unilab_metrics.aggregate.announcing.announcer import Announcer
from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.endurance import Endurance
from unilab_metrics.aggregate.folding.entries import RunEnd
from unilab_metrics.aggregate.leaving.liveness import Liveness
from unilab_metrics.aggregate.outcome import end_status, outcome_of
from unilab_metrics.aggregate.patience import everyone_is_gone
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.aggregate.receiving.ingest import Ingest
from unilab_metrics.aggregate.writers import Writers
from unilab_metrics.errors import ExitCode
from unilab_metrics.outcome import RunOutcome

_SAY_CLOSED_NS = 500_000_000
_FULL_DISK_NS = 10_000_000_000
"""How long the end of a run waits for a disk that is full or fails; as its writers do."""
_TELL_NS = 5_000_000_000
_TELL_EARLY_NS = 3_000_000_000


class Closing:
    """Owned by the aggregator's main thread. ``turn``: one of its loop's."""

    def __init__(
        self,
        core: Core,
        *,
        run_dir: Path,
        drain_s: float,
        ingest: Ingest,
        liveness: Liveness,
        announcer: Announcer,
        writers: Writers,
        endurance: Endurance,
        unheard: Callable[[], list[str]],
        turn: Callable[[], None],
        write_summary: Callable[[RunOutcome], None],
    ) -> None:
        """``drain_s``: how long the backends may take. ``unheard``: what is to be told of those
        who have not come."""
        self._core = core
        self._run_dir = run_dir
        self._drain_ns = int(drain_s * 1e9)
        self._ingest = ingest
        self._liveness = liveness
        self._announcer = announcer
        self._writers = writers
        self._endurance = endurance
        self._unheard = unheard
        self._turn = turn
        self._write_summary = write_summary
        self._began_mono_ns = 0
        self._gone_mono_ns: int | None = None
        self._is_told_early = False

    def is_put_off(self) -> bool:
        """Whether everyone is gone and what they left is still being sealed. That may take longer
        than readers of the summary wait, so it is written before, once."""
        core, now = self._core, time.monotonic_ns()
        if not core.has_due or not everyone_is_gone(core.state.data):
            self._gone_mono_ns = None
            return False
        if self._gone_mono_ns is None:
            self._gone_mono_ns = now
        if not self._is_told_early and now - self._gone_mono_ns > _TELL_EARLY_NS:
            self._is_told_early = True
            self._summarise()
        return True

    def run(self) -> int:
        """Returns the process's exit code."""
        self._ingest.is_closing = self._liveness.is_closing = True
        self._write_end()
        self._wait_for_backends()
        self._ingest.tell_left_out(self._unheard())
        is_told = self._summarise()
        while not is_told and not self._has_waited():
            self._turn()
            is_told = self._summarise()
        self._ingest.say_closed()
        self._announcer.announce(force=True)
        end_ns = time.monotonic_ns() + _SAY_CLOSED_NS
        while time.monotonic_ns() < end_ns and self._someone_waits():
            self._turn()
        self._liveness.remove_finished()
        core = self._core
        if core.problem or core.journal.has_uncommitted:
            say(f"{core.problem or 'not everything is committed'}; ended without it")
            return ExitCode.UNEXPECTED
        return ExitCode.OK if is_told else ExitCode.UNEXPECTED

    def _write_end(self) -> None:
        core = self._core
        core.seal_all()
        if core.state.data.ended is None:
            status, text = end_status(core.state.data)
            core.fold(RunEnd(status, text, time.time_ns()))

    def _wait_for_backends(self) -> None:
        began_ns = self._began_mono_ns = time.monotonic_ns()
        is_told = False
        while time.monotonic_ns() < began_ns + self._drain_ns and not self._is_complete():
            self._turn()
            if self._core.problem and self._has_waited():
                break
            if not is_told and time.monotonic_ns() - began_ns > _TELL_NS:
                # Readers of the summary do not wait for a backend that is stuck.
                self._summarise()
                is_told = True

    def _is_complete(self) -> bool:
        core = self._core
        last = core.journal.committed_update
        if core.journal.has_uncommitted or core.durable_update < last:
            return False
        return self._writers.is_complete(last, gives_up=self._has_waited())

    def _has_waited(self) -> bool:
        """Whether a disk that is full or fails has had its time."""
        return time.monotonic_ns() - self._began_mono_ns > _FULL_DISK_NS

    def _summarise(self) -> bool:
        told = self._writers.troubles(self._core.journal.committed_update)
        troubles = [text for text in (*self._core.untold, self._core.problem, *told) if text]
        peers, backends = self._ingest.peers, self._writers.updates()
        outcome = outcome_of(self._core.state, self._run_dir, peers, backends, troubles)
        return self._endurance.attempt("run summary", lambda: self._write_summary(outcome))

    def _someone_waits(self) -> bool:
        """Whether a source that closed is still there to read its last cursor."""
        data = self._core.state.data
        return any(
            source.attempt == data.attempt and self._liveness.may_listen(source)
            for source in data.sources
        )
