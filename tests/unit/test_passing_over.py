"""A viewer that cannot keep up with a run goes on near its end."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest

from unilab_metrics.storage.chosen_records import ChosenRecords
from unilab_metrics.storage.records import encode_record
from unilab_metrics.subscribe.fetching import Fetching
from unilab_metrics.subscribe.passing_over import LATE_S, PassingOver
from unilab_metrics.subscribe.position import Position
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.control import Epoch, Head
from unilab_schema.frames import EventFrame
from unilab_schema.identity import RunInfo
from unilab_schema.requests import Fetch, Updates
from unilab_schema.updates import EventUpdate, Update, UpdateLayout

EPOCH = Epoch(b"j" * 16, 1)
LAYOUT = UpdateLayout(0, ("a",))
EVENT_EVERY = 500
STEP_S = 0.05


@dataclass
class Viewer:
    """Reads ``reads_per_s`` entries of a run that makes ``makes_per_s`` of them, for a while."""

    makes_per_s: float
    reads_per_s: float
    keeps_up: bool = True
    older: bool = False
    """The aggregator knows no parts."""
    now_s: float = 100.0
    position: Position = field(default_factory=lambda: Position(0, None))
    ages_s: list[float] = field(default_factory=list[float])
    events: list[int] = field(default_factory=list[int])
    shown: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.fetching, self.passing = Fetching(), PassingOver()
        self.newest: Update | None = None
        self.asked: tuple[float, Fetch] | None = None
        self.number = 0

    @property
    def made(self) -> int:
        return int(self.now_s * self.makes_per_s)

    def follow(self, for_s: float) -> None:
        end_s = self.now_s + for_s
        while self.now_s < end_s:
            self.now_s += STEP_S
            made, mono_ns = self.made, int(self.now_s * 1e9)
            head = Head(EPOCH, made, made, 1, RunInfo(), "/r", (), (), mono_ns, 0)
            self.position.heed(head)
            if self.asked is not None and self.now_s >= self.asked[0]:
                self._take(self.asked[1])
            if self.keeps_up:
                self.passing.look(self.position, self.newest, self.now_s)
            fetch = self.fetching.due(self.position, self.now_s)
            if fetch is not None:
                self.number += 1
                self.fetching.sent(self.number, self.now_s)
                count = min(fetch.limit, made - fetch.after)
                took_s = 0.1 if fetch.kinds else count / self.reads_per_s
                self.asked = self.now_s + took_s, fetch
            if self.newest is not None:
                self.ages_s.append(self.now_s - self.newest.sealed_mono_ns / 1e9)

    def _take(self, fetch: Fetch) -> None:
        self.asked = None
        chosen = ChosenRecords((), () if self.older else fetch.kinds)
        records, last, taken = b"", fetch.after, 0
        while last < self.made and taken < fetch.limit and last < fetch.after + 5000:
            last += 1
            kind = RecordKind.UPDATE if last % EVENT_EVERY else RecordKind.EVENT_UPDATE
            if chosen.wants(kind):
                records, taken = records + self._record(last), taken + 1
        reply = Updates(self.number, EPOCH, last, (LAYOUT,), records)
        for record in self.fetching.take(reply, self.position, self.now_s):
            if isinstance(record.entry, Update):
                self.newest = record.entry
                self.shown.append(record.sequence)
            else:
                self.events.append(record.sequence)

    def _record(self, sequence: int) -> bytes:
        sealed_ns = int(sequence / self.makes_per_s * 1e9)
        value = struct.pack("<d", 1.0)
        entry: Update | EventUpdate = Update(1, sequence, None, 0, sealed_ns, 0.0, 1, 1, 0, value)
        if sequence % EVENT_EVERY == 0:
            entry = EventUpdate(1, None, EventFrame("status", "x", 1, sealed_ns, 0))
        kind = RecordKind.UPDATE if isinstance(entry, Update) else RecordKind.EVENT_UPDATE
        return encode_record(kind, sequence, encode_payload(entry))


def joined(viewer: Viewer) -> Viewer:
    viewer.position.heed(Head(EPOCH, viewer.made, 0, 1, RunInfo(), "/r", (), (), 0, 0))
    viewer.position.cursor = viewer.made - 100
    return viewer


def test_over_a_line_that_carries_less_than_the_run_makes_the_age_stays_bounded() -> None:
    viewer = joined(Viewer(100.0, 60.0))
    begin = viewer.position.cursor or 0
    viewer.follow(300.0)
    assert max(viewer.ages_s) < 2.5 * LATE_S
    assert viewer.position.passed_over > 0
    assert viewer.position.lost_entries == 0
    assert viewer.events == [
        one for one in range(begin + 1, viewer.events[-1] + 1) if one % 500 == 0
    ]
    told = len(viewer.shown) + len(viewer.events) + viewer.position.passed_over
    assert told == (viewer.position.cursor or 0) - begin


def test_without_it_the_age_grows_and_nothing_is_passed_over() -> None:
    viewer = joined(Viewer(100.0, 60.0, keeps_up=False))
    viewer.follow(300.0)
    assert viewer.ages_s[-1] > 5 * LATE_S
    assert viewer.position.passed_over == 0


@pytest.mark.parametrize("reads_per_s", [300.0, 20_000.0])
def test_who_was_stopped_for_an_hour_is_soon_near_the_end(reads_per_s: float) -> None:
    viewer = joined(Viewer(100.0, reads_per_s))
    viewer.follow(5.0)
    viewer.now_s += 3600.0
    viewer.follow(40.0)
    assert viewer.ages_s[-1] < LATE_S
    assert viewer.position.lost_entries == 0


@pytest.mark.parametrize("viewer", [Viewer(100.0, 2000.0), Viewer(0.2, 1.0), Viewer(2.0, 2.5)])
def test_who_keeps_up_reads_all(viewer: Viewer) -> None:
    viewer.position.cursor = max(viewer.made - 5, 0)
    viewer.follow(200.0)
    assert viewer.position.passed_over == viewer.position.lost_entries == 0
    assert viewer.shown


def test_a_short_stop_of_a_quick_viewer_passes_nothing_over() -> None:
    viewer = joined(Viewer(100.0, 20_000.0))
    viewer.follow(5.0)
    viewer.now_s += 60.0
    viewer.follow(30.0)
    assert viewer.position.passed_over == 0
    assert viewer.ages_s[-1] < 1.0


def test_of_an_older_aggregator_all_that_comes_is_shown() -> None:
    viewer = joined(Viewer(100.0, 60.0, older=True))
    viewer.follow(60.0)
    assert viewer.position.passed_over == viewer.position.lost_entries == 0
    assert viewer.shown == sorted(set(viewer.shown))


def at(made: int, now_s: float, cursor: int) -> tuple[Position, Update]:
    """Who has read up to ``cursor`` what was made a hundred seconds ago."""
    position = Position(cursor, None)
    position.heed(Head(EPOCH, made, made, 1, RunInfo(), "/r", (), (), int(now_s * 1e9), 0))
    return position, Update(1, 1, None, 0, int((now_s - 100) * 1e9), 0.0, 1, 1, 0, b"")


def test_nothing_behind_the_place_is_passed_over_however_far_was_looked() -> None:
    position, _ = at(60, 100.0, 0)
    position.pass_until = 10
    assert position.accept(Updates(1, EPOCH, 50, (), b""), is_part=True) == []
    assert (position.cursor, position.passed_over, position.lost_entries) == (10, 10, 0)
    assert not position.is_passing


def test_a_few_entries_are_waited_for_and_nothing_twice_before_something_is_shown() -> None:
    for made, expected in ((5, False), (5000, True)):
        passing = PassingOver()
        position, newest = at(made, 200.0, 0)
        assert not passing.look(position, newest, 200.0)
        assert passing.look(position, newest, 204.0) == expected
        position.cursor = position.pass_until or 1
        position.heed(Head(EPOCH, 9999, 0, 1, RunInfo(), "/r", (), (), int(220e9), 0))
        if expected:
            assert not any(passing.look(position, newest, now_s) for now_s in (220.0, 224.0))
