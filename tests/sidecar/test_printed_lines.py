"""``--plain`` and ``--json``: a line per metric, an object per line."""

from __future__ import annotations

import json
import math
import os
import signal
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, cast

import pytest
from sample_run import whole_run
from series_records import picture as still_picture
from series_records import update

from unilab_schema.alerts import AlertStatus
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.picture import Note, Picture, Reading
from unilab_sidecar.printed.json_lines import JsonTeller, json_line
from unilab_sidecar.printed.metric_lines import MetricTeller
from unilab_sidecar.printed.plain import run_plain, where
from unilab_sidecar.printed.printing import run_printed
from unilab_sidecar.series import Series


class GivenFeed:
    """Hands over one batch after another, then says it is still there."""

    run_dir = target = ""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def wait(self, _timeout_s: float) -> list[Batch]:
        """The next one."""
        return [self.batches.pop(0)] if self.batches else []


@pytest.fixture(scope="module")
def picture() -> Picture:
    series = Series()
    for batch in whole_run(60)[1]:
        series.add(batch)
    return series.picture()


def rows(lines: list[str]) -> list[tuple[str, str, str]]:
    """Name, value and age of each line, as a program takes them apart."""
    made: list[tuple[str, str, str]] = []
    for line in lines:
        name, rest = line.split(" ", 1)
        value, age = rest.rsplit(" ", 1)
        made.append((name, value, age))
    return made


def test_every_tag_has_a_line_with_its_value_and_age_sorted_by_name(picture: Picture):
    lines = MetricTeller(5.0).once(picture)
    names = [name for name, _, _ in rows(lines)]
    assert names == sorted(names)
    assert set(picture.readings) <= set(names)
    by_name = {name: (value, age) for name, value, age in rows(lines)}
    mean = picture.readings["Loss/critic"].value
    assert by_name["Loss/critic"] == (f"{mean:.6g}", "0.1s")
    assert by_name["iteration"][0] == "60"
    assert by_name["state"][0] == "training"
    assert by_name["alert"][0] == "none"


def test_only_what_has_changed_is_said_again_and_in_the_same_order(picture: Picture):
    teller = MetricTeller(5.0)
    first = teller.tell(picture, 0.0, is_over=False)
    changed = dict(picture.readings)
    changed["Loss/critic"] = Reading(9.0, 40.0)
    changed["new tag"] = Reading(math.nan)
    later = replace(picture, readings=changed, iteration=61, age_s=0.9)
    assert teller.tell(later, 4.0, is_over=False) == []
    assert teller.tell(later, 5.0, is_over=False) == [
        "Loss/critic 9 40.0s", "iteration 61 0.9s", "new\\x20tag NaN 0.9s",
    ]  # fmt: skip
    assert len(first) > 50
    assert teller.tell(later, 11.0, is_over=False) == []
    ended = replace(later, ended="completed", age_s=None)
    assert "state run ended: completed -" in teller.tell(ended, 11.1, is_over=True)


def test_names_can_do_nothing_to_a_terminal_and_have_no_blanks(picture: Picture):
    strange = {"a\x1b]52;c;x\x07 b\nc": Reading(1.0), "": Reading(2.0), "任务": Reading(3.0)}
    lines = MetricTeller(5.0).once(replace(picture, readings=strange))
    assert all(line.isprintable() for line in lines)
    names = [name for name, _, _ in rows(lines)]
    assert "a\\x1b]52;c;x\\x07\\x20b\\nc" in names
    assert "任务" in names


def test_a_filter_chooses_lines(picture: Picture):
    assert [name for name, _, _ in rows(MetricTeller(5.0, "loss !actor").once(picture))] == [
        "Loss/critic", "Loss/entropy", "Loss/learning_rate", "Loss/temperature",
    ]  # fmt: skip


def test_an_object_says_the_same_in_full_precision(picture: Picture):
    made = json.loads(json_line(picture))
    assert made["iteration"] == 60
    assert made["run"]["algorithm"] == "sac"
    assert made["window"]["updates"] == picture.samples
    assert set(made["metrics"]) == set(picture.readings)
    for tag, reading in picture.readings.items():
        assert made["metrics"][tag]["value"] == reading.value
    assert [one["rank"] for one in made["sources"]] == [0, 0, 1, 1]
    assert set(json.loads(json_line(picture, "loss !actor"))["metrics"]) == {
        "Loss/critic", "Loss/entropy", "Loss/learning_rate", "Loss/temperature",
    }  # fmt: skip


def test_an_object_counts_the_open_alerts_and_tells_the_newest(picture: Picture):
    one = AlertStatus(81, "rule", "Loss/a", "Loss/a = 9 (Loss/a > 5)", "warn", 3, 1_500_000_000)
    made = json.loads(json_line(replace(picture, own_alerts=((one,), 12))))
    assert made["alerts_open"] == 12
    assert made["open_alerts"] == [
        {
            "id": 81,
            "rule": "rule",
            "subject": "Loss/a",
            "severity": "warn",
            "text": "Loss/a = 9 (Loss/a > 5)",
            "iteration": 3,
            "since_unix_s": 1.5,
        }
    ]
    assert json.loads(json_line(picture))["alerts_open"] == 0


