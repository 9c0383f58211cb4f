"""A process that has failed or was stopped is shown as that, and not as one that has finished."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from msgspec import structs
from sample_run import SampleRun, whole_run
from screen_text import text

from unilab_schema.alerts import AlertStatus
from unilab_schema.control import Head
from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.rank_values import RankRow
from unilab_schema.requests import RankValues
from unilab_sidecar.alerting.alerts import alerts, border, end_word
from unilab_sidecar.drawing.glyphs import ascii_text
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.questions import Answer, RanksQuestion
from unilab_sidecar.feeding.summary import summary_in
from unilab_sidecar.picture import Picture
from unilab_sidecar.printed.json_lines import JsonTeller, json_line
from unilab_sidecar.printed.metric_lines import MetricTeller
from unilab_sidecar.printed.plain import LineTeller
from unilab_sidecar.progress.source_states import shown_state
from unilab_sidecar.progress.standing import how_ended
from unilab_sidecar.ranks.columns import STATES
from unilab_sidecar.ranks.state import RanksState
from unilab_sidecar.ranks.table import RankStore
from unilab_sidecar.series import Series
from unilab_sidecar.views.ranks import ranks

BOOM = "learner of rank 1 failed: RuntimeError: boom"
FAILURE = AlertStatus(9, "failed", "learner of rank 1 (pid 1 on h)", BOOM, "bad", 27, 0)


def failing(run: SampleRun, ended: str = "failed") -> Head:
    """Rank 1's learner has said goodbye, the others go on."""
    head = run.head(("live", "live", "finished", "live"))
    made = list(head.sources)
    made[2] = structs.replace(made[2], ended=ended)
    return structs.replace(head, sources=tuple(made))


def shown(ended: str = "failed") -> Picture:
    series = Series()
    run, batches = whole_run(60)
    for batch in batches:
        series.add(replace(batch, head=failing(run, ended)))
    return series.picture()


@pytest.mark.parametrize(
    ("state", "ended", "said"),
    [
        ("finished", "failed", "failed"),
        ("finished", "collector_died", "failed"),
        ("finished", "stopped", "stopped"),
        ("finished", "completed", "finished"),
        ("finished", "", "finished"),
        ("lost", "failed", "lost"),
        ("live", "", "live"),
    ],
)
def test_a_finished_source_is_shown_as_it_has_ended(state: str, ended: str, said: str) -> None:
    assert shown_state(state, ended) == said


def test_the_overview_says_who_has_failed_with_a_mark_of_its_own() -> None:
    said = text(shown(), 120)
    assert "✗ failed" in said
    assert "✗ 1 failed" in said
    assert "✓ finished" not in said
    assert "! learner of rank 1 failed" in said
    assert "x failed" in ascii_text(said)
    assert "■ stopped" in text(shown("stopped"), 120)
    assert "■ 1 stopped" in text(shown("stopped"), 120)
    assert not alerts(shown("stopped"))


def test_the_alert_of_the_run_says_why_and_is_said_once() -> None:
    picture = replace(shown(), own_alerts=((FAILURE,), 1))
    assert [(one.text, one.style) for one in alerts(picture)] == [(BOOM, "bad")]
    assert border(picture) == "trouble"
    ended = replace(picture, ended="failed", ended_text=BOOM)
    assert [one.text for one in alerts(ended)] == [BOOM]


def test_lines_and_objects_say_it_too() -> None:
    picture = shown()
    assert "learner of rank 1 failed" in LineTeller().once(picture)[0]
    rows = MetricTeller(5.0, "alert").once(picture)
    assert rows[0].startswith("alert learner of rank 1 failed ")
    told = json.loads(json_line(picture))
    assert [one["state"] for one in told["sources"]] == ["live", "live", "failed", "live"]
    assert {"text": "learner of rank 1 failed", "level": "bad"} in told["alerts"]


def test_the_table_of_ranks_has_a_letter_of_its_own() -> None:
    key = SourceKey(1, LEARNER)
    row = RankRow(key, "finished", 1.0, 1.0, 5, None, 9, b"", b"", "failed")
    picture = shown()
    store = RankStore()
    reply = RankValues(1, failing(whole_run(2)[0]).epoch, 1, 0, 2, (), (row,), ())
    store.add(Answer(RanksQuestion(()), reply), "sac")
    table = store.table()
    assert table.lines[0].state == "failed"
    screen = ranks(table, picture, RanksState(), 100, 30)
    said = "\n".join(plain(one) for one in screen.lines)
    assert "X failed" in said
    assert "1 failed" in said
    letters = [letter for letter, _, _ in STATES.values()]
    assert letters.count("X") == letters.count("q") == 1


def test_a_summary_says_it_of_a_run_that_is_over() -> None:
    source = {"rank": 1, "role": "learner", "host": "h", "state": "finished", "ended": "failed"}
    bus = {"attempt": 1, "ended": "stopped", "sources": [source]}
    found = summary_in(json.dumps({"status": "failed", "bus": bus}).encode(), 1)
    assert found is not None
    assert (found.status, found.sources[0].state) == ("stopped", "failed")


@pytest.mark.parametrize(
    ("said", "how"),
    [
        ("", "stopped"),
        ("stopped by SIGTERM", "stopped (SIGTERM)"),
        ("learner of rank 0 stopped: KeyboardInterrupt", "stopped (KeyboardInterrupt)"),
        ("learner of rank 0 stopped: SystemExit: 143", "stopped (SystemExit: 143)"),
    ],
)
def test_a_run_that_was_stopped_has_not_failed(said: str, how: str) -> None:
    picture = replace(shown("completed"), ended="stopped", ended_text=said)
    assert (how_ended(picture), end_word(picture), border(picture)) == (how, "STOPPED", "ended")
    assert not [one for one in alerts(picture) if "stop" in one.text.lower()]
    assert LineTeller().once(picture)[0].endswith(f"run ended: {how}")


def test_a_long_alert_is_said_whole_once_and_then_in_short() -> None:
    teller = LineTeller(1.0)
    long = structs.replace(FAILURE, text=BOOM + " and so on" * 20)
    picture = replace(shown(), own_alerts=((long,), 1))
    first, second, third = (
        teller.tell(replace(picture, iteration=k), k, is_over=False)[0] for k in (100, 102, 104)
    )
    assert long.text in first
    assert "! since iter 27: learner of rank 1 failed: RuntimeError:…" in second
    assert len(second) < 220
    other = structs.replace(long, text=long.text.replace("boom", "bang"))
    assert "bang" not in third
    changed = replace(picture, own_alerts=((other,), 1), iteration=106)
    assert other.text in teller.tell(changed, 106, is_over=False)[0]


@pytest.mark.parametrize("teller", [MetricTeller, JsonTeller])
def test_a_filter_that_nothing_matches_is_noticed(
    teller: type[MetricTeller | JsonTeller],
) -> None:
    for wanted, found in (("nosuch", False), ("Loss", True), ("", True)):
        made = teller(1.0, wanted)
        made.once(shown())
        assert made.has_found is found
