"""A run of another machine, by a tunnel that answers what a test lets it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from unilab_metrics.errors import ConnectionFileError, SshError
from unilab_metrics.subscribe.ssh import judging, run_over_ssh
from unilab_metrics.subscribe.ssh.report import Holder, Report
from unilab_metrics.subscribe.ssh.run_over_ssh import FIRST_ANSWER_S, RunOverSsh
from unilab_metrics.subscribe.ssh.shared_way import SharedWay, WayHolder
from unilab_metrics.subscribe.ssh.target import SshTarget

TARGET = SshTarget("box", "/run")
WHOLE = Report("b", "box", is_directory=True, has_bus=True, connection=b"{}")


class FakeTunnel:
    place = Path("/tmp")
    exit_status = None
    said = ""

    def __init__(self, *reports: Report, is_in: bool = True) -> None:
        self.reports: list[Report] = list(reports)
        self.is_in = is_in
        self.asked: list[bytes] = []

    def take(self) -> tuple[list[Report], str]:
        taken, self.reports = self.reports, []
        return taken, ""

    def ask(self, question: bytes) -> None:
        """Asked again."""
        self.asked.append(question)

    def forward(self, forwards: Sequence[object]) -> None:
        """Begun."""

    def forwarding(self) -> str | None:
        return None

    def close(self) -> None:
        """Closed."""


def opened(monkeypatch: pytest.MonkeyPatch, tunnel: FakeTunnel) -> RunOverSsh:
    monkeypatch.setattr(run_over_ssh, "Tunnel", lambda *_arguments, **_options: tunnel)
    return RunOverSsh(TARGET)


@pytest.mark.parametrize("error", [ValueError("null byte"), OverflowError(), RecursionError()])
def test_whatever_a_host_tells_a_running_view_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def judge(_target: SshTarget, _report: Report) -> judging.RemoteBus:
        raise error

    monkeypatch.setattr(judging, "judge", judge)
    run = opened(monkeypatch, FakeTunnel(WHOLE))
    assert [run.look() for _ in range(3)] == [None] * 3
    monkeypatch.setattr(run_over_ssh, "Tunnel", lambda *_arguments, **_options: FakeTunnel(WHOLE))
    with pytest.raises(ConnectionFileError, match="cannot be used"):
        RunOverSsh.open(TARGET)


def test_a_connection_that_cannot_be_begun_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> FakeTunnel:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(run_over_ssh, "Tunnel", fail)
    run = RunOverSsh(TARGET)
    assert run.look() is None
    outage = run.outage()
    assert outage is not None
    assert outage.next_s is not None
    with pytest.raises(SshError, match="Too many open files"):
        RunOverSsh.open(TARGET)


def test_only_while_people_may_be_asked_there_is_no_limit_of_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, begun_s = [time.monotonic()], time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    tunnel = FakeTunnel(is_in=False)

    def sleep(_for_s: float) -> None:
        now_s[0] += 5.0
        tunnel.is_in = now_s[0] > begun_s + 1000.0

    monkeypatch.setattr(run_over_ssh.time, "sleep", sleep)
    monkeypatch.setattr(run_over_ssh, "Tunnel", lambda *_arguments, **_options: tunnel)
    with pytest.raises(SshError, match="does not answer"):
        RunOverSsh.open(TARGET)
    assert 1000.0 + FIRST_ANSWER_S < now_s[0] - begun_s < 1000.0 + FIRST_ANSWER_S + 20.0


def test_that_nobody_is_at_work_any_more_is_known_to_all_views_of_one_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {
        "version": 1, "run_dir": "/run", "journal": "00", "pid": 7, "started_unix_ns": 8,
        "boot_id": "b", "host": "box", "ingest": "ipc:///i", "announce": "ipc:///a",
        "fetch": "ipc:///f",
    }  # fmt: skip
    file = json.dumps(told).encode()
    tunnel = FakeTunnel(WHOLE._replace(connection=None))
    holder = WayHolder(opened(monkeypatch, tunnel))
    holder.keep(is_looked_at=False)
    view = SharedWay(holder.fd)
    try:
        assert tunnel.asked[-1].startswith(b"um_ask um_work /run")
        tunnel.reports = [Report("b", "box", connection=file, is_work=True)]
        holder.keep(is_looked_at=False)
        assert view.look() is None
        assert view.gone == ("the aggregator (pid 7)",)
        held = Report("b", "box", connection=file, is_work=True, aggregator=Holder("held"))
        tunnel.reports = [held]
        holder.keep(is_looked_at=False)
        assert view.look() is None
        assert view.gone is None
    finally:
        holder.close()


def test_a_run_that_is_on_another_node_by_now_costs_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = (
        b'{"version":1,"run_dir":"/run","journal":"00","pid":7,"started_unix_ns":8,"boot_id":"c",'
        b'"host":"node7","ingest":"ipc:///i","announce":"ipc:///a","fetch":"ipc:///f"}'
    )
    run = opened(monkeypatch, FakeTunnel(WHOLE._replace(connection=file)))
    assert [run.look() for _ in range(3)] == [None] * 3
    outage = run.outage()
    assert outage is None or outage.next_s is None
