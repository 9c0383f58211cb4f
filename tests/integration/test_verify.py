"""``verify`` passes a run that is whole and names the first thing that is not."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from toy_run import ToyRun

from unilab_metrics.cli.root import commands
from unilab_metrics.errors import ExitCode, RunNotFoundError, VerificationError
from unilab_metrics.run.verifying import verify
from unilab_metrics.run.verifying.event_points import Held, held_position, marked_points
from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.storage.filesystem import private_directory
from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.history import HISTORY_PREFIX
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, bus_directory
from unilab_metrics.write.backends.event_files import own_files, read_records
from unilab_metrics.write.backends.event_records import frame
from unilab_metrics.write.backends.protos import Event
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend
from unilab_metrics.write.writer import run_writer
from unilab_schema.updates import Supplement, Update


@pytest.fixture
def run(run_dir: Path, short_path: Path) -> Iterator[ToyRun]:
    made = ToyRun(run_dir, short_path)
    yield made
    made.close()


def write(run: ToyRun, log_interval: int = 1, *, follow: bool = True) -> None:
    backend = TensorBoardBackend(run.run_dir, log_interval=log_interval)
    run_writer(run.run_dir, backend, stop=lambda: not follow, log=lambda _: None, follow=follow)


def rewrite(run: ToyRun, change: Callable[[int, Any], None]) -> None:
    """Change events of the file as a fault of a backend might."""
    (path,) = own_files(run.run_dir)
    out: list[bytes] = []
    for number, record in enumerate(read_records(path)):
        event = Event.FromString(bytes(record.data))
        change(number, event)
        out.append(frame(event.SerializeToString()))
    path.write_bytes(b"".join(out))


def test_a_whole_run_passes_with_its_counts(run: ToyRun) -> None:
    run.updates(50)
    run.end()
    write(run)
    verified = verify_run(run.run_dir)
    assert verified.points_per_tag == {"Loss/actor": 50, "Train/iteration": 50}
    assert verified.history.updates == 50
    assert verified.history.entries == 52
    assert verified.history.ended == "completed"
    assert verified.behind == 0
    assert verified.lost_frames is None, "nobody has written a summary"


def test_nan_and_infinities_and_the_edges_of_float32_are_values_like_others(run: ToyRun) -> None:
    for number in (math.nan, math.inf, -math.inf, 1e308, 1e-50, -0.0, 16777217.0):
        run.iteration += 1
        packed = struct.pack("<3d", number, run.iteration, 8.0)
        run.append(Update(1, run.iteration, 32 * run.iteration, 1, 0, 0.0, 1, 1, 0, packed))
    run.end()
    write(run)
    assert verify_run(run.run_dir).points_per_tag["Loss/actor"] == 7


def test_a_supplement_may_have_an_earlier_step(run: ToyRun) -> None:
    run.updates(3)
    packed = struct.pack("<3d", 0.5, 1.0, 8.0)
    run.append(Supplement(1, 1, 32, 1, 0, 0.0, 0, packed))
    run.end()
    write(run)
    assert verify_run(run.run_dir).points_per_tag["Loss/actor"] == 4


def test_a_thinned_backend_is_compared_with_what_it_should_hold(run: ToyRun) -> None:
    run.updates(25)
    run.end()
    write(run, log_interval=10)
    verified = verify_run(run.run_dir, log_interval=10)
    assert verified.points_per_tag["Train/iteration"] == 3, "10, 20 and the last one, 25"
    with pytest.raises(VerificationError):
        verify_run(run.run_dir)


def test_a_live_run_is_compared_as_far_as_its_backend_is(run: ToyRun) -> None:
    run.updates(10)
    write(run)
    run.updates(5)
    assert verify_run(run.run_dir).behind == 5


def grow_behind(monkeypatch: pytest.MonkeyPatch, grow: Callable[[], None]) -> None:
    """The run goes on once its backend's position has been read."""

    def look(run_dir: Path) -> Held:
        held = held_position(run_dir)
        grow()
        return held

    monkeypatch.setattr(verify, "held_position", look)


