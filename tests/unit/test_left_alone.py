"""Whether anybody is at work on a run that says nothing: when it is looked, and what makes it sure."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from unilab_metrics.errors import UnreadSettingsError
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.control import Epoch, Head
from unilab_schema.frames import EventFrame
from unilab_schema.identity import RunInfo
from unilab_schema.updates import AttemptOpened, EventUpdate, RunEnded
from unilab_sidecar.feeding.left_alone import HEARD_WITHIN_S, LOOK_S, LeftAlone
from unilab_sidecar.feeding.summary import Summary

GONE = ("learner of rank 0",)
HEAD = Head(Epoch(b"j" * 16, 1), 9, 9, 3, RunInfo(), "/r", (), (), 0, 0)
RECORD = HistoryRecord(10, RunEnded(3, "completed", 1), ())
EVENT = HistoryRecord(11, EventUpdate(3, None, EventFrame("status", "", 1, 2)), ())
OPENED = HistoryRecord(11, AttemptOpened(4, 2, RunInfo()), ())


@dataclass
class Silent:
    """A source that hears nothing. ``unread``: what a further poll finds."""

    connected: bool = False
    reads_files: bool = True
    unread: list[HistoryRecord] = field(default_factory=list[HistoryRecord])

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        assert timeout_ms == 0
        found, self.unread = self.unread, []
        return found


class Looks:
    """What is found, and how often somebody looked."""

    def __init__(self, *, sees_files: bool = True) -> None:
        self.found: tuple[str, ...] | None = GONE
        self.fault: UnreadSettingsError | None = None
        self.summary: Summary | None = None
        self.count = 0
        self.asked: list[int] = []
        self.left = LeftAlone(self._find, self._read, sees_files=sees_files)

    def _find(self) -> tuple[str, ...] | None:
        self.count += 1
        if self.fault is not None:
            raise self.fault
        return self.found

    def _read(self, attempt: int) -> Summary | None:
        self.asked.append(attempt)
        return self.summary


def test_it_is_looked_twice_a_second_and_not_while_somebody_is_heard() -> None:
    looks, source = Looks(), Silent(connected=True)
    for n in range(4):
        looks.left.look(source, HEAD, 10.0 + n * LOOK_S)
    assert looks.count == 0
    source.connected = False
    for tenth in range(11):
        looks.left.look(source, HEAD, 20.0 + tenth / 10)
    assert looks.count == 3


def test_a_run_that_is_heard_again_is_left_by_nobody() -> None:
    looks, source = Looks(), Silent()
    looks.left.look(source, HEAD, 10.0)
    assert looks.left.gone == GONE
    source.connected = True
    looks.left.look(source, HEAD, 10.1)
    assert looks.left.gone is None


def test_whoever_has_left_an_end_behind_is_not_gone_before_that_was_read() -> None:
    looks, source = Looks(), Silent(unread=[RECORD])
    assert looks.left.look(source, HEAD, 10.0) == [RECORD]
    assert looks.left.gone is None
    # What was found was no end: it is looked again at once.
    assert looks.left.look(source, HEAD, 10.01) == []
    assert looks.left.gone == GONE


def test_only_who_has_read_the_files_knows_that_they_hold_no_more() -> None:
    looks, source = Looks(), Silent(reads_files=False)
    looks.left.look(source, HEAD, 10.0)
    assert looks.left.gone is None
    source.reads_files = True
    looks.left.look(source, HEAD, 11.0)
    assert looks.left.gone == GONE


def test_of_a_run_out_of_sight_its_summary_tells_how_it_has_ended() -> None:
    looks, source = Looks(sees_files=False), Silent(reads_files=False)
    looks.left.look(source, HEAD, 10.0)
    assert (looks.left.gone, looks.left.ended, looks.asked) == (GONE, "", [3])
    looks.summary = Summary()
    looks.left.look(source, HEAD, 11.0)
    assert (looks.left.gone, looks.left.ended) == (GONE, "")
    looks.summary = Summary(status="completed")
    looks.left.look(source, HEAD, 12.0)
    assert (looks.left.gone, looks.left.ended) == (None, "completed")
    assert looks.left.summary == looks.summary
    # Handed over once; between two looks nothing changes.
    looks.left.look(source, HEAD, 12.1)
    assert (looks.left.ended, looks.left.summary) == ("completed", None)


def test_of_a_run_in_sight_the_history_tells_it_and_no_summary() -> None:
    looks, source = Looks(), Silent()
    looks.summary = Summary(status="completed")
    looks.left.look(source, HEAD, 10.0)
    assert (looks.left.gone, looks.left.ended, looks.asked) == (GONE, "", [])
    other = Looks(sees_files=False)
    other.left.look(source, None, 10.0)
    assert (other.left.gone, other.asked) == (GONE, [])


def test_who_comes_back_to_work_is_gone_until_it_had_time_to_be_heard() -> None:
    looks, source = Looks(), Silent()
    looks.left.look(source, HEAD, 9.0)
    looks.left.look(source, HEAD, 10.0)
    looks.found = None
    looks.left.look(source, HEAD, 9.5 + HEARD_WITHIN_S)
    assert looks.left.gone == GONE
    looks.left.look(source, HEAD, 10.5 + HEARD_WITHIN_S)
    assert looks.left.gone is None


def test_a_run_that_is_completed_out_of_sight_is_cut_off_and_then_has_ended() -> None:
    looks, source = Looks(sees_files=False), Silent(reads_files=False)
    looks.left.look(source, HEAD, 10.0)
    said: list[tuple[tuple[str, ...] | None, str]] = []
    for now_s, found, status in ((12.0, None, ""), (14.0, GONE, "failed"), (16.0, None, "failed")):
        looks.found, looks.summary = found, Summary(status=status)
        looks.left.look(source, HEAD, now_s)
        said.append((looks.left.gone, looks.left.ended))
    assert said == [(GONE, ""), (None, "failed"), (None, "failed")]


def test_who_is_gone_of_an_attempt_says_nothing_of_the_next_one() -> None:
    looks, source = Looks(), Silent()
    looks.left.heed([RECORD])
    looks.left.look(source, HEAD, 10.0)
    assert looks.left.gone == GONE
    # The training goes on, and its aggregator has written before it was heard.
    looks.found = None
    looks.left.heed([OPENED])
    looks.left.look(source, HEAD, 10.1)
    assert looks.left.gone is None
    looks.left.look(source, HEAD, 10.0 + LOOK_S)
    assert looks.left.gone is None


def test_what_follows_an_end_is_written_by_somebody_who_is_there() -> None:
    looks, source = Looks(), Silent()
    looks.left.heed([RECORD])
    looks.left.look(source, HEAD, 10.0)
    looks.left.heed([])
    assert looks.left.gone == GONE
    looks.left.heed([EVENT])
    assert looks.left.gone is None


def test_who_is_gone_is_forgotten_too_after_an_end_that_came_too_late_for_a_poll() -> None:
    looks, source = Looks(), Silent(unread=[RECORD])
    assert looks.left.look(source, HEAD, 10.0) == [RECORD]
    looks.left.look(source, HEAD, 10.01)
    assert looks.left.gone == GONE
    looks.left.heed([EVENT])
    assert looks.left.gone is None


def test_damaged_settings_end_it_when_an_aggregator_had_time_to_be_heard() -> None:
    looks, source = Looks(), Silent()
    looks.fault = UnreadSettingsError("settings.json", "truncated")
    looks.left.look(source, HEAD, 10.0)
    looks.left.look(source, HEAD, 9.9 + HEARD_WITHIN_S)
    source.connected = True
    looks.left.look(source, HEAD, 30.0)
    source.connected = False
    looks.left.look(source, HEAD, 40.0)
    with pytest.raises(UnreadSettingsError):
        looks.left.look(source, HEAD, 40.0 + HEARD_WITHIN_S)
    assert looks.left.gone is None


def test_of_a_run_that_has_ended_damaged_settings_keep_nobody_from_looking_at_it() -> None:
    looks, source = Looks(), Silent()
    looks.fault = UnreadSettingsError("settings.json", "truncated")
    looks.left.heed([RECORD])
    looks.left.look(source, HEAD, 10.0)
    assert looks.left.look(source, HEAD, 11.0 + HEARD_WITHIN_S) == []
