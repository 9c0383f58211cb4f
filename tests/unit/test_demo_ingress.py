from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from unilab_metrics.demo.ingress import (
    IngressReader,
    IngressWriter,
    StoppedError,
    create_ingress,
)
from unilab_metrics.demo.shared import PeerLostError

WIDTH = 3
ENVS = 2

Ends = tuple[IngressWriter, IngressReader]


@pytest.fixture
def ends() -> Iterator[Ends]:
    yield from _ends(slot_rows=ENVS)


@pytest.fixture
def two_tick_ends() -> Iterator[Ends]:
    yield from _ends(slot_rows=2 * ENVS)


def _ends(slot_rows: int) -> Iterator[Ends]:
    context = multiprocessing.get_context("spawn")
    writer, reader = create_ingress(context, depth=2, slot_rows=slot_rows, width=WIDTH)
    yield writer, reader
    for end in (writer.published, writer.released, reader.published, reader.released):
        end.close()


def rows(value: float) -> np.ndarray:
    return np.full((ENVS, WIDTH), value, dtype=np.float32)


def write(writer: IngressWriter, value: float) -> None:
    assert writer.reserve(timeout_s=5.0)
    writer.write(rows(value))


def taken(reader: IngressReader) -> list[float]:
    values: list[float] = []
    reader.take(lambda slot: values.append(float(slot[0, 0])))
    return values


def test_slots_arrive_once_and_in_order(ends: Ends) -> None:
    writer, reader = ends
    received: list[float] = []
    for value in range(7):
        write(writer, value)
        if value % 2:
            received += taken(reader)
    received += taken(reader)

    assert received == [0, 1, 2, 3, 4, 5, 6]
    assert taken(reader) == []


def test_sequences_count_environment_steps(ends: Ends) -> None:
    writer, reader = ends
    write(writer, 1)
    write(writer, 2)
    taken(reader)
    write(writer, 3)

    gauges = reader.ring.gauges()
    assert (gauges.published, gauges.released, gauges.occupancy) == (3, 2, 1)
    assert gauges.high_water == 2
    assert gauges.depth == 2
    assert reader.env_steps() == 3 * ENVS


def test_a_full_ring_makes_the_writer_wait_and_counts_it(ends: Ends) -> None:
    writer, reader = ends
    write(writer, 1)
    write(writer, 2)

    assert not writer.reserve(timeout_s=0.02)
    gauges = reader.ring.gauges()
    assert gauges.backpressure_waits == 1
    assert gauges.backpressure_wait_ms >= 15.0
    assert gauges.dropped_batches == 0
    taken(reader)
    assert writer.reserve(timeout_s=0.0)


def test_a_release_wakes_a_waiting_writer(ends: Ends) -> None:
    writer, reader = ends
    write(writer, 1)
    write(writer, 2)
    releasing = threading.Timer(0.05, taken, [reader])
    releasing.start()

    assert writer.reserve(timeout_s=30.0)
    releasing.join()


def test_an_unhindered_writer_reports_no_backpressure(ends: Ends) -> None:
    writer, reader = ends
    write(writer, 1)

    assert reader.ring.gauges().backpressure_waits == 0
    assert reader.ring.gauges().backpressure_wait_ms == 0.0


def test_a_slot_of_two_ticks_is_published_when_it_is_full(two_tick_ends: Ends) -> None:
    writer, reader = two_tick_ends
    write(writer, 1)
    assert taken(reader) == []
    write(writer, 2)

    slots: list[np.ndarray] = []
    reader.take(lambda slot: slots.append(slot.copy()))
    assert [slot[:, 0].tolist() for slot in slots] == [[1.0, 1.0, 2.0, 2.0]]
    assert reader.env_steps() == 2 * ENVS


def test_a_stop_ends_the_wait_and_counts_the_batch_as_dropped(ends: Ends) -> None:
    writer, reader = ends
    write(writer, 1)
    write(writer, 2)
    reader.stop()

    with pytest.raises(StoppedError):
        writer.reserve(timeout_s=30.0)
    assert reader.ring.gauges().dropped_batches == 1


def test_a_stopped_ring_still_takes_what_fits(ends: Ends) -> None:
    writer, reader = ends
    reader.stop()
    write(writer, 1)

    assert taken(reader) == [1.0]
    assert reader.ring.gauges().dropped_batches == 0


def test_a_reader_that_is_gone_ends_the_wait(ends: Ends) -> None:
    writer, reader = ends
    write(writer, 1)
    write(writer, 2)
    reader.released.close()

    with pytest.raises(PeerLostError):
        writer.reserve(timeout_s=30.0)
