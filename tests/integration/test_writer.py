"""The writer's loop against an aggregator whose every step the test decides."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy_run import ToyRun, expected, points, wait_for

from unilab_metrics.errors import LeaseHeldError, RunNotFoundError
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.segments import segment_name
from unilab_metrics.transport import rendezvous
from unilab_metrics.write import writer as writer_module
from unilab_metrics.write.backends.base import BackendError
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend
from unilab_metrics.write.process import StopSignal, make_backend, write_run
from unilab_metrics.write.writer import run_writer
from unilab_schema.control import BackendStatus


class Running:
    """``run_writer`` in a thread."""

    def __init__(self, run: ToyRun, backend: Any = None, **options: Any) -> None:
        self.lines: list[str] = []
        self.result: bool | Exception | None = None
        self.stop = threading.Event()
        self.backend = backend or TensorBoardBackend(run.run_dir)
        options = {"stop": self.stop.is_set, "log": self.lines.append, **options}
        self._thread = threading.Thread(target=self._run, args=(run.run_dir, options))
        self._thread.start()

    def _run(self, run_dir: Path, options: dict[str, Any]) -> None:
        try:
            self.result = run_writer(run_dir, self.backend, **options)
        except Exception as error:  # noqa: BLE001
            self.result = error

    def join(self) -> bool | Exception | None:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.result


@pytest.fixture
def run(run_dir: Path, short_path: Path) -> Iterator[ToyRun]:
    made = ToyRun(run_dir, short_path)
    yield made
    made.close()


def test_a_live_run_is_followed_to_its_end(run: ToyRun) -> None:
    run.start_aggregator()
    writer = Running(run)
    for _ in range(5):
        run.updates(3)
        run.announce()
    wait_for(lambda: len(points(run)) == 15, run.announce)
    run.end()
    wait_for(
        lambda: writer.result is not None,
        lambda: (run.hear(), run.announce(ended="completed")),
    )
    assert writer.join() is True
    assert points(run) == expected(15)
    assert run.statuses[-1] == BackendStatus("tensorboard", "finished", run.update, os.getpid())
    assert "Terminal/num_envs" not in EventAccumulator(str(run.run_dir)).Reload().Tags()["scalars"]
    assert not list(run.bus.glob("writer-*"))


def test_only_durable_updates_are_taken_while_an_aggregator_lives(run: ToyRun) -> None:
    run.start_aggregator()
    run.updates(10)
    writer = Running(run)
    wait_for(lambda: len(points(run)) == 4, lambda: run.announce(durable=5))
    time.sleep(0.3)
    assert points(run) == expected(4)
    # Nobody can tell any more: what the file holds is synced and taken.
    run.stop_aggregator()
    assert writer.join() is True
    assert points(run) == expected(10)


def test_nothing_is_taken_before_the_first_announcement(run: ToyRun) -> None:
    run.start_aggregator()
    run.updates(3)
    writer = Running(run)
    time.sleep(0.4)
    writer.stop.set()
    assert writer.join() is False
    assert points(run) == []


def test_a_writer_that_starts_late_has_all_iterations_from_the_first(run: ToyRun) -> None:
    run.start_aggregator()
    run.updates(2500)
    writer = Running(run)
    wait_for(lambda: writer.backend.update == run.update, run.announce)
    writer.stop.set()
    assert writer.join() is False
    assert points(run) == expected(2500)


def test_an_ended_run_is_completed_offline(run: ToyRun) -> None:
    run.updates(40)
    run.end()
    assert Running(run).join() is True
    files = sorted(run.run_dir.iterdir())
    assert points(run) == expected(40)
    assert Running(run).join() is True
    assert sorted(run.run_dir.iterdir()) == files
    assert points(run) == expected(40)


def test_a_torn_tail_of_the_history_waits_for_its_rest(run: ToyRun) -> None:
    run.updates(4)
    path = run.bus / segment_name("history", 1, 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    Running(run).join()
    assert points(run) == expected(3)
    path.write_bytes(whole)
    Running(run).join()
    assert points(run) == expected(4)


def test_progress_is_reported_at_least_once_a_second(run: ToyRun) -> None:
    run.start_aggregator()
    run.updates(1)
    writer = Running(run)
    wait_for(lambda: len(run.statuses) >= 2, lambda: (run.announce(), run.hear()))
    writer.stop.set()
    writer.join()
    assert {status.state for status in run.statuses} == {"running"}
    assert run.statuses[-1].update == run.update
    assert run.statuses[-1].pid == os.getpid()


def test_values_are_readable_within_two_seconds(run: ToyRun) -> None:
    run.start_aggregator()
    writer = Running(run)
    took_s: list[float] = []
    for count in range(1, 4):
        run.updates(1)
        run.announce()
        started_s = time.monotonic()
        wait_for(lambda count=count: len(points(run)) == count, run.announce)
        took_s.append(time.monotonic() - started_s)
    # A busy machine may hold up one of them.
    assert sorted(took_s)[1] < 2
    writer.stop.set()
    writer.join()


def test_a_second_writer_of_a_backend_is_refused(run: ToyRun) -> None:
    run.start_aggregator()
    first = Running(run)
    wait_for(lambda: list(run.bus.glob("writer-tensorboard.lease")))
    refused = Running(run, lease_wait_s=0.2).join()
    assert isinstance(refused, LeaseHeldError)
    assert refused.pid == os.getpid()
    assert refused.exit_code == 5
    first.stop.set()
    first.join()


def test_a_writer_waits_for_its_predecessor_to_end(run: ToyRun) -> None:
    run.updates(2)
    held = Lease.create(run.bus, "writer-tensorboard.lease", b"")
    writer = Running(run)
    time.sleep(0.3)
    assert writer.result is None
    held.release()
    assert writer.join() is True
    assert points(run) == expected(2)


def test_a_writer_of_a_replaced_aggregator_ends(
    run: ToyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.start_aggregator()
    writer = Running(run)
    run.updates(2)
    wait_for(lambda: len(points(run)) == 2, run.announce)
    monkeypatch.setattr("unilab_metrics.write.aggregator_link.owner_pid", lambda _: 1)
    assert writer.join() is True
    assert points(run) == expected(2)


def test_a_refusing_backend_is_reported_and_tried_again(
    run: ToyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.05)
    full = threading.Event()
    full.set()
    backend = TensorBoardBackend(run.run_dir)
    flush = backend.flush

    def flush_or_refuse() -> None:
        if full.is_set() and backend.pending_bytes:
            raise BackendError(run.run_dir, "No space left on device")
        flush()

    monkeypatch.setattr(backend, "flush", flush_or_refuse)
    run.start_aggregator()
    writer = Running(run, backend)
    run.updates(5)
    wait_for(
        lambda: run.statuses and run.statuses[-1].state == "failed",
        lambda: (run.announce(), run.hear()),
    )
    assert run.statuses[-1].text == f"{run.run_dir}: No space left on device"
    assert run.statuses[-1].update == 0
    run.updates(5)
    full.clear()
    wait_for(lambda: len(points(run)) == 10, lambda: (run.announce(), run.hear()))
    writer.stop.set()
    assert writer.join() is False
    assert points(run) == expected(10)
    assert [line for line in writer.lines if "works again" in line]
    assert len([line for line in writer.lines if "No space" in line]) == 1


def test_a_backend_that_never_recovers_does_not_hold_the_end_up(
    run: ToyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.05)
    monkeypatch.setattr(writer_module, "GIVE_UP_S", 0.2)
    run.updates(1)
    backend = TensorBoardBackend(run.run_dir / "missing")
    result = Running(run, backend).join()
    assert isinstance(result, BackendError)
    assert not list(run.bus.glob("writer-*"))


def test_the_end_needs_its_record_and_not_only_its_announcement(run: ToyRun) -> None:
    run.start_aggregator()
    writer = Running(run, TensorBoardBackend(run.run_dir, log_interval=10))
    run.updates(3)
    wait_for(lambda: writer.backend.update == 3, lambda: run.announce(ended="completed"))
    time.sleep(0.3)
    assert writer.result is None
    run.end()
    wait_for(
        lambda: writer.result is not None, lambda: (run.hear(), run.announce(ended="completed"))
    )
    assert writer.join() is True
    assert points(run) == expected(3)[2:]


def test_garbage_on_the_announcement_socket_is_passed_over(run: ToyRun) -> None:
    run.start_aggregator()
    writer = Running(run)
    run.updates(1)
    wait_for(lambda: len(points(run)) == 1, lambda: (run.send_raw(b"\xff garbage"), run.announce()))
    writer.stop.set()
    writer.join()


def test_a_run_without_history_ends_at_once(run_dir: Path) -> None:
    lines: list[str] = []
    private_directory(rendezvous.bus_directory(run_dir))
    complete = run_writer(
        run_dir, TensorBoardBackend(run_dir), stop=lambda: False, log=lines.append
    )
    assert complete is True
    assert [path.name for path in run_dir.iterdir()] == ["bus"]


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="holds no run"):
        write_run(tmp_path, "tensorboard")


def test_signals_are_handled_only_while_a_run_is_written(
    run: ToyRun, capfd: pytest.CaptureFixture[str]
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    run.updates(2)
    assert write_run(run.run_dir, "tensorboard") == 0
    assert "tensorboard ends at update 3" in capfd.readouterr().out
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ValueError, match="no backend 'paper'; there are: tensorboard"):
        make_backend("paper", Path())


def test_sigterm_drains_and_a_second_one_hurries() -> None:
    now_s = 100.0
    stop = StopSignal(8.0, lambda: now_s)
    assert not stop()
    stop.receive()
    assert not stop()
    now_s = 107.9
    assert not stop()
    now_s = 108.0
    assert stop()
    hurried = StopSignal(8.0, lambda: now_s)
    hurried.receive()
    hurried.receive()
    assert hurried()