@pytest.mark.parametrize("ends", [False, True])
def test_what_a_live_run_gets_between_two_looks_is_no_difference(
    run: ToyRun, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    run.updates(10)
    write(run)

    def grow() -> None:
        run.updates(5)
        if ends:
            run.end()
        write(run, follow=False)

    grow_behind(monkeypatch, grow)
    lease = Lease.create(run.bus, AGGREGATOR_LEASE, b"")
    try:
        verified = verify_run(run.run_dir)
    finally:
        lease.release()
    assert verified.is_live
    assert verified.points_per_tag == {"Loss/actor": 10, "Train/iteration": 10}
    assert verified.behind == 5 + ends


def test_a_run_that_is_taken_up_between_two_looks_is_live(
    run: ToyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.updates(10)
    write(run)
    run.updates(5)
    run.end()
    leases: list[Lease] = []

    def grow() -> None:
        if not leases:
            leases.append(Lease.create(run.bus, "writer-tensorboard.lease", b""))

    grow_behind(monkeypatch, grow)
    try:
        verified = verify_run(run.run_dir)
    finally:
        leases[0].release()
    assert (verified.is_live, verified.behind) == (True, 6)


def test_several_writers_in_a_row_are_one_backend(run: ToyRun) -> None:
    for _ in range(4):
        run.updates(10)
        write(run)
    run.end()
    write(run)
    assert len(own_files(run.run_dir)) > 1
    assert verify_run(run.run_dir).points_per_tag["Loss/actor"] == 40


def test_a_backend_that_lacks_the_end_is_found(run: ToyRun) -> None:
    run.updates(10)
    write(run)
    run.updates(2)
    run.end()
    with pytest.raises(
        VerificationError,
        match=r"lacks the last 3 entries; complete it with `unilab-metrics write /",
    ):
        verify_run(run.run_dir)


def test_a_backend_without_any_file_is_found(run: ToyRun) -> None:
    run.updates(1)
    run.end()
    with pytest.raises(
        VerificationError,
        match=r"lacks the last 3 entries; complete it with `unilab-metrics write /",
    ):
        verify_run(run.run_dir)


def test_a_changed_value_is_named(run: ToyRun) -> None:
    run.updates(10)
    run.end()
    write(run)
    changed = float(np.nextafter(np.float32(5 / 3), np.float32(9)))

    def change(number: int, event: Any) -> None:
        if event.step == 5 * 32 and event.summary.value:
            event.summary.value[0].simple_value = changed

    rewrite(run, change)
    with pytest.raises(VerificationError, match=r"Loss/actor at step 160 = 1\.6666\S+, tensorb"):
        verify_run(run.run_dir)


def test_a_missing_and_a_doubled_point_are_named(run: ToyRun) -> None:
    run.updates(10)
    run.end()
    write(run)

    def drop(number: int, event: Any) -> None:
        if event.step == 10 * 32 and event.summary.value:
            del event.summary.value[1]

    rewrite(run, drop)
    with pytest.raises(VerificationError, match=r"only the history has point 19, Train/iter"):
        verify_run(run.run_dir)


def test_a_gap_in_the_history_is_found(run: ToyRun) -> None:
    run.updates(3)
    run.update += 1
    run.updates(3)
    run.end()
    with pytest.raises(VerificationError, match=r"lacks 1 entry|has entry 4 and then 6"):
        verify_run(run.run_dir)


def test_a_damaged_history_is_told_from_one_with_a_hole(run: ToyRun) -> None:
    run.updates(9)
    run.end()
    write(run)
    (path,) = list_segments(bus_directory(run.run_dir), HISTORY_PREFIX)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    done = CliRunner().invoke(commands, ["verify", str(run.run_dir)])
    assert done.exit_code == ExitCode.DAMAGED
    assert done.output.endswith(f"the history is damaged in 1 place (in {path.name})\n")


def test_a_live_run_has_not_ended_yet(run: ToyRun) -> None:
    run.updates(3)
    write(run)
    done = CliRunner().invoke(commands, ["verify", str(run.run_dir)])
    assert done.exit_code == ExitCode.OK
    assert "gap-free, not ended yet" in done.output
    assert "losses       the run has not ended yet" in done.output


def test_a_falling_counter_never_becomes_a_falling_step(run: ToyRun) -> None:
    run.updates(3)
    write(run)
    packed = struct.pack("<3d", 1.0, 4.0, 8.0)
    run.append(Update(1, 4, 32, time.time_ns(), 0, 0.0, 1, 1, 0, packed))
    run.end()
    write(run)
    position = held_position(run.run_dir).position
    assert position is not None
    steps = [point.step for point in marked_points(run.run_dir, position)]
    assert steps == sorted(steps)
    verify_run(run.run_dir)


def test_no_run_there(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError):
        verify_run(tmp_path)


def test_the_command_says_what_it_found_and_ends_with_its_code(run: ToyRun) -> None:
    run.updates(10)
    run.end()
    write(run)
    done = CliRunner().invoke(commands, ["verify", str(run.run_dir)])
    assert done.exit_code == ExitCode.OK, done.output
    assert "12 entries, 10 iterations, gap-free, completed" in done.output
    assert "2 tags, 20 points, 10 each, equal to the history" in done.output
    own_files(run.run_dir)[0].unlink()
    done = CliRunner().invoke(commands, ["verify", str(run.run_dir)])
    assert done.exit_code == ExitCode.VERIFICATION_FAILED
    assert done.output.startswith("unilab-metrics: tensorboard lacks")
    assert done.output.count("\n") == 1


def test_the_command_refuses_what_is_no_run(tmp_path: Path) -> None:
    private_directory(tmp_path / "other")
    assert not bus_directory(tmp_path).exists()
    done = CliRunner().invoke(commands, ["verify", str(tmp_path)])
    assert done.exit_code == ExitCode.RUN_NOT_FOUND
