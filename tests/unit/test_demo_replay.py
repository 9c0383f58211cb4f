from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from unilab_metrics.demo.environment import StepResult
from unilab_metrics.demo.ingress import IngressReader, IngressWriter, create_ingress
from unilab_metrics.demo.replay import ReplayRing, as_batch
from unilab_metrics.demo.replay_sync import ReplaySync
from unilab_metrics.demo.transitions import TransitionLayout, pack

LAYOUT = TransitionLayout(observation_size=3, action_size=2)
SLOT_ROWS = 4


def rows(*values: float) -> np.ndarray:
    return np.repeat(np.array(values, dtype=np.float32)[:, None], LAYOUT.width, axis=1)


def drawn(replay: ReplayRing, count: int = 400) -> set[float]:
    out = torch.zeros((count, LAYOUT.width))
    replay.gather(out, torch.Generator().manual_seed(1))
    return set(out[:, 0].tolist())


def test_every_row_can_be_drawn_and_no_empty_one() -> None:
    replay = ReplayRing(10, LAYOUT)
    replay.append(rows(1, 2, 3))

    assert replay.size == 3
    assert drawn(replay) == {1.0, 2.0, 3.0}


def test_a_full_ring_forgets_the_oldest_rows() -> None:
    replay = ReplayRing(5, LAYOUT)
    replay.append(rows(1, 2, 3))
    replay.append(rows(4, 5, 6, 7))

    assert replay.size == 5
    assert drawn(replay) == {3.0, 4.0, 5.0, 6.0, 7.0}


def test_rows_unpack_into_what_was_packed() -> None:
    observations = np.arange(6, dtype=np.float32).reshape(2, 3)
    actions = np.array([[0.5, 0.25], [0.75, 0.125]], dtype=np.float32)
    result = StepResult(
        observations=observations + 100.0,
        final_observations=observations + 10.0,
        rewards=np.array([1.5, -2.5], dtype=np.float32),
        terminated=np.array([False, True]),
        timeouts=np.array([True, False]),
        terms={},
    )
    packed = pack(observations, actions, result)
    batch = as_batch(torch.from_numpy(packed), LAYOUT)

    assert packed.dtype == np.float32
    assert batch.observations.tolist() == observations.tolist()
    assert batch.actions.tolist() == actions.tolist()
    assert batch.rewards.tolist() == [1.5, -2.5]
    assert batch.next_observations.tolist() == (observations + 10.0).tolist()
    assert batch.terminated.tolist() == [0.0, 1.0]


Synced = tuple[IngressWriter, ReplaySync]


@pytest.fixture
def synced() -> Iterator[Synced]:
    context = multiprocessing.get_context("spawn")
    writer, reader = create_ingress(context, depth=2, slot_rows=SLOT_ROWS, width=LAYOUT.width)
    sync = ReplaySync(ReplayRing(64, LAYOUT), reader, batch_rows=32, seed=1)
    sync.start()
    yield writer, sync
    sync.close()
    _close(writer, reader)


def _close(writer: IngressWriter, reader: IngressReader) -> None:
    for end in (writer.published, writer.released, reader.published, reader.released):
        end.close()


def publish(writer: IngressWriter, value: float) -> None:
    assert writer.reserve(timeout_s=10.0)
    writer.write(rows(*[value] * SLOT_ROWS))


def test_published_slots_reach_the_replay_by_themselves(synced: Synced) -> None:
    writer, sync = synced
    for value in range(5):
        publish(writer, value)

    assert sync.wait_rows(5 * SLOT_ROWS, timeout_s=10.0)
    assert writer.ring.gauges().occupancy == 0
    assert sync.submit_ns is not None
    assert sync.submit_ns > 0


def test_the_last_span_is_unknown_before_the_first(synced: Synced) -> None:
    assert synced[1].submit_ns is None


def test_a_batch_is_gathered_ahead_and_stays_while_the_next_one_is(synced: Synced) -> None:
    writer, sync = synced
    publish(writer, 1.0)
    assert sync.wait_rows(SLOT_ROWS, timeout_s=10.0)
    sync.prefetch()
    assert sync.wait_gathered(timeout_s=10.0)
    first = sync.take()
    assert set(first[:, 0].tolist()) == {1.0}

    for _ in range(16):
        publish(writer, 2.0)
    while writer.ring.gauges().occupancy:
        threading.Event().wait(0.001)
    sync.prefetch()
    assert sync.wait_gathered(timeout_s=10.0)
    assert set(first[:, 0].tolist()) == {1.0}
    assert set(sync.take()[:, 0].tolist()) == {2.0}


def test_waiting_for_a_batch_that_nobody_asked_for_times_out(synced: Synced) -> None:
    assert not synced[1].wait_gathered(timeout_s=0.01)


def test_rows_of_a_collector_that_is_gone_are_kept(synced: Synced) -> None:
    writer, sync = synced
    publish(writer, 1.0)
    writer.published.close()

    assert sync.wait_rows(SLOT_ROWS, timeout_s=10.0)
    assert not sync.wait_rows(2 * SLOT_ROWS, timeout_s=10.0)
    assert sync.collector_gone


def test_closing_commits_what_is_published_and_ends_the_thread(synced: Synced) -> None:
    writer, sync = synced
    publish(writer, 1.0)
    sync.close()

    assert sync.rows == SLOT_ROWS
    assert not any(thread.name == "replay_device_sync" for thread in threading.enumerate())


def test_a_failure_of_the_thread_wakes_the_learner_and_is_kept(
    synced: Synced, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, sync = synced

    def broken(_rows: np.ndarray) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(sync._replay, "append", broken)
    publish(writer, 1.0)

    assert sync.wait_gathered(timeout_s=10.0)
    assert isinstance(sync.failure, MemoryError)
