"""Who looks at a training that goes on is shown nothing that its earlier attempt has left, and who
waits for the next attempt stays for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cut_off_run import end, open_run_directory, source
from msgspec import structs
from sample_run import FakeSource, SampleRun

from unilab_metrics.subscribe import next_attempt
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.next_attempt import has_begun_again
from unilab_schema.updates import AttemptOpened, Update
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.next_attempt import LOOK_S, NextAttempt
from unilab_sidecar.printed.plain import run_plain
from unilab_sidecar.progress.standing import words
from unilab_sidecar.series import Series

LOST = ("lost", "lost", "live", "live")


class GivenFeed:
    """Hands over one batch after another."""

    run_dir = target = ""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = list(batches)

    def wait(self, _timeout_s: float) -> list[Batch]:
        return [self.batches.pop(0)] if self.batches else []


def failed(run: SampleRun) -> Batch:
    """An attempt, and its last announcement."""
    records = (run.open_attempt(), run.update(), run.end("failed"))
    return Batch(records, run.head(LOST), connected=True)


def next_one(run: SampleRun) -> Batch:
    """The attempt after it, which has one iteration."""
    run.ended = None
    opened = run.open_attempt()
    assert isinstance(opened.entry, AttemptOpened)
    return run.batch(opened, run.update())


def test_what_an_attempt_has_left_is_not_shown_of_the_one_that_follows_it() -> None:
    run, series = SampleRun(), Series(target="a run")
    ended = failed(run)
    series.add(ended)
    shown = series.picture()
    assert (shown.stage, shown.ended) == ("ended", "failed")
    assert any("lost" in alert.text for alert in alerts(shown))
    series.add(replace(ended, records=(), is_followed=True))
    shown = series.picture()
    assert (shown.stage, shown.ended, shown.sources, shown.iteration) == ("waiting", None, (), None)
    assert alerts(shown) == ()
    series.add(next_one(run))
    shown = series.picture()
    assert (shown.stage, shown.ended, shown.iteration) == ("training", None, 2)
    assert alerts(shown) == ()


def test_a_next_attempt_is_looked_for_twice_a_second_from_the_end_to_its_first_entry() -> None:
    asked: list[str] = []
    found = [False]

    def has_begun() -> bool:
        asked.append("now")
        return found[0]

    run, following = SampleRun(), NextAttempt(has_begun)
    following.heed([run.open_attempt(), run.update()])
    assert not following.is_coming(0.0)
    assert asked == []
    following.heed([run.end("failed")])
    assert not following.is_coming(0.0)
    found[0] = True
    assert not following.is_coming(LOOK_S / 2)
    assert following.is_coming(LOOK_S)
    assert len(asked) == 2
    following.heed([run.open_attempt()])
    assert not following.is_coming(2 * LOOK_S)
    assert len(asked) == 2


def test_a_rank_0_that_is_at_work_and_has_not_closed_is_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = open_run_directory(tmp_path / "run")
    assert not has_begun_again(run_dir)
    other = source(1)
    assert not has_begun_again(run_dir), "it opens no attempt"
    zero = source()
    assert has_begun_again(run_dir)
    with monkeypatch.context() as killed:
        killed.setattr(next_attempt, "is_ending", lambda _pid: True)
        assert not has_begun_again(run_dir)
    end(zero)
    assert not has_begun_again(run_dir), "nobody is at work"
    with monkeypatch.context() as held:
        held.setattr(next_attempt, "is_abandoned", lambda _spool: False)
        assert not has_begun_again(run_dir), "it waits until its end has been taken in"
    end(other)
    assert not has_begun_again(tmp_path / "nowhere")


def test_lines_tell_an_end_once_and_stay_for_the_next_attempt_if_asked_to() -> None:
    run = SampleRun()
    ended = failed(run)
    quiet = replace(ended, records=())
    batches = [ended, quiet, quiet, replace(quiet, is_followed=True), next_one(run)]
    told: list[str] = []
    assert run_plain(GivenFeed(batches), told.append, interval_s=0.0) is None  # type: ignore[arg-type]
    assert told[-1].startswith("run ended: failed")
    feed, said = GivenFeed(batches), list[str]()
    failure = run_plain(
        feed,  # type: ignore[arg-type]
        said.append,
        stays=True,
        interval_s=0.0,
        stopped=lambda: not feed.batches and said[-1].startswith("iter 2/"),
    )
    assert failure is None
    assert said[: len(told)] == told
    assert sum(line.startswith("run ended") for line in said) == 1
    assert "waiting for the first update" in said[len(told)]
    assert said[-1].startswith("iter 2/3000")


class Unannounced(FakeSource):
    """Nobody is heard; what comes comes from the files."""

    def __init__(self) -> None:
        super().__init__()
        self.run = SampleRun()
        self._waiting = [self.run.open_attempt(), self.run.update(), self.run.end("failed")]
        self.head, self.connected = self.run.head(LOST), False
        self.is_followed = threading.Event()

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        records, self._waiting = self._waiting, []
        if records or not self.is_followed.wait(timeout_ms / 1000) or self.run.ended is None:
            return records
        self.run.ended = None
        return [in_second(self.run.open_attempt()), in_second(self.run.update())]


def in_second(record: HistoryRecord) -> HistoryRecord:
    """The same of the second attempt."""
    entry = record.entry
    assert isinstance(entry, AttemptOpened | Update)
    return HistoryRecord(record.sequence, structs.replace(entry, attempt=2), record.tags)


def opens_second(batch: Batch) -> bool:
    return any(
        isinstance(one.entry, AttemptOpened) and one.entry.attempt == 2 for one in batch.records
    )


def test_an_attempt_that_is_written_before_its_aggregator_is_heard_is_at_work() -> None:
    source, series = Unannounced(), Series(target="a run")

    def find_abandoned() -> tuple[str, ...] | None:
        return None if source.is_followed.is_set() else ("learner of rank 0",)

    feed = Feed(lambda: source, wait_for_bus=False, find_abandoned=find_abandoned)
    thread = threading.Thread(target=feed.run)
    thread.start()
    batches: list[Batch] = []
    while not any(batch.gone and batch.head_age_s > 0 for batch in batches):
        batches += feed.wait(5)
    source.is_followed.set()
    while not any(opens_second(batch) for batch in batches):
        batches += feed.wait(5)
    batches = batches[: [opens_second(batch) for batch in batches].index(True) + 1]
    feed.stop()
    thread.join(5)
    for batch in batches:
        series.add(batch)
    last, shown = batches[-1], series.picture()
    assert (last.gone, last.head_age_s, last.connected) == (None, 0.0, False)
    assert (shown.stage, shown.gone, shown.sources) == ("training", None, ())
    assert words(shown) == "training"
    assert alerts(shown) == ()


def lines_of(batches: list[Batch], clock_s: Callable[[], float]) -> list[str]:
    """What is said of them by who stays after the end."""
    feed, said = GivenFeed(batches), list[str]()
    failure = run_plain(
        feed,  # type: ignore[arg-type]
        said.append,
        stays=True,
        interval_s=0.0,
        clock_s=clock_s,
        stopped=lambda: not feed.batches,
    )
    assert failure is None
    return [line for line in said if line.startswith("run ended")]


def test_an_end_that_is_announced_before_its_entries_is_told_with_them() -> None:
    run = SampleRun()
    begun = Batch((run.open_attempt(), run.update()), connected=True)
    rest = (run.update(), run.update(), run.end("failed"))
    announced = Batch((), run.head(LOST), connected=True)
    quiet = replace(announced, connected=False, head_age_s=2.0)
    batches = [begun, announced, quiet, replace(quiet, records=rest), quiet, quiet]
    (told,) = lines_of(batches, clock_s=lambda: 10.0)
    iteration = run.iteration
    assert told.startswith("run ended: failed")
    feed, said = GivenFeed(batches), list[str]()
    run_plain(feed, said.append, interval_s=0.0, clock_s=lambda: 10.0)  # type: ignore[arg-type]
    assert said[-1] == told
    assert said[-2].startswith(f"iter {iteration}/")


def test_entries_of_an_end_that_nobody_can_read_are_not_awaited_for_ever() -> None:
    run = SampleRun()
    begun = Batch((run.open_attempt(), run.update()), connected=True)
    run.update()
    run.end("failed")
    announced = Batch((), run.head(LOST), connected=True)
    times = iter(range(10, 1000))
    assert len(lines_of([begun, *[announced] * 40], lambda: float(next(times)))) == 1


def test_an_end_is_not_told_again_after_what_is_said_of_the_attempt_that_comes() -> None:
    run = SampleRun()
    ended = failed(run)
    quiet = replace(ended, records=())
    coming = replace(quiet, is_followed=True)
    told = lines_of([ended, quiet, coming, quiet, coming, quiet, quiet], lambda: 10.0)
    assert len(told) == 1
