"""The one thread that owns the subscriber. It drains it and hands over immutable batches.

Bounded from end to end: the box holds a few batches, and while it is full the feed does not
poll, so that a stopped terminal costs the aggregator and this process nothing. What was
missed is fetched from the history afterwards, by the subscriber's own cursor.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from unilab_metrics.errors import ExitCode, UnilabMetricsError
from unilab_schema.control import Head, Snapshot
from unilab_schema.updates import RunEnded
from unilab_sidecar.batch import Batch, Failure
from unilab_sidecar.questions import Answer, Answering, Question, put
from unilab_sidecar.summary import Summary

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord

POLL_MS = 100
ASKING_POLL_MS = 20
"""While somebody waits for an answer."""
SIGN_OF_LIFE_S = 0.25
BOX_BATCHES = 8
"""Of up to half a megabyte each, while a viewer catches up."""
WAIT_FOR_BUS_S = 0.5
LOOK_S = 0.5
"""How often it is asked whether anybody is still at work on a run that says nothing."""
OWN_PAUSE_S = 1.0
"""Between two polls; a longer one is a stop of this process, or of whoever takes the batches."""


class UpdateSource(Answering, Protocol):
    """What the feed needs of ``unilab_metrics.subscribe.Subscriber``."""

    @property
    def head(self) -> Head | None:
        """The newest announcement."""
        ...

    @property
    def connected(self) -> bool:
        """Whether the aggregator answers."""
        ...

    @property
    def refusal(self) -> UnilabMetricsError | None:
        """Why the aggregator does not let us in any more, ``None`` while that is not known."""
        ...

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        """New entries in order, after at most ``timeout_ms``."""
        ...

    def snapshot(self) -> Snapshot | None:
        """Newest values of all tags as of joining, ``None`` while they are not there."""
        ...

    @property
    def restarts(self) -> int:
        """How often it has gone on from another place of the history: a new snapshot and records
        that do not follow those before."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


