"""The bell: once for an alert that opens while somebody looks, and never for older ones."""

from __future__ import annotations

from dataclasses import replace

from shown_screens import sample_shown, seen

from unilab_schema.alerts import AlertStatus
from unilab_schema.control import SourceStatus
from unilab_schema.frames import EventFrame, Scalar
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.updates import AttemptOpened, EventUpdate
from unilab_sidecar.alerting.alert_bell import AlertBell
from unilab_sidecar.alerting.alerts import alerts, trouble_word
from unilab_sidecar.alerting.open_alerts import OpenAlerts
from unilab_sidecar.picture import Picture


def _picture(*numbers: int, count: int = 0) -> Picture:
    told = tuple(AlertStatus(n, "rule", "a", f"text {n}", "warn", 1, 0) for n in numbers)
    return replace(Picture(), stage="training", own_alerts=(told, count or len(told)))


def test_an_old_alert_is_silent_and_a_new_one_rings_once_a_second_at_most():
    bell = AlertBell()
    assert not bell.heed(Picture(), 0.0)
    assert not bell.heed(_picture(5), 1.0)
    assert bell.heed(_picture(5, 9), 2.0)
    assert not bell.heed(_picture(5, 9), 3.0)
    assert not bell.heed(_picture(5), 4.0)
    assert bell.heed(_picture(10), 5.0)
    assert not bell.heed(_picture(11), 5.5)
    assert bell.heed(_picture(12), 6.5)


def test_the_newest_open_alert_comes_first_and_the_rest_is_counted():
    said = [alert.text for alert in alerts(_picture(*range(1, 9), count=12))]
    assert said[:5] == ["text 8", "text 7", "text 6", "text 5", "8 more alerts open"]


def test_the_title_and_the_list_count_the_same_things():
    of_the_run = _picture(*range(1, 9), count=12)
    collector = SourceStatus(SourceKey(0, "collector"), 1, "h", "silent", 6.0, 6.0, 5, 0)
    for extra, count in (((), 12), ((collector,), 13)):
        picture = replace(of_the_run, sources=extra, connected=True)
        assert trouble_word(picture) == f"! {count} alerts"
        shown = replace(sample_shown(20), picture=picture)
        heading = next(x for x in seen(shown, "4").splitlines() if x.startswith("Alerts ─"))
        assert heading.endswith(f"─ {count}")
    silent = replace(of_the_run, own_alerts=((), 0), sources=(collector,), connected=True)
    assert trouble_word(silent) == "W 1 alert"


def _event(kind: str, **data: Scalar) -> EventUpdate:
    return EventUpdate(1, None, EventFrame(kind, kind, 0, 0, 3, dict(data)))


def test_without_announcements_the_events_say_what_is_open():
    known = OpenAlerts()
    known.add(4, _event("alert", rule="nonfinite", subject="a", severity="bad"))
    known.add(6, _event("alert", rule="rule", subject="b", severity="warn"))
    assert known.now(None)[1] == 2
    known.add(7, _event("alert_over", alert=4))
    assert [one.alert for one in known.now(None)[0]] == [6]
    known.add(8, AttemptOpened(2, 0, RunInfo()))
    assert known.now(None) == ((), 0)