def test_what_json_has_no_word_for_is_a_word(picture: Picture):
    readings = {"a": Reading(math.nan), "b": Reading(math.inf), "c": Reading(-math.inf, math.inf)}
    notes = (Note("status", "lone \ud800 surrogate\n", None),)
    text = json_line(replace(picture, readings=readings, notes=notes, eta_s=math.inf))
    assert "\n" not in text

    def refuse(word: str) -> Any:
        pytest.fail(f"{word} is no JSON")

    made = json.loads(text, parse_constant=refuse)
    assert [made["metrics"][tag]["value"] for tag in "abc"] == ["NaN", "Infinity", "-Infinity"]
    assert made["eta_s"] == "Infinity"


def test_a_run_that_is_over_has_no_time_to_go(picture: Picture):
    over = replace(picture, ended="completed")
    assert json.loads(json_line(picture))["eta_s"] > 0
    assert json.loads(json_line(over))["eta_s"] is None
    for shown, has_it in ((picture, True), (over, False)):
        names = [name for name, _, _ in rows(MetricTeller(1.0).once(shown))]
        assert ("eta_s" in names) == has_it


def test_an_empty_picture_has_an_object_and_lines_too():
    assert json.loads(json_line(Picture()))["stage"] == "connecting"
    assert any(line.startswith("state connecting ") for line in MetricTeller(1.0).once(Picture()))


@pytest.mark.parametrize("kind", [MetricTeller, JsonTeller])
def test_once_is_the_moment_and_a_stream_ends_with_the_run(kind: Any):
    run, batches = whole_run(20)
    said: list[str] = []
    run_plain(GivenFeed(list(batches)), said.append, once=True, teller=kind(5.0))  # type: ignore[arg-type]
    assert len(said) == (1 if kind is JsonTeller else len(set(said)))
    assert said
    said.clear()
    batches += [run.batch(run.end()), run.batch()]
    assert run_plain(GivenFeed(batches), said.append, teller=kind(1e9)) is None  # type: ignore[arg-type]
    assert "run ended: completed" in said[-1] + "".join(said)


def test_a_known_unit_stands_behind_the_number():
    values = {
        "Perf/learning_time": 0.036,
        "Perf/learner_rollout_ms": 84.0,
        "Perf/total_fps": 3400.0,
        "time/fps": 3400.0,
        "Train/approx_kl": 0.01,
        "mine": 1.0,
    }
    lines = MetricTeller(5.0).once(still_picture(update(1, values)))
    told = {line.split()[0]: line.split()[1:-1] for line in lines}
    assert told["Perf/learning_time"] == ["0.036", "s"]
    assert told["Perf/learner_rollout_ms"] == ["84", "ms"]
    assert told["Perf/total_fps"] == told["time/fps"] == ["3400", "steps/s"]
    assert (told["Train/approx_kl"], told["mine"]) == (["0.01"], ["1"])


class SignalledFeed(GivenFeed):
    """While it is read, this process gets a signal."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__([])
        self.number = number

    def wait(self, _timeout_s: float) -> list[Batch]:
        """Nothing."""
        os.kill(os.getpid(), self.number)
        return []

    def run(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_lines_that_are_ended_by_a_signal_say_so_as_a_screen_does(
    number: signal.Signals, code: int
) -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        feed = cast("Feed", SignalledFeed(number))
        failure = run_printed(feed, MetricTeller(5.0), once=False, wait=False)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert (failure.exit_code if failure is not None else 0) == code
    assert failure is None or not failure.text


def test_nothing_is_said_any_more_once_somebody_has_stopped_it() -> None:
    said: list[str] = []
    feed = GivenFeed([whole_run(60)[1][0]])
    run_plain(cast("Feed", feed), said.append, interval_s=0.0, stopped=lambda: not feed.batches)
    assert not said


@pytest.mark.parametrize(
    ("run_dir", "working_dir", "said"),
    [
        ("/home/me/logs/sac/one", "/home/me", "logs/sac/one"),
        ("/home/me/logs/sac/one", "/", "home/me/logs/sac/one"),
        ("/home/mercury/one", "/home/me", "/home/mercury/one"),
        ("/home/me", "/home/me", "/home/me"),
        ("/tmp/a\nb", "/home/me", "/tmp/a\\nb"),
    ],
)
def test_where_a_run_lies_is_said_as_seen_from_here(
    run_dir: str, working_dir: str, said: str
) -> None:
    assert where(run_dir, working_dir) == f"run directory: {said}"


@pytest.mark.parametrize(("waited_s", "is_said"), [(1.9, False), (2.1, True)])
def test_that_nobody_announces_the_run_is_said_after_two_seconds(
    waited_s: float, *, is_said: bool
) -> None:
    said: list[str] = []
    clock_s = chain([10.0], repeat(10.0 + waited_s))
    feed = GivenFeed([Batch(records=whole_run(60)[1][0].records), Batch(), Batch()])
    run_plain(
        cast("Feed", feed), said.append, interval_s=0.0, clock_s=lambda: next(clock_s),
        stopped=lambda: not feed.batches,
    )  # fmt: skip
    assert any("no aggregator" in line for line in said) is is_said
    assert bool(said) is is_said
