"""Who is at work on a run, as ``sh`` alone tells it, against what this machine knows itself."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cut_off_run import kill, open_run_directory, source, spools

from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.process_table import stat_fields
from unilab_metrics.subscribe.abandoned import find_abandoned
from unilab_metrics.subscribe.ssh import script, work
from unilab_metrics.subscribe.ssh.report import Holder, Listener, Report
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import ConnectionFile

pytestmark = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="no list of locks here")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return open_run_directory(tmp_path / "it's a run")


@pytest.fixture
def publisher(run_dir: Path) -> Iterator[Publisher]:
    made = source()
    made.log({"Loss/value": 1.0}, iteration=0)
    yield made
    kill(made)


def reported(run_dir: Path) -> Report:
    """What the other machine would answer."""
    run = answer(script.ask_run(str(run_dir)))
    return answer(script.ask_work(str(run_dir), work.places(run.settings) or ()))


def answer(question: bytes) -> Report:
    asked = script.preamble("um-mark") + question + b"wait\n"
    done = subprocess.run(["/bin/sh"], input=asked, capture_output=True, timeout=20, check=True)
    assert not done.stderr
    return Listener("um-mark").take(done.stdout)[0]


def connect(run_dir: Path, **fields: object) -> ConnectionFile:
    """An aggregator's file, whose process has gone."""
    told = {
        "run_dir": str(run_dir), "journal": "00", "pid": 2**30, "started_unix_ns": 8,
        "boot_id": boot_id(), "host": platform.node(), "ingest": "ipc:///i",
        "announce": "ipc:///a", "fetch": "ipc:///f", **fields,
    }  # fmt: skip
    file = rendezvous.decode(json.dumps({"version": 1, **told}).encode(), "")
    rendezvous.write(rendezvous.bus_directory(run_dir), file)
    return file


def test_a_process_that_holds_its_lease_is_at_work(run_dir: Path, publisher: Publisher) -> None:
    connect(run_dir)
    report = reported(run_dir)
    assert report.is_work
    (spool,) = report.spools
    assert spool.holder.lock == "held"
    assert work.who_is_gone(report, None) is None
    assert find_abandoned(run_dir) is None
    assert publisher.dropped == {}


def test_of_those_who_are_all_gone_the_same_is_said_as_on_their_machine(
    run_dir: Path, publisher: Publisher
) -> None:
    connect(run_dir)
    kill(publisher)
    # In the place of the one that is this very process.
    (spool,) = spools()
    (spool / "lease").write_text('{"pid":1073741824}')
    report = reported(run_dir)
    gone = work.who_is_gone(report, None)
    assert gone is not None
    assert gone == find_abandoned(run_dir)
    assert [name.split(" (")[0] for name in gone] == ["the aggregator", "learner of rank 0"]


def test_a_spool_that_is_being_made_has_somebody_at_work(run_dir: Path) -> None:
    connect(run_dir)
    places = work.places(answer(script.ask_run(str(run_dir))).settings)
    assert places is not None
    place = places[0]
    (Path(place) / "new").mkdir(parents=True)
    report = reported(run_dir)
    assert [one.holder.lock for one in report.spools] == ["held"]
    os.utime(Path(place) / "new", (0, 0))
    assert [one.holder.lock for one in reported(run_dir).spools] == [""]


def test_without_a_list_of_locks_a_pid_tells(run_dir: Path, publisher: Publisher) -> None:
    connect(run_dir)
    (spool,) = reported(run_dir).spools
    unseen = spool._replace(holder=spool.holder._replace(lock="unknown"))
    running = reported(run_dir)._replace(spools=(unseen,))
    assert work.who_is_gone(running, None) is None
    ended = unseen._replace(holder=Holder("unknown"))
    assert work.who_is_gone(running._replace(spools=(ended,)), None) is not None
    assert publisher.dropped == {}


def test_a_pid_that_another_process_has_now_is_nobody_at_work(
    run_dir: Path, publisher: Publisher
) -> None:
    connect(run_dir)
    report = reported(run_dir)
    (spool,) = report.spools
    free = spool._replace(holder=spool.holder._replace(lock="free"))
    # Somebody has closed the descriptor of the lease, and works on.
    assert work.who_is_gone(report._replace(spools=(free,)), None) is None
    now_s, up_s, *_ = report.clock.split()
    fields = ["0"] * 40
    for state, start_s, is_gone in (
        ("S", float(up_s), False), ("S", float(up_s) + 1000.0, True), ("Z", 0.0, True),
    ):  # fmt: skip
        fields[0], fields[19] = state, str(int(start_s * 100))
        other = Holder("free", f"7 (a) b) {' '.join(fields)}")
        later = f"{int(now_s) + 2000} {float(up_s) + 2000}"
        changed = report._replace(spools=(free._replace(holder=other),), clock=later)
        assert (work.who_is_gone(changed, None) is not None) is is_gone
    assert stat_fields(os.getpid())


def test_of_another_container_only_who_sees_all_can_say_that_it_has_ended(
    run_dir: Path, publisher: Publisher
) -> None:
    connect(run_dir)
    report = reported(run_dir)
    (spool,) = report.spools
    free = report._replace(spools=(spool._replace(holder=Holder("free")),))
    for pids, is_gone in (("pid:[7]", False), ("pid:[4026531836]", True)):
        assert (work.who_is_gone(free._replace(pids=pids), None) is not None) is is_gone
    assert publisher.dropped == {}


def test_a_machine_that_has_started_anew_has_nobody_of_before(run_dir: Path) -> None:
    file = connect(run_dir, boot_id="before")
    report = reported(run_dir)
    assert work.who_is_gone(report, None) is None
    assert work.who_is_gone(report, (file.pid, file.started_unix_ns)) is not None


def test_a_run_of_another_node_is_none_of_its_business(run_dir: Path) -> None:
    connect(run_dir, boot_id="other", host="node7")
    assert work.who_is_gone(reported(run_dir), None) is None


@pytest.mark.parametrize("settings", [b"", b"[", b'{"spools":[1]}', b"[" * 9000])
def test_damaged_settings_say_nothing_of_places(settings: bytes) -> None:
    assert work.places(settings) is None


def test_where_there_are_no_settings_there_are_no_places() -> None:
    assert work.places(None) == ()


def test_nonsense_is_no_end_of_a_run() -> None:
    for clock in ("", "x y", "1"):
        for running in ("", ") ", "1 (x) S 1"):
            report = Report(aggregator=Holder("free", running), clock=clock, is_work=True)
            assert work.who_is_gone(report, None) is None