class Feed:
    """Runs :meth:`run` in a thread; any other thread takes batches with :meth:`take`."""

    def __init__(
        self,
        open_source: Callable[[], UpdateSource],
        *,
        wait_for_bus: bool,
        is_wanted: Callable[[], bool] = lambda: True,
        read_summary: Callable[[int], Summary | None] = lambda _attempt: None,
        find_abandoned: Callable[[], tuple[str, ...] | None] = lambda: None,
        run_dir: str = "",
    ) -> None:
        """``open_source`` attaches to the run, in the feed's thread. ``wait_for_bus``: the run
        is about to start, so try again until its bus is there. ``is_wanted``: whether who
        started this viewer is still there to see it; asked a few times a second.
        ``read_summary``: what a run says of itself after the end of an attempt; asked once, if
        nobody announces it. ``find_abandoned``: who is gone, if nobody is at work on the
        run; asked while it says nothing. ``run_dir``: where this viewer sees the run."""
        self.run_dir = run_dir
        self._open_source = open_source
        self._wait_for_bus = wait_for_bus
        self._is_wanted = is_wanted
        self._read_summary = read_summary
        self._find_abandoned = find_abandoned
        self._box: queue.Queue[Batch] = queue.Queue(BOX_BATCHES)
        self._stopped = threading.Event()
        self._asked: dict[type[Question], Question] = {}
        self._steps: dict[type[Question], tuple[Question, Question]] = {}
        self._asking = threading.Lock()

    def stop(self) -> None:
        """Makes :meth:`run` return within a poll; any thread."""
        self._stopped.set()

    def ask(self, question: Question) -> None:
        """Have a question answered in a later batch; any thread, at once. It takes the place of
        one of its kind that has not been answered yet."""
        with self._asking:
            self._asked[type(question)] = question

    def take(self) -> list[Batch]:
        """The batches that have come, without waiting."""
        batches: list[Batch] = []
        with contextlib.suppress(queue.Empty):
            while len(batches) < BOX_BATCHES:
                batches.append(self._box.get_nowait())
        return batches

    def wait(self, timeout_s: float) -> list[Batch]:
        """The batches that have come, after at most ``timeout_s`` at least one if there is any."""
        with contextlib.suppress(queue.Empty):
            return [self._box.get(timeout=timeout_s), *self.take()]
        return []

    def run(self) -> None:
        """Attaches and drains until :meth:`stop`. Errors end as the last batch's ``failure``."""
        try:
            source = self._attach()
            if source is None:
                return
            try:
                self._drain(source)
            finally:
                source.close()
        except UnilabMetricsError as error:
            self._put(Batch(failure=Failure(str(error), error.exit_code)))
        except Exception as error:  # noqa: BLE001 - a dead thread would look like a stalled run
            text = f"{type(error).__name__}: {error}"
            self._put(Batch(failure=Failure(text, 1)))

    def _is_over(self) -> bool:
        if not self._stopped.is_set() and not self._is_wanted():
            self._put(Batch(failure=Failure("the launcher is gone", ExitCode.UNEXPECTED)))
            self._stopped.set()
        return self._stopped.is_set()

    def _attach(self) -> UpdateSource | None:
        while not self._is_over():
            try:
                return self._open_source()
            except UnilabMetricsError:
                if not self._wait_for_bus:
                    raise
            self._stopped.wait(WAIT_FOR_BUS_S)
        return None

    def _drain(self, source: UpdateSource) -> None:
        joined = False
        behind = True
        restarts = source.restarts
        ended_attempt: int | None = None
        gone: tuple[str, ...] | None = None
        handed_over_s = head_at_s = looked_s = 0.0
        polled_s = time.monotonic()
        head: Head | None = None
        while not self._is_over():
            records = source.poll(ASKING_POLL_MS if self._asked else POLL_MS)
            restarted = source.restarts != restarts
            restarts, joined = source.restarts, joined and not restarted
            snapshot = None if joined else source.snapshot()
            joined = joined or snapshot is not None
            now_s = time.monotonic()
            if now_s - polled_s > OWN_PAUSE_S:
                # In which nothing could be heard.
                head_at_s += now_s - polled_s
            polled_s = now_s
            if source.head is not head:
                head, head_at_s = source.head, now_s
            behind = behind and _is_behind(records, head)
            ends = [r.entry.attempt for r in records if isinstance(r.entry, RunEnded)]
            ended_attempt = ends[-1] if ends else ended_attempt
            summary = None
            if ended_attempt is not None and not behind:
                is_told = head is not None and head.ended is not None
                summary = None if is_told else self._read_summary(ended_attempt)
                ended_attempt = None
            if source.connected:
                gone = None
            elif now_s - looked_s >= LOOK_S:
                looked_s, gone = now_s, self._find_abandoned()
            refusal = None if source.connected else source.refusal
            is_due = now_s - handed_over_s >= SIGN_OF_LIFE_S
            answers = self._answers(source)
            if (
                records
                or snapshot is not None
                or summary is not None
                or answers
                or restarted
                or is_due
            ):
                handed_over_s = now_s
                self._put(
                    Batch(
                        records=tuple(records),
                        head=head,
                        snapshot=snapshot,
                        connected=source.connected,
                        head_age_s=now_s - head_at_s if head is not None else 0.0,
                        behind=behind,
                        summary=summary,
                        gone=gone,
                        refusal=str(refusal or ""),
                        answers=answers,
                        restarted=restarted,
                    )
                )

    def _answers(self, source: UpdateSource) -> tuple[Answer, ...]:
        with self._asking:
            asked = tuple(self._asked.items())
        answers: list[Answer] = []
        for kind, question in asked:
            first, step = self._steps.get(kind, (question, question))
            made = put(step if first is question else question, question, source)
            if made is None:
                continue
            if made.answer is not None:
                answers.append(made.answer)
            self._steps.pop(kind, None)
            if made.following is not None:
                self._steps[kind] = (question, made.following)
                continue
            with self._asking:
                if self._asked.get(kind) is question:
                    del self._asked[kind]
        return tuple(answers)

    def _put(self, batch: Batch) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._box.put(batch, timeout=POLL_MS / 1000)
                return


def _is_behind(records: list[HistoryRecord], head: Head | None) -> bool:
    """Whether more of the history is waiting: files are read until there is nothing new."""
    return bool(records) and (head is None or records[-1].sequence < head.update)
