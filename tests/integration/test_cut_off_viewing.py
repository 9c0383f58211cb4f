"""A viewer of a run on which nobody is at work says so at once, with what completes it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cut_off_run import end, kill, log, open_run_directory, rewrite, source
from msgspec import structs
from sample_run import FakeSource
from toy_run import ToyRun

from unilab_metrics.errors import ExitCode, UnreadSettingsError
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.run.bus_settings import SETTINGS_FILE
from unilab_metrics.storage.filesystem import boot_id
from unilab_metrics.storage.records import Record
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.storage.spool_reader import SPOOL_PREFIX
from unilab_metrics.subscribe.abandoned import find_abandoned, look_for_abandoned
from unilab_metrics.transport.rendezvous import CONNECTION_FILE, bus_directory
from unilab_schema.codec import KIND_OF, encode_payload
from unilab_schema.identity import Identity
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.printed.plain import run_plain

AGGREGATOR = f"the aggregator (pid {os.getpid()})"
DEAD_PID = 2**22
"""Beyond what a system gives out."""
LEARNER = f"learner of rank 0 (pid {DEAD_PID})"


@pytest.fixture
def cut_off(tmp_path: Path) -> Iterator[ToyRun]:
    """Its aggregator had sealed three iterations, its learner had frames that nobody took."""
    made = ToyRun(tmp_path / "run", tmp_path)
    open_run_directory(made.run_dir)
    publisher = source()
    log(publisher, range(3))
    made.start_aggregator()
    made.updates(3)
    made.stop_aggregator()
    kill_process(publisher)
    yield made
    made.close()


def kill_process(publisher: Publisher) -> None:
    """Its process, which is ours, seems to be dead too."""
    kill(publisher)

    def die(record: Record) -> list[tuple[int, int, bytes]]:
        identity = structs.replace(publisher.identity, pid=DEAD_PID)
        return [(record.kind, record.sequence, encode_payload(identity))]

    for segment in list_segments(Path(publisher.identity.spool_path), SPOOL_PREFIX):
        rewrite(segment, [KIND_OF[Identity]], die)


def change(path: Path, **fields: str) -> None:
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | fields))


def test_those_who_are_gone_are_named(cut_off: ToyRun) -> None:
    assert find_abandoned(cut_off.run_dir) == (AGGREGATOR, LEARNER)
    cut_off.start_aggregator()
    assert find_abandoned(cut_off.run_dir) is None
    cut_off.stop_aggregator()
    publisher = source(1)
    assert find_abandoned(cut_off.run_dir) is None
    end(publisher)
    assert find_abandoned(cut_off.run_dir) is not None


def test_what_cannot_be_told_is_not_said(
    cut_off: ToyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = bus_directory(cut_off.run_dir)
    connection = bus / CONNECTION_FILE
    change(connection, boot_id="another", host="elsewhere")
    assert find_abandoned(cut_off.run_dir) is None
    # A container of this machine, whose spools would be seen in it alone.
    change(connection, boot_id=boot_id(), host="elsewhere")
    assert find_abandoned(cut_off.run_dir) == (AGGREGATOR, LEARNER)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("unilab_metrics.subscribe.abandoned.spool_places", lambda *_: [])
        assert find_abandoned(cut_off.run_dir) is None
    connection.unlink()
    assert find_abandoned(cut_off.run_dir) == (LEARNER,)
    for damage in (b"{", b"[]", b'{"spools": 3}', b"\xff", b"[" * 100_000):
        (bus / SETTINGS_FILE).write_bytes(damage)
        assert find_abandoned(cut_off.run_dir) is None
    assert find_abandoned(tmp_path / "nowhere") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"spools": 3}', b"\xff", b"[" * 100_000])
def test_damaged_settings_are_named_where_nobody_leads_the_run(
    damage: bytes, cut_off: ToyRun
) -> None:
    bus = bus_directory(cut_off.run_dir)
    settings = bus / SETTINGS_FILE
    settings.write_bytes(damage)
    with pytest.raises(UnreadSettingsError, match=f"{re.escape(str(settings))}: .* recover"):
        look_for_abandoned(cut_off.run_dir)
    cut_off.start_aggregator()
    assert look_for_abandoned(cut_off.run_dir) is None
    cut_off.stop_aggregator()
    # Its machine may know more.
    change(bus / CONNECTION_FILE, boot_id="another", host="elsewhere")
    assert look_for_abandoned(cut_off.run_dir) is None


def attach(*arguments: str | Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "unilab_metrics", "attach", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_lines_about_a_run_that_was_cut_off_end_with_what_completes_it(cut_off: ToyRun) -> None:
    code, lines, errors = attach(cut_off.run_dir, "--lines")
    assert (code, errors) == (ExitCode.NO_LIVE_RUN, "")
    *_, last = lines.splitlines()
    assert last.startswith("iter 3  ")
    assert f"(gone: {AGGREGATOR}, {LEARNER})" in last
    assert f"`unilab-metrics recover {cut_off.run_dir}` completes it" in last
    assert lines.count("run cut off") == 1


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--once", "--lines", "--plain", "--json"])
def test_a_view_of_a_run_with_damaged_settings_ends_and_names_them(
    option: str, cut_off: ToyRun
) -> None:
    settings = bus_directory(cut_off.run_dir) / SETTINGS_FILE
    settings.write_bytes(b"")
    code, lines, errors = attach(cut_off.run_dir, option)
    assert code == ExitCode.DAMAGED
    assert "3" in lines if option in {"--plain", "--json"} else lines.startswith("iter 3  ")
    assert errors.startswith(f"unilab-metrics: {settings}: ")
    assert f"`unilab-metrics recover {cut_off.run_dir}`" in errors
    assert errors.count("\n") == 1


def test_a_run_that_never_had_an_aggregator_is_named_too(tmp_path: Path) -> None:
    run_dir = open_run_directory(tmp_path / "run")
    publisher = source()
    log(publisher, range(3))
    kill_process(publisher)
    code, lines, errors = attach(run_dir, "--once")
    assert (code, lines) == (ExitCode.NO_LIVE_RUN, "")
    assert f"(gone: {LEARNER}); `unilab-metrics recover {run_dir}` completes it" in errors
    assert "Traceback" not in errors


def test_output_that_takes_nothing_is_one_message_and_an_exit_code(cut_off: ToyRun) -> None:
    command = [sys.executable, "-m", "unilab_sidecar", str(cut_off.run_dir), "--lines"]
    ends = [
        subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *command],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for redirection in (">/dev/full", ">&-")
    ]  # fmt: skip
    full, closed = [(process.communicate(timeout=20)[1], process.returncode) for process in ends]
    message = "unilab-metrics: standard output: No space left on device\n"
    assert full == (message, ExitCode.UNEXPECTED)
    assert closed == ("", ExitCode.NO_LIVE_RUN)


class Deserted(FakeSource):
    """Its run has been read, and nobody speaks."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.connected = None, False

    def poll(self, timeout_ms: int) -> list[object]:  # type: ignore[override]
        records, self._waiting = self._waiting, []
        threading.Event().wait(0.0 if records else timeout_ms / 1000)
        return records  # type: ignore[return-value]


