"""What lines of text say of a long run that is over: the peak of all of it and every alert that is
open, as its screen does, though only its last entries are read."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from long_history import START_UNIX_NS, LongHistory, S

from unilab_metrics.subscribe import files
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.replay import Replay
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_schema.alerts import AlertStatus
from unilab_schema.control import Epoch, Head
from unilab_schema.frames import EventFrame, Scalar
from unilab_schema.identity import RunInfo
from unilab_schema.updates import AttemptOpened, EventUpdate
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.alerting.open_alerts import OpenAlerts
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.past_pieces import PastPeak, PeakQuestion
from unilab_sidecar.feeding.questions import Answer
from unilab_sidecar.feeding.summary import Summary, summary_in
from unilab_sidecar.feeding.summary_file import read_summary
from unilab_sidecar.feeding.update_source import UpdateSource
from unilab_sidecar.printed.json_lines import JsonTeller
from unilab_sidecar.printed.metric_lines import MetricTeller
from unilab_sidecar.printed.plain import LineTeller, Teller, run_plain
from unilab_sidecar.printed.printed_run import PEAK_WITHIN_S, PrintedRun
from unilab_sidecar.series import Series

REWARD = "Train/mean_reward"
UPDATES = 5000
SPIKE, PEAK = 1034, 77.5
LATER_SPIKE, LATER_PEAK = 4000, 99.5
COLLAPSE = "the reward has collapsed"
PATIENCE_S = 60.0


class Spiky(LongHistory):
    """Its reward is highest long before the end."""

    def value(self, tag: str, k: int) -> float:
        spikes = {SPIKE: PEAK, LATER_SPIKE: LATER_PEAK} if tag == REWARD else {}
        return spikes.get(k, super().value(tag, k))


def alert() -> EventUpdate:
    facts: dict[str, Scalar] = {"rule": "collapse", "severity": "bad"}
    frame = EventFrame("alert", COLLAPSE, S, START_UNIX_NS + S, 1200, facts)
    return EventUpdate(1, None, frame)


def made(directory: Path, *, ended: str = "completed") -> LongHistory:
    history = Spiky(directory / "run", segment_bytes=200_000)
    history.updates(1200)
    history.add(alert())
    history.updates(UPDATES - 1200)
    if ended:
        history.end(ended)
    history.write()
    told = {"raised": 1, "open": 1, "open_texts": [COLLAPSE]}
    bus = {"attempt": 1, "ended": ended, "updates": history.sequence, "alerts": told}
    text = json.dumps({"status": ended, "training_wall_time_sec": 500.0, "bus": bus})
    (history.run_dir / "run_summary.json").write_text(text)
    return history


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> LongHistory:
    return made(tmp_path_factory.mktemp("ended"))


@pytest.fixture(autouse=True)
def few_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RECENT_ENTRIES", 500)


def printed(
    run_dir: Path,
    teller: Teller,
    *,
    once: bool = True,
    replayed: bool = False,
    iteration: int | None = None,
    gone: tuple[str, ...] | None = None,
    kind: type[Subscriber] = Subscriber,
) -> list[str]:
    def attach() -> UpdateSource:
        if replayed:
            return Replay(run_dir, speed=1000.0, iteration=iteration, is_still=once)
        return kind.attach(run_dir)

    feed = Feed(
        attach,
        wait_for_bus=False,
        read_summary=lambda attempt: read_summary(run_dir, attempt),
        find_abandoned=lambda: gone,
        run_dir=str(run_dir),
    )
    thread = threading.Thread(target=feed.run)
    thread.start()
    lines: list[str] = []
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        run_plain(
            feed, lines.append, once=once, is_past=replayed, teller=teller, interval_s=0.0,
            stopped=lambda: time.monotonic() > deadline_s,
        )  # fmt: skip
    finally:
        feed.stop()
        thread.join()
    return lines


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("replayed", [False, True])
def test_the_peak_and_the_alerts_of_all_of_it_are_told(
    ended: LongHistory, once: bool, replayed: bool
) -> None:
    iteration = None if once or not replayed else UPDATES - 10
    lines = printed(
        ended.run_dir, JsonTeller(0.0), once=once, replayed=replayed, iteration=iteration
    )
    told = json.loads(lines[-1])
    assert told["ended"] == "completed"
    assert told["reward_peak"] == LATER_PEAK
    assert told["alerts_open"] == 1
    (one,) = told["open_alerts"]
    assert (one["text"], one["id"], one["since_unix_s"]) == (COLLAPSE, None, None)
    assert [one["text"] for one in told["alerts"]] == [COLLAPSE]


def test_lines_for_people_and_for_pipes_tell_them_too(ended: LongHistory) -> None:
    (line,) = printed(ended.run_dir, LineTeller())
    assert f"(peak {LATER_PEAK:.2f})" in line
    assert COLLAPSE in line
    lines = printed(ended.run_dir, LineTeller(), once=False)
    assert f"(best {LATER_PEAK:.2f})" in lines[-1]
    assert f"1 alert open: {COLLAPSE}" in lines[-1]
    assert f"alert {COLLAPSE} -" in printed(ended.run_dir, MetricTeller(0.0))


@pytest.mark.parametrize(
    ("iteration", "peak"), [(SPIKE + 900, PEAK), (LATER_SPIKE - 1, PEAK), (4700, LATER_PEAK)]
)
def test_of_a_moment_of_a_replay_what_comes_later_is_no_peak(
    ended: LongHistory, iteration: int, peak: float
) -> None:
    (line,) = printed(ended.run_dir, JsonTeller(0.0), replayed=True, iteration=iteration)
    told = json.loads(line)
    assert (told["iteration"], told["reward_peak"]) == (iteration, peak)


def test_a_run_that_was_cut_off_has_its_peak_too(tmp_path: Path) -> None:
    run_dir = made(tmp_path, ended="").run_dir
    for once in (True, False):
        told = json.loads(printed(run_dir, JsonTeller(0.0), once=once, gone=("rank 0",))[-1])
        assert (told["ended"], told["reward_peak"]) == (None, LATER_PEAK)


def test_where_nobody_tells_the_rest_the_peak_is_of_what_was_read(ended: LongHistory) -> None:
    class Mute(Subscriber):
        def bins(self, tags: tuple[str, ...], after: int) -> NoAnswer:
            del tags, after
            return NoAnswer("nothing", may_come=True)

    (line,) = printed(ended.run_dir, JsonTeller(0.0), kind=Mute)
    read = [ended.value(REWARD, k) for k in range(UPDATES - 498, UPDATES + 1)]
    assert json.loads(line)["reward_peak"] == max(read) < PEAK


class Unheard:
    """Nobody answers."""

    run_dir, target = "/run", ""

    def __init__(self) -> None:
        self.asked: list[PeakQuestion] = []

    def ask(self, question: PeakQuestion) -> None:
        self.asked.append(question)


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(ended: LongHistory) -> None:
    feed = Unheard()
    run = PrintedRun(feed, is_past=False)
    with Subscriber.attach(ended.run_dir) as source:
        while records := source.poll(0):
            assert run.take([Batch(records=tuple(records))]) is None
    assert run.picture(100.0) is None
    assert run.picture(100.0 + PEAK_WITHIN_S / 2) is None
    picture = run.picture(100.0 + PEAK_WITHIN_S)
    assert picture is not None
    assert picture.ended == "completed"
    (question,) = feed.asked
    reply = PastPeak(LATER_PEAK, question.through, complete=True)
    run.take([Batch(answers=(Answer(question, reply),))])
    later = run.picture(200.0)
    assert later is not None
    assert later.rewards.peak == LATER_PEAK


def test_the_highest_value_ends_where_it_was_asked_to(ended: LongHistory) -> None:
    with Subscriber.attach(ended.run_dir) as source:
        for through, peak in ((SPIKE, None), (SPIKE + 1, PEAK), (3000, PEAK), (4500, LATER_PEAK)):
            question: PeakQuestion | None = PeakQuestion(REWARD, through)
            found: list[float] = []
            while question is not None:
                reply = question.put(source)
                assert reply is not None
                assert not isinstance(reply, NoAnswer)
                found += [] if reply.value is None else [reply.value]
                question = question.following(reply)
            usual = max(ended.value(REWARD, k) for k in range(1, SPIKE))
            assert max(found) == (usual if peak is None else peak)


def _head(*told: AlertStatus, ended: str | None = "completed", attempt: int = 1) -> Head:
    epoch = Epoch(b"j" * 16, 1)
    run = RunInfo()
    return Head(
        epoch, 9, 9, attempt, run, "/run", (), (), 0, 0, ended, alerts=told, alerts_open=len(told)
    )


def test_open_alerts_are_those_of_whoever_knows_all_of_them() -> None:
    known = OpenAlerts()
    known.add(1, AttemptOpened(1, 0, RunInfo()))
    known.add(7, alert())
    told = Summary(alerts=("NaN in Loss/a", COLLAPSE), alerts_open=9)
    newest, count = known.now(None, told)
    assert ([one.text for one in newest], count) == (["NaN in Loss/a", COLLAPSE], 9)
    assert [one.alert for one in newest] == [0, 7]
    assert known.now(None, Summary(alerts=("other",), alerts_open=1))[1] == 1
    announced = AlertStatus(3, "nonfinite", "Loss/a", "NaN in Loss/a", "bad", 2, 5)
    both = _head(announced, AlertStatus(7, "collapse", "", COLLAPSE, "bad", 2, 5))
    assert known.now(both)[1] == 2, "who came late has not seen all that opened"
    known.add(8, AttemptOpened(2, 0, RunInfo()))
    assert known.now(both)[1] == 0, "an announcement of the attempt before"


def test_a_summary_of_any_shape_tells_the_alerts_that_it_has() -> None:
    def of(told: object) -> Summary:
        found = summary_in(json.dumps({"bus": {"attempt": 1, "alerts": told}}).encode(), 1)
        assert found is not None
        return found

    assert of({"open": 3, "open_texts": ["a", 5, "b"]})[-2:] == (("a", "b"), 3)
    for odd in (None, [], {"open": "x", "open_texts": "x"}, {"open": True}):
        assert of(odd)[-2:] == ((), 0)


def test_a_replay_tells_the_alerts_that_are_open_as_it_goes(tmp_path: Path) -> None:
    history = LongHistory(tmp_path / "run")
    history.updates(10)
    history.add(alert())
    opened = history.sequence
    history.updates(10)
    facts: dict[str, Scalar] = {"rule": "collapse", "alert": opened}
    frame = EventFrame("alert_over", "the reward is back", S, START_UNIX_NS + S, 20, facts)
    history.add(EventUpdate(1, None, frame))
    over = history.sequence
    history.updates(10)
    with Replay(history.write(), is_still=True) as source:
        for at in (opened - 1, opened, over - 1, over, opened):
            source.pace(None, at, is_paused=True)
            head = source.head
            is_open = opened <= at < over
            assert [one.alert for one in head.alerts] == ([opened] if is_open else [])
            assert head.alerts_open == is_open
            series = Series()
            series.add(Batch(records=tuple(source.poll(0)), head=head, connected=True))
            assert [one.text for one in alerts(series.picture())] == ([COLLAPSE] if is_open else [])
