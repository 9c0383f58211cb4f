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
from typing import TYPE_CHECKING

from unilab_metrics.errors import ExitCode, UnilabMetricsError
from unilab_schema.control import Head
from unilab_schema.requests import Snapshot
from unilab_sidecar.feeding.arrival import Arrival
from unilab_sidecar.feeding.asking_again import AskingAgain
from unilab_sidecar.feeding.batch import Batch, Failure
from unilab_sidecar.feeding.last_word import AfterTheEnd
from unilab_sidecar.feeding.left_alone import LeftAlone
from unilab_sidecar.feeding.next_attempt import NextAttempt, is_opened_after
from unilab_sidecar.feeding.questions import Answer, Question, put
from unilab_sidecar.feeding.summary import Summary
from unilab_sidecar.feeding.update_source import UpdateSource

if TYPE_CHECKING:
    from unilab_metrics.subscribe.history import HistoryRecord
    from unilab_metrics.subscribe.ssh.outage import Outage

POLL_MS = 100
ASKING_POLL_MS = 20
"""While somebody waits for an answer."""
REST_S = 0.1
"""After new records have come, while nobody waits for more: what follows comes with more at once,
which is cheaper for both sides, and a full box cannot make the newest one old."""
FAR_ENTRIES = 500
"""Who is so far behind the newest one does not rest."""
SIGN_OF_LIFE_S = 0.25
BOX_BATCHES = 8
"""Of up to half a megabyte each, while a viewer catches up."""
WAIT_FOR_BUS_S = 0.5
GONE = "this view ends with the process that has started it"
"""A launcher, a guard, or a training that shows itself."""
OWN_PAUSE_S = 1.0
"""Between two polls; a longer one is a stop of this process, or of whoever takes the batches."""


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
        has_begun_again: Callable[[], bool] = lambda: False,
        find_outage: Callable[[], Outage | None] = lambda: None,
        tells_waiting: bool = False,
        run_dir: str = "",
        target: str = "",
        sees_files: bool = True,
    ) -> None:
        """``open_source`` attaches to the run, in the feed's thread. ``wait_for_bus``: the run
        is about to start, so try again until its bus is there. ``is_wanted``: whether who
        started this viewer is still there to see it; asked a few times a second.
        ``read_summary``: what a run says of itself after the end of an attempt; asked while
        nobody announces it, until it says something. ``find_abandoned``: who is gone, if nobody is
        at work on the run; asked while it says nothing. ``has_begun_again``: whether a training is
        at work on a run that has ended; asked until an entry tells of it. ``find_outage``: what
        keeps from hearing the run's machine; asked while nothing is heard, in the feed's thread.
        ``tells_waiting``: say also before there is a bus what is known of the run: nobody here is
        about to start it. ``run_dir``: where this viewer sees the run. ``target``: what this viewer
        was told to look at, for people. ``sees_files``: whether its source reads the run's files
        where nobody announces them."""
        self.keeps_up = False
        self.run_dir = run_dir
        self.target = target or run_dir
        self._open_source = open_source
        self._wait_for_bus = wait_for_bus
        self._is_wanted = is_wanted
        self._read_summary = read_summary
        self._find_abandoned = find_abandoned
        self._has_begun_again = has_begun_again
        self._find_outage = find_outage
        self._tells_waiting = tells_waiting
        self._sees_files = sees_files
        self._box: queue.Queue[Batch] = queue.Queue(BOX_BATCHES)
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._asked: dict[type[Question], Question] = {}
        self._steps: dict[type[Question], tuple[Question, Question]] = {}
        self._again = AskingAgain()
        self._asking = threading.Lock()

    def stop(self) -> None:
        """Makes :meth:`run` return within a poll; any thread."""
        self._stopped.set()
        self._woken.set()

    def ask(self, question: Question) -> None:
        """Have a question answered in a later batch; any thread, at once. It takes the place of
        one of its kind that has not been answered yet."""
        with self._asking:
            self._asked[type(question)] = question
        self._woken.set()

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
            self._put(Batch(failure=Failure(GONE, ExitCode.UNEXPECTED)))
            self._stopped.set()
        return self._stopped.is_set()

    def _attach(self) -> UpdateSource | None:
        while not self._is_over():
            try:
                source = self._open_source()
                source.keeps_up = self.keeps_up
                return source
            except UnilabMetricsError:
                if not self._wait_for_bus:
                    raise
            answers = self._answers(None)
            if self._tells_waiting:
                gone, outage = self._find_abandoned(), self._find_outage()
                self._put(Batch(gone=gone, outage=outage, answers=answers))
            elif answers:
                self._put(Batch(answers=answers))
            self._stopped.wait(WAIT_FOR_BUS_S)
        return None

    def _drain(self, source: UpdateSource) -> None:
        given: Snapshot | None = None
        passed_over, passed_over_s = 0, 0.0
        arrival = Arrival()
        restarts = source.restarts
        after_the_end = AfterTheEnd(self._read_summary)
        next_attempt = NextAttempt(self._has_begun_again)
        left = LeftAlone(self._find_abandoned, self._read_summary, sees_files=self._sees_files)
        handed_over_s = head_at_s = 0.0
        polled_s = time.monotonic()
        head: Head | None = None
        behind = reads_on = False
        while not self._is_over():
            # Files have all there is at once: only a poll that brings nothing says that it was,
            # and answers come from them without waiting.
            wait_ms = ASKING_POLL_MS if self._is_asking() else POLL_MS
            records = source.poll(0 if reads_on else wait_ms)
            restarted = source.restarts != restarts
            restarts, given = source.restarts, None if restarted else given
            newest = source.snapshot()
            snapshot, given = None if newest is given else newest, newest
            now_s = time.monotonic()
            if now_s - polled_s > OWN_PAUSE_S:
                # In which nothing could be heard.
                head_at_s += now_s - polled_s
            polled_s = now_s
            left.heed(records)
            records = [*records, *left.look(source, source.head, now_s)]
            if source.passed_over != passed_over:
                passed_over, passed_over_s = source.passed_over, now_s
            if source.head is not head or is_opened_after(head, records):
                # Who has opened an attempt has just spoken, though not by an announcement yet.
                head, head_at_s = source.head, now_s
            was_behind = behind
            behind = arrival.is_behind(
                records, source.cursor, head, now_s, reads_files=source.reads_files
            )
            after_the_end.heed(records)
            next_attempt.heed(records)
            summary = left.summary
            if not behind and summary is None:
                # Who plays a run again knows no better than its files.
                is_played = source.connected and source.reads_files
                heard = None if is_played else head
                is_heard = source.connected and not is_played
                summary = after_the_end.summary(heard, now_s, connected=is_heard)
            refusal = None if source.connected else source.refusal
            is_due = now_s - handed_over_s >= SIGN_OF_LIFE_S
            self._again.heed(is_heard=source.connected)
            answers = self._answers(source)
            reads_on = source.reads_files and bool((behind and records) or answers)
            is_told = snapshot is not None or summary is not None or restarted
            is_told = is_told or (was_behind and not behind)
            if records or is_told or answers or is_due:
                handed_over_s = now_s
                self._put(
                    Batch(
                        records=tuple(records),
                        head=head,
                        snapshot=snapshot,
                        connected=source.connected,
                        head_age_s=now_s - head_at_s if head is not None else 0.0,
                        late_s=source.late_s,
                        behind=behind,
                        summary=summary,
                        gone=left.gone,
                        is_untold=left.is_untold,
                        ended=left.ended,
                        refusal=str(refusal or ""),
                        outage=None if source.connected else self._find_outage(),
                        answers=answers,
                        restarted=restarted,
                        is_followed=next_attempt.is_coming(now_s),
                        far=_is_far_behind(records, head),
                        lost_entries=source.lost_entries,
                        passed_over=passed_over,
                        passed_over_s=now_s - passed_over_s if passed_over else None,
                    )
                )
            if (
                records
                and not behind
                and not self._is_asking()
                and not _is_far_behind(records, head)
            ):
                self._woken.clear()
                if not self._is_asking() and not self._stopped.is_set():
                    self._woken.wait(REST_S)

    def _is_asking(self) -> bool:
        """Whether somebody waits for an answer that may be there with the next poll."""
        now_s = time.monotonic()
        with self._asking:
            asked = tuple(self._asked.items())
        return any(self._again.is_due(kind, question, now_s) for kind, question in asked)

    def _answers(self, source: UpdateSource | None) -> tuple[Answer, ...]:
        """``source``: ``None`` while there is none."""
        with self._asking:
            asked = tuple(self._asked.items())
        answers: list[Answer] = []
        now_s = time.monotonic()
        for kind, question in asked:
            if not self._again.is_due(kind, question, now_s):
                continue
            first, step = self._steps.get(kind, (question, question))
            made = put(step if first is question else question, question, source)
            said = None if made is None else made.answer.reply if made.answer else made
            self._again.asked(kind, question, said, now_s)
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


def _is_far_behind(records: list[HistoryRecord], head: Head | None) -> bool:
    return bool(records) and head is not None and head.update - records[-1].sequence > FAR_ENTRIES
