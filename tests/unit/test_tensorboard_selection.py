"""What of the history reaches a backend, and at which step."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np
import pytest

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.write.items import Image, Item, Restart, Scalar, Scalars, Text
from unilab_metrics.write.position import Position, decode_position, encode_position
from unilab_metrics.write.selection import MAX_WAITING, Selection
from unilab_schema.frames import BlobFrame, EventFrame, Point, PointsFrame
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.metrics import TERMINAL_ONLY
from unilab_schema.updates import (
    AttemptOpened,
    BlobUpdate,
    EventUpdate,
    PointsUpdate,
    RunEnded,
    Supplement,
    Update,
)

LEARNER = SourceKey(0, "learner")


class History:
    """Numbers records as an aggregator does."""

    def __init__(self) -> None:
        self.records: list[HistoryRecord] = []
        self.attempt = 0

    def add(self, entry: Any, tags: tuple[str, ...] = ()) -> HistoryRecord:
        record = HistoryRecord(len(self.records) + 1, entry, tags)
        self.records.append(record)
        return record

    def open(self, algorithm: str = "ppo", axis: Any = "iteration") -> HistoryRecord:
        self.attempt += 1
        run = RunInfo(algorithm=algorithm, step_axis=axis)
        return self.add(AttemptOpened(self.attempt, 1, run))

    def update(
        self, iteration: int, values: dict[str, float] | None = None, env_steps: int | None = None
    ) -> HistoryRecord:
        values = {"Loss/value": float(iteration)} if values is None else values
        packed = struct.pack(f"<{len(values)}d", *values.values())
        entry = Update(
            self.attempt, iteration, env_steps, iteration, 0, iteration * 1.5, 1, 1, 0, packed
        )
        return self.add(entry, tuple(values))

    def supplement(self, iteration: int, attempt: int | None = None) -> HistoryRecord:
        number = self.attempt if attempt is None else attempt
        packed = struct.pack("<d", 0.5)
        return self.add(Supplement(number, iteration, None, 1, 0, 0.0, 0, packed), ("Loss/late",))

    def event(self, kind: str = "status", text: str = "x") -> HistoryRecord:
        return self.add(EventUpdate(self.attempt, LEARNER, EventFrame(kind, text, 0, 7)))

    def point(self, step: int) -> HistoryRecord:
        frame = PointsFrame((Point("eval/score", 1.0, step, 9),))
        return self.add(PointsUpdate(self.attempt, LEARNER, frame))

    def chunk(self, blob: int, part: int, parts: int, kind: Any = "text") -> HistoryRecord:
        frame = BlobFrame(blob, kind, f"blob/{blob}", 3, 5, b"%d" % part, part, parts, "image/png")
        return self.add(BlobUpdate(self.attempt, LEARNER, frame))

    def end(self) -> HistoryRecord:
        return self.add(RunEnded(self.attempt, "completed", 1))


@pytest.fixture
def history() -> History:
    return History()


def take(history: History, selection: Selection | None = None, after: int = 0) -> list[Item]:
    selection = selection or Selection(Position())
    return [
        item
        for record in history.records
        if record.sequence > after
        for item in selection.take(record)
    ]


def steps(items: list[Item]) -> list[int]:
    return [item.step for item in items if isinstance(item, Scalars)]


def test_the_step_is_the_iteration_for_an_on_policy_run(history: History) -> None:
    history.open()
    for iteration in range(3):
        history.update(iteration, env_steps=640 * (iteration + 1))
    assert steps(take(history)) == [0, 1, 2]


def test_the_step_is_env_steps_and_the_iteration_while_they_stand_at_zero(
    history: History,
) -> None:
    history.open("sac", "env_steps")
    values = {"Loss/actor": 1.0, "Train/iteration": 1.0}
    history.update(1, values, env_steps=None)
    history.update(2, values, env_steps=0)
    history.update(3, values, env_steps=96)
    history.update(4, values, env_steps=96)
    items = take(history)
    assert steps(items) == [1, 2, 96, 96]
    assert [item.tags for item in items if isinstance(item, Scalars)] == [
        ("Loss/actor",),
        ("Loss/actor",),
        ("Loss/actor", "Train/iteration"),
        ("Loss/actor", "Train/iteration"),
    ]


def test_the_step_is_whole_elapsed_seconds_on_the_time_axis(history: History) -> None:
    history.open("ppo", "wall_time")
    for iteration in range(3):
        history.update(iteration)
    assert steps(take(history)) == [0, 1, 3]


def test_a_step_never_falls_when_nobody_counts_any_more(history: History) -> None:
    history.open("sac", "env_steps")
    history.update(1, env_steps=64)
    history.update(2, env_steps=None)
    assert steps(take(history)) == [64, 64]


def test_terminal_only_tags_and_foreign_phases_reach_no_backend(history: History) -> None:
    history.open("sac", "env_steps")
    tags = [
        *TERMINAL_ONLY,
        "Perf/learner_replay_stage_ms",
        "Perf/learner_weight_publish_ms",
        "Perf/collection_time",
        "Perf/collector_mlp_infer_ms",
    ]
    kept = {"Perf/learner_inference_ms": 1.0, "mine/own": float("nan"), "Perf/learning_time": 2.0}
    history.update(1, {**dict.fromkeys(tags, 0.0), **kept}, env_steps=1)
    (item,) = take(history)
    assert isinstance(item, Scalars)
    assert item.tags == tuple(kept)
    np.testing.assert_array_equal(item.values, list(kept.values()))


def test_an_algorithm_without_a_profile_keeps_every_phase(history: History) -> None:
    history.open("mine")
    values = {"Perf/learner_replay_stage_ms": 1.0, "Perf/collector_mlp_infer_ms": 2.0}
    history.update(0, values)
    (item,) = take(history)
    assert isinstance(item, Scalars)
    assert item.tags == tuple(values)


def test_an_update_of_terminal_only_tags_yields_nothing(history: History) -> None:
    history.open()
    history.update(0, {"Terminal/num_envs": 1.0})
    selection = Selection(Position())
    assert take(history, selection) == []
    assert selection.position.update == 2


def test_a_supplement_lands_on_the_step_of_its_iteration(history: History) -> None:
    history.open("sac", "env_steps")
    history.update(1, env_steps=640)
    history.supplement(1)
    assert steps(take(history)) == [640, 640]


def test_points_keep_their_own_steps(history: History) -> None:
    history.open()
    history.update(5)
    history.point(3)
    assert take(history)[1:] == [Scalar(3, 9, "eval/score", 1.0)]


def test_the_configuration_is_text_and_other_events_are_not(history: History) -> None:
    history.open()
    history.event("status")
    history.event("config", "algo: sac")
    assert take(history) == [Text(0, 7, "config", "```\nalgo: sac\n```")]


def test_a_configuration_of_fields_only_becomes_json(history: History) -> None:
    history.open()
    frame = EventFrame("config", "", 0, 7, None, {"algo.lr": 0.1})
    history.add(EventUpdate(1, LEARNER, frame))
    (item,) = take(history)
    assert isinstance(item, Text)
    assert '"algo.lr": 0.1' in item.text


@pytest.mark.parametrize("interval", [1, 3, 100])
def test_log_interval_thins_and_always_writes_the_last_iteration(
    history: History, interval: int
) -> None:
    history.open()
    for iteration in range(20):
        history.update(iteration)
    history.supplement(19)
    history.supplement(18)
    history.end()
    selection = Selection(Position(), interval)
    written = steps(take(history, selection))
    expected = [step for step in range(20) if step % interval == 0 or step == 19]
    late = [19] + [18] * (18 % interval == 0)
    assert written == expected + late
    assert selection.position.update == len(history.records)


def test_log_interval_writes_the_last_iteration_of_every_attempt(history: History) -> None:
    for _ in range(2):
        history.open()
        for iteration in range(5):
            history.update(iteration)
    history.end()
    items = take(history, Selection(Position(), 3))
    assert [item.step for item in items] == [0, 3, 4, 0, 0, 3, 4]
    assert isinstance(items[3], Restart)


def test_the_position_does_not_cover_an_update_that_may_be_the_last(history: History) -> None:
    history.open()
    history.update(0)
    skipped = history.update(1)
    history.point(1)
    selection = Selection(Position(), 10)
    take(history, selection)
    assert selection.position.update == skipped.sequence - 1


def test_a_long_wait_for_the_next_iteration_is_bounded(history: History) -> None:
    history.open()
    history.update(0)
    history.update(1)
    for step in range(MAX_WAITING):
        history.point(step)
    selection = Selection(Position(), 10)
    assert len(take(history, selection)) == MAX_WAITING + 2
    assert selection.position.update == len(history.records)


def test_a_resume_at_an_older_step_restarts_before_anything_of_the_new_attempt(
    history: History,
) -> None:
    history.open()
    for iteration in range(150):
        history.update(iteration)
    history.open()
    history.event("config", "second")
    history.point(120)
    history.update(100)
    history.update(101)
    items = take(history)[150:]
    assert items[0] == Restart(100, 100)
    assert [item.step for item in items[1:]] == [0, 120, 100, 101]


def test_a_resume_at_the_next_iteration_does_not_restart(history: History) -> None:
    history.open("sac", "env_steps")
    history.update(1, env_steps=64)
    history.open("sac", "env_steps")
    history.update(2, env_steps=64)
    assert [type(item) for item in take(history)] == [Scalars, Scalars]


def test_a_counter_that_starts_anew_restarts(history: History) -> None:
    history.open("sac", "env_steps")
    history.update(10, env_steps=640)
    history.open("sac", "env_steps")
    history.update(11, env_steps=64)
    assert take(history)[1:2] == [Restart(64, 11)]


def test_values_of_an_earlier_attempt_after_a_restart_are_counted_not_written(
    history: History,
) -> None:
    history.open()
    for iteration in range(3):
        history.update(iteration)
    history.open()
    history.supplement(2, attempt=1)
    history.update(1)
    history.supplement(2, attempt=1)
    selection = Selection(Position())
    assert [item.step for item in take(history, selection)] == [0, 1, 2, 1, 1]
    assert selection.stale_values == 2


def test_an_attempt_that_ended_before_its_first_update_loses_nothing(history: History) -> None:
    history.open()
    history.update(0)
    history.open()
    history.event("config", "second")
    history.end()
    history.open()
    history.point(1)
    selection = Selection(Position())
    assert [type(item) for item in take(history, selection)] == [Scalars, Text]
    assert selection.position.update == 6


def test_chunks_become_a_blob_only_when_whole(history: History) -> None:
    history.open()
    history.chunk(1, 0, 3, "image")
    history.chunk(2, 0, 2)
    history.chunk(1, 1, 3, "image")
    history.chunk(2, 1, 2)
    history.chunk(1, 2, 3, "image")
    history.chunk(3, 0, 1, "json")
    assert take(history) == [
        Text(3, 5, "blob/2", "01"),
        Image(3, 5, "blob/1", b"012", "image/png"),
        Text(3, 5, "blob/3", "```\n0\n```"),
    ]


@pytest.mark.parametrize("cut", range(1, 12))
def test_going_on_from_any_position_writes_everything_once(history: History, cut: int) -> None:
    history.open("sac", "env_steps")
    history.chunk(1, 0, 2)
    history.update(1, env_steps=8)
    history.chunk(2, 0, 3)
    history.chunk(1, 1, 2)
    history.chunk(2, 1, 3)
    history.update(2, env_steps=16)
    history.chunk(2, 2, 3)
    history.open("sac", "env_steps")
    history.event("config", "second")
    history.update(1, env_steps=8)
    history.end()
    whole = take(history)

    first = Selection(Position())
    before = [item for record in history.records[:cut] for item in first.take(record)]
    position = decode_position(encode_position(first.position))
    resumed = take(history, Selection(position), after=min(position.replay, position.update))
    assert [_comparable(item) for item in before + resumed] == list(map(_comparable, whole))


def _comparable(item: Item) -> Any:
    return tuple(part.tolist() if isinstance(part, np.ndarray) else part for part in item)


def test_a_blob_whose_source_died_is_given_up_with_the_attempt(history: History) -> None:
    history.open()
    history.chunk(1, 0, 2)
    history.end()
    selection = Selection(Position())
    take(history, selection)
    assert selection.given_up_blobs == 1
    history.open()
    history.update(0)
    history.end()
    take(history, selection, after=3)
    assert selection.given_up_blobs == 1
    assert selection.position.replay == selection.position.update == 6


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_blob_whose_rest_is_found_after_the_end_is_whole(history: History, cut: int) -> None:
    history.open()
    history.chunk(1, 0, 2)
    history.end()
    history.event("reopened", "more has come")
    history.chunk(1, 1, 2)
    history.end()
    first = Selection(Position())
    items = [item for record in history.records[:cut] for item in first.take(record)]
    resumed = Selection(decode_position(encode_position(first.position)))
    items += take(history, resumed, after=min(first.position.replay, first.position.update))
    assert items == [Text(3, 5, "blob/1", "01")]
    assert resumed.given_up_blobs == 0


def test_another_history_starts_from_its_beginning_and_restarts(history: History) -> None:
    position = Position(update=500, replay=500, journal="aa", attempt=3, iteration=99, step=99)
    selection = Selection(position.of_journal("bb"))
    history.open()
    history.update(0)
    assert take(history, selection)[0] == Restart(0, 0)
    assert selection.position.journal == "bb"


def test_a_position_survives_its_text_form() -> None:
    position = Position(update=5, replay=4, journal="00ff", algorithm="sac", iteration=None)
    assert decode_position(encode_position(position)) == position
    with pytest.raises(msgspec.MsgspecError):
        decode_position("{")
