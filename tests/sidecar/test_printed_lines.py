"""``--plain`` and ``--json``: a line per metric, an object per line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from sample_run import whole_run

from unilab_sidecar.batch import Batch
from unilab_sidecar.json_lines import JsonTeller, json_line
from unilab_sidecar.metric_lines import MetricTeller
from unilab_sidecar.picture import Note, Picture, Reading
from unilab_sidecar.plain import run_plain
from unilab_sidecar.series import Series


class GivenFeed:
    """Hands over one batch after another, then says it is still there."""

    run_dir = ""

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
        "Loss/critic 9 40.0s", "iteration 61 0.1s", "new\\x20tag NaN 0.9s",
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