def told(gone: Callable[[], tuple[str, ...] | None], **options: Any) -> tuple[list[str], int]:
    """The lines, and the exit code."""
    feed = Feed(Deserted, wait_for_bus=False, find_abandoned=gone, run_dir="some run")  # type: ignore[arg-type]
    thread = threading.Thread(target=feed.run)
    thread.start()
    lines: list[str] = []
    stopped = threading.Event()

    def write(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            stopped.set()

    failure = run_plain(feed, write, stopped=stopped.is_set, interval_s=0.0, **options)
    feed.stop()
    thread.join(5)
    return lines, failure.exit_code if failure is not None else 0


def test_one_line_is_all_with_once() -> None:
    (line,), code = told(lambda: ("A", "B"), once=True)
    assert code == ExitCode.NO_LIVE_RUN
    assert "run cut off  ! nobody on this machine is at work on it (gone: A, B)" in line
    assert "`unilab-metrics recover 'some run'` completes it" in line


def test_who_was_told_to_wait_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unilab_sidecar.printed.plain.QUIET_INTERVAL_S", 1.0)
    monkeypatch.setattr("unilab_sidecar.feeding.left_alone.HEARD_WITHIN_S", 0.0)
    asked: list[int] = []

    def gone() -> tuple[str, ...] | None:
        # The next attempt begins.
        asked.append(1)
        return ("A",) if len(asked) == 1 else None

    lines, code = told(gone, wait=True)
    assert code == 0
    assert "run cut off" in lines[0]
    assert "run cut off" not in lines[1]
    assert "no aggregator" in lines[1]
