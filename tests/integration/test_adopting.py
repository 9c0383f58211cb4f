"""What a dead process left is sent from its own node, in its own name, by one process only."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from receiving_end import ReceivingEnd
from spooled import spooled_publisher

from unilab_metrics.publish.adopting import AGAIN_NS, Adopter
from unilab_metrics.publish.connection import Connection
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.wakeup import Wakeup
from unilab_metrics.storage.lease import is_free
from unilab_metrics.storage.segments import list_segments
from unilab_schema.control import Reject
from unilab_schema.frames import End, Gap, IterationFrame


@pytest.fixture
def end(short_path: Path) -> Iterator[ReceivingEnd]:
    made = ReceivingEnd(short_path)
    yield made
    made.close()


@pytest.fixture
def adopter(tmp_path: Path, end: ReceivingEnd) -> Iterator[Callable[[], Adopter]]:
    made: list[tuple[Adopter, Wakeup]] = []

    def make() -> Adopter:
        wakeup, counted = Wakeup(), Losses()
        own = tmp_path / "launch" / "own"
        adopter = Adopter(
            own, lambda d, r: Connection(end.find_bus, d, wakeup, counted, r), counted
        )
        made.append((adopter, wakeup))
        return adopter

    yield make
    for adopter, wakeup in made:
        adopter.close()
        wakeup.close()


def left_behind(folder: Path, count: int, rank: int = 1) -> Path:
    """The spool of a process that is gone; with the end record ``count + 2`` sequences."""
    publisher = spooled_publisher(folder, rank=rank)
    for iteration in range(1, count + 1):
        publisher.log({"a": float(iteration)}, iteration=iteration)
    publisher.close(0)
    return Path(publisher.identity.spool_path)


def turns(
    adopter: Adopter, end: ReceivingEnd, until: Callable[[], object], after_ns: int = 0
) -> None:
    def turn() -> bool:
        adopter.turn(time.monotonic_ns() + after_ns)
        return bool(until())

    end.serve(turn)


def test_spool_of_a_dead_process_arrives_once_and_is_removed(
    tmp_path: Path, end: ReceivingEnd, adopter: Callable[[], Adopter]
) -> None:
    spool = left_behind(tmp_path, 3000)
    turns(adopter(), end, lambda: not spool.exists())
    assert {hello.adopted for hello in end.hellos} == {True}
    assert {hello.identity.key.rank for hello in end.hellos} == {1}
    *iterations, last = end.frames()
    assert [f.iteration for f in iterations if isinstance(f, IterationFrame)] == [*range(1, 3001)]
    assert isinstance(last, End)
    assert end.duplicates == 0


def test_several_spools_are_sent_one_after_the_other(
    tmp_path: Path, end: ReceivingEnd, adopter: Callable[[], Adopter]
) -> None:
    spools = [left_behind(tmp_path, 0, rank) for rank in (1, 2)]
    turns(adopter(), end, lambda: not any(spool.exists() for spool in spools))
    assert {hello.identity.key.rank for hello in end.hellos} == {1, 2}


def test_only_one_process_sends_a_spool(
    tmp_path: Path, end: ReceivingEnd, adopter: Callable[[], Adopter]
) -> None:
    spool = left_behind(tmp_path, 10)
    end.mute = True
    first, second = adopter(), adopter()
    first.turn(1)
    second.turn(1)
    assert (first.is_under_way, second.is_under_way) == (True, False)
    first.close()
    assert is_free(spool / "lease")
    end.mute = False
    turns(second, end, lambda: not spool.exists(), after_ns=AGAIN_NS)
    assert [f.iteration for f in end.frames() if isinstance(f, IterationFrame)] == [*range(1, 11)]


def test_spool_of_a_living_process_is_left_alone(
    tmp_path: Path, end: ReceivingEnd, adopter: Callable[[], Adopter]
) -> None:
    living = spooled_publisher(tmp_path, rank=1)
    living.log({"a": 1.0}, iteration=1)
    made = adopter()
    made.turn(time.monotonic_ns())
    assert not made.is_under_way
    living.close(0)
    turns(made, end, lambda: not Path(living.identity.spool_path).exists(), after_ns=AGAIN_NS)
    assert len(end.frames()) == 2


FREED = """
import sys
from pathlib import Path
from spooled import spooled_publisher
publisher = spooled_publisher(Path(sys.argv[1]), rank=1)
publisher.log({"a": 1.0}, iteration=1)
open(publisher.identity.lease_path).close()
print(publisher.identity.spool_path, flush=True)
sys.stdin.read()
"""


def test_lease_that_its_living_holder_has_freed_by_accident_is_not_taken(
    tmp_path: Path, end: ReceivingEnd, adopter: Callable[[], Adopter]
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", FREED, str(tmp_path)],
        stdin=pipe, stdout=pipe, text=True, env=environment,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        spool = Path(holder.stdout.readline().strip())
        assert is_free(spool / "lease")
        made = adopter()
        made.turn(time.monotonic_ns())
        assert not made.is_under_way
        holder.kill()
    turns(made, end, lambda: not spool.exists(), after_ns=AGAIN_NS)
    assert len(end.frames()) == 1


def test_batches_that_get_lost_are_sent_again(
    tmp_path: Path, end: ReceivingEnd, adopter: Callable[[], Adopter]
) -> None:
    spool = left_behind(tmp_path, 2000)
    end.swallow = 1
    turns(adopter(), end, lambda: not spool.exists())
    assert len(end.frames()) == 2001


def test_damage_in_a_spool_becomes_a_gap(
    tmp_path: Path, end: ReceivingEnd, adopter: Callable[[], Adopter]
) -> None:
    spool = left_behind(tmp_path, 20)
    (segment,) = list_segments(spool, "spool")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    turns(adopter(), end, lambda: not spool.exists())
    (gap,) = [frame for frame in end.frames() if isinstance(frame, Gap)]
    assert gap.first == gap.last


def test_spool_that_the_aggregator_refuses_stays(
    tmp_path: Path, end: ReceivingEnd, adopter: Callable[[], Adopter]
) -> None:
    spool = left_behind(tmp_path, 10)
    end.reject = Reject("bad_message", "no", final=True)
    made = adopter()
    turns(made, end, lambda: end.hellos and not made.is_under_way)
    assert len(list_segments(spool, "spool")) == 1
    assert is_free(spool / "lease")


def test_the_dead_are_spoken_for_when_the_aggregator_has_heard_of_who_speaks(
    tmp_path: Path, end: ReceivingEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which attempt the dead one is, only shows by who has its place."""
    monkeypatch.setattr(Connection, "is_elsewhere", True)
    left_behind(tmp_path, 10)
    end.mute = True
    living = spooled_publisher(tmp_path, rank=1, find_bus=end.find_bus)
    end.serve(lambda: len(end.hellos) >= 2)
    assert [hello.adopted for hello in end.hellos] == [False, False]
    end.reject = Reject("duplicate_rank", "it lives, as far as is known", retry_after_s=1.0)
    end.mute = False
    end.serve(lambda: end.hellos[-1].adopted)
    end.reject = Reject("too_new", "", final=True)

    def close() -> None:
        with pytest.warns(RuntimeWarning):
            living.close()

    closing = threading.Thread(target=close)
    closing.start()
    end.serve(lambda: not closing.is_alive())
    closing.join()
