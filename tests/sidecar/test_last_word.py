"""After the end of a run every viewer shows the same of its sources and writers, whether or not it has
heard the aggregator's last word."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from sample_run import SampleRun

from unilab_schema.control import BackendStatus, Head
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.last_word import AGAIN_S, LONGEST_S, AfterTheEnd, is_last_word
from unilab_sidecar.feeding.summary import Summary
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.series import Series
from unilab_sidecar.views import bus

FINISHED = BackendStatus("tensorboard", "finished", 13)


def last(head: Head) -> Head:
    sources = tuple(msgspec.structs.replace(one, state="finished") for one in head.sources)
    backends = (msgspec.structs.replace(FINISHED, update=head.update),)
    return msgspec.structs.replace(
        head, durable=head.update, sources=sources, backends=backends, ended="completed"
    )


def ended_run() -> tuple[SampleRun, Series]:
    run, series = SampleRun(), Series()
    series.add(run.batch(run.open_attempt(), *(run.update() for _ in range(12))))
    series.add(run.batch(run.end()))
    return run, series


def shown(series: Series) -> str:
    screen = bus.view(series.picture(), None, ViewState(view="bus"), 120, 40)
    return "\n".join("".join(part.text for part in parts) for parts in screen.lines)


def test_an_announcement_is_the_last_word_when_all_is_written_and_everybody_is_gone() -> None:
    run, _ = ended_run()
    head = run.head()
    assert not is_last_word(head)
    assert is_last_word(last(head))
    assert not is_last_word(msgspec.structs.replace(last(head), durable=head.update - 1))
    assert not is_last_word(msgspec.structs.replace(last(head), sources=head.sources))
    assert not is_last_word(msgspec.structs.replace(last(head), backends=head.backends))
    assert not is_last_word(msgspec.structs.replace(last(head), ended=None))


def test_a_viewer_that_missed_the_last_word_shows_what_the_summary_says() -> None:
    run, series = ended_run()
    said = Summary(0, run.sequence, backends=(msgspec.structs.replace(FINISHED, update=14),))
    before = run.head()
    assert before.ended == "completed"
    series.add(Batch(head=before, connected=False, head_age_s=5.0, summary=said))
    series.add(Batch(head=before, connected=False, head_age_s=60.0))
    text = shown(series)
    assert "finished" in text
    assert "up to date" in text
    assert "all on disk" in text
    assert "running" not in text


def test_the_last_word_itself_is_kept() -> None:
    run, series = ended_run()
    series.add(Batch(head=last(run.head()), connected=False, head_age_s=60.0, summary=Summary(99)))
    assert series.picture().dropped == 0
    assert [one.state for one in series.picture().backends] == ["finished"]


def test_where_nothing_says_the_end_it_is_said_how_old_the_word_is() -> None:
    run, series = ended_run()
    series.add(Batch(head=run.head(), connected=False, head_age_s=60.0))
    assert "as of 60 s ago" in shown(series)


def test_the_summary_is_asked_for_until_it_says_something() -> None:
    run = SampleRun()
    asked: list[int] = []
    answers: list[Summary | None] = [None, None, Summary(3)]

    def read(attempt: int) -> Summary | None:
        asked.append(attempt)
        return answers.pop(0)

    after = AfterTheEnd(read)
    after.heed([run.open_attempt(), run.update()])
    assert after.summary(None, 0.0, connected=False) is None
    after.heed([run.end()])
    head = run.head()
    assert after.summary(head, 1.0, connected=True) is None
    assert asked == []
    assert after.summary(head, 4.0, connected=False) is None
    assert after.summary(head, 4.0 + AGAIN_S / 2, connected=False) is None
    assert asked == [1]
    assert after.summary(head, 4.0 + AGAIN_S, connected=False) is None
    assert after.summary(head, 100.0, connected=False) == Summary(3)
    assert after.summary(head, 200.0, connected=False) is None
    assert asked == [1, 1, 1]


def test_a_summary_that_never_comes_is_asked_for_ever_more_rarely() -> None:
    run, asked_s = SampleRun(), list[float]()
    now_s = 0.0

    def read(_: int) -> None:
        asked_s.append(now_s)

    after = AfterTheEnd(read)
    after.heed([run.open_attempt(), run.end()])
    for step in range(3000):
        now_s = step * 0.1
        assert after.summary(None, now_s, connected=False) is None
    pauses_s = [later - earlier for earlier, later in pairwise(asked_s)]
    assert pauses_s[0] == pytest.approx(AGAIN_S)
    assert pauses_s == sorted(pauses_s)
    assert pauses_s[-1] == pytest.approx(LONGEST_S, abs=0.2)


def test_the_last_word_or_another_attempt_makes_the_summary_needless() -> None:
    run = SampleRun()
    after = AfterTheEnd(lambda _: Summary(3))
    after.heed([run.open_attempt(), run.end()])
    assert after.summary(last(run.head()), 1.0, connected=False) is None
    after.heed([run.open_attempt()])
    assert after.summary(None, 2.0, connected=False) is None
