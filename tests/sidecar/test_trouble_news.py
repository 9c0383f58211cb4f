"""Troubles that go on are alerts, whoever they are of; those of the past are only counted."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs
from sample_run import SampleRun

from unilab_schema.control import Head
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.alerting.trouble_news import NEWS_S, TroubleNews
from unilab_sidecar.series import Series


def head(count: int, *, at_s: float = 0.0, state: str = "live") -> Head:
    made = SampleRun().head((state, "live", "live", "live"))
    first = structs.replace(made.sources[0], troubles={"key_refused": count} if count else {})
    mono_ns = made.mono_ns + round(at_s * 1e9)
    return structs.replace(made, sources=(first, *made.sources[1:]), mono_ns=mono_ns)


def told(*heads: Head) -> list[tuple[str, int]]:
    news = TroubleNews()
    for one in heads:
        news.heed(one)
    return [(trouble.name, trouble.times) for trouble in news.now(heads[-1].sources)]


def test_a_count_that_rises_is_news_for_a_while():
    assert told(head(0), head(1)) == [("key_refused", 1)]
    assert told(head(0), head(1), head(1, at_s=NEWS_S - 1)) == [("key_refused", 1)]
    assert told(head(0), head(1), head(1, at_s=NEWS_S)) == []
    assert told(head(0), head(1), head(3, at_s=NEWS_S)) == [("key_refused", 3)]


def test_what_was_counted_before_anybody_looked_is_none_unless_its_source_is_silent():
    assert told(head(2)) == []
    assert told(head(2), head(2)) == []
    assert told(head(2, state="silent")) == [("key_refused", 2)]
    assert told(head(0), head(1, state="finished")) == []


def test_it_is_an_alert_with_whom_it_meets():
    run, series = SampleRun(), Series()
    series.add(run.batch(run.open_attempt(), run.update()))
    for count in (0, 1, 2):
        series.add(replace(run.batch(), head=head(count)))
    texts = [alert.text for alert in alerts(series.picture())]
    assert any("key refused" in text and "learner of rank 0" in text for text in texts), texts
    assert any("2 times" in text for text in texts)
    for _ in range(2):
        series.add(replace(run.batch(), head=head(2, at_s=NEWS_S)))
    assert not [a for a in alerts(series.picture()) if "key_refused" in a.text]
