"""Processes that stand still without being gone: an alert each, which ends when they go on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from alert_runs import alert_run, collector_of
from hurried_alerts import interpreter
from live_runs import Watcher
from real_runs import until
from webhook_server import webhook_server

from unilab_metrics.config import ALERT_WEBHOOK_VARIABLE, PYTHON_VARIABLE
from unilab_metrics.transport import rendezvous
from unilab_schema.alerts import AlertStatus
from unilab_schema.control import Head

COLLECTOR, WRITER = "collector of rank 0 ", "writer of tensorboard"


@pytest.mark.slow
def test_a_stopped_collector_and_a_stopped_writer_are_told_of_once_and_end(tmp_path: Path):
    with webhook_server() as server:
        environment = {
            ALERT_WEBHOOK_VARIABLE: server.url,
            PYTHON_VARIABLE: os.fspath(interpreter(tmp_path)),
        }
        with alert_run(tmp_path, backends="tensorboard", **environment) as run:
            watcher = Watcher(rendezvous.read(run.bus_dir).announce)
            collector = collector_of(run)
            try:
                until(lambda: _cursor(watcher.head(), "collector") > 30)
                # A slow start on a busy machine may look as if somebody stood still.
                until(lambda: watcher.head().backends[0].update > 50 and not watcher.head().alerts)
                before = watcher.head().update
                writer = watcher.head().backends[0].pid
                stopped = (collector.pid, writer)
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                try:
                    until(lambda: len(_about_them(watcher.head())) == 2)
                    first = _about_them(watcher.head())
                    seen = watcher.head().update
                    until(lambda: watcher.head().update > seen + 150)
                    assert _about_them(watcher.head()) == first
                finally:
                    for pid in stopped:
                        os.kill(pid, signal.SIGCONT)
                until(lambda: not _about_them(watcher.head()))
                after = watcher.head().update
                # Before and after, and of the others, a busy machine may have something to tell.
                events = {
                    sequence: frame
                    for sequence, frame in run.numbered_events()
                    if before < sequence <= after
                    and str(frame.data["subject"]).startswith((COLLECTOR, WRITER))
                }
                until(lambda: events.keys() <= _posted(server.got).keys())
            finally:
                run.set("stop")
                watcher.close()
                collector.communicate(timeout=60)
                collector.kill()
        told = [(frame.kind, str(frame.data["rule"])) for frame in events.values()]
        assert sorted(told[:2]) == [("alert", "stalled"), ("alert", "writer_behind")]
        assert sorted(told[2:]) == [("alert_over", "stalled"), ("alert_over", "writer_behind")]
        about = {str(frame.data["rule"]): str(frame.data["subject"]) for frame in events.values()}
        assert about["stalled"].startswith(COLLECTOR)
        assert about["writer_behind"] == WRITER
        posted = [_posted(server.got)[sequence] for sequence in events]
    assert [(one["state"], one["rule"]) for one in posted] == [
        ({"alert": "open", "alert_over": "over"}[kind], rule) for kind, rule in told
    ]
    assert len({one["id"] for one in posted}) == 4
    assert {one["alert"] for one in posted[:2]} == {one["alert"] for one in posted[2:]}


def _about_them(head: Head) -> list[AlertStatus]:
    return [alert for alert in head.alerts if alert.subject.startswith((COLLECTOR, WRITER))]


def _posted(bodies: list[bytes]) -> dict[int, dict[str, Any]]:
    """By the update sequence of the event; nothing is sent twice."""
    read = [json.loads(body) for body in bodies]
    found = {int(one["id"].rpartition("-")[2]): one for one in read}
    assert len(found) == len(read)
    return found


def _cursor(head: Head, role: str) -> int:
    return sum(source.cursor for source in head.sources if source.key.role == role)
