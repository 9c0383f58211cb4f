"""What a publisher's calls leave in its spool."""

from __future__ import annotations

import math
import struct
import time
from typing import Any, cast

import numpy as np
import pytest
from spooled import Make, of_kind, payloads_of, values_of, warnings_of

from unilab_metrics.publish.scalars import Mean
from unilab_schema.codec import MAX_STEP, RecordKind

torch = pytest.importorskip("torch")


def test_an_iteration_frame_holds_what_was_logged(make: Make) -> None:
    publisher = make()
    before = (time.monotonic_ns(), time.time_ns())
    publisher.log({"a": 1.5, "b": 2}, iteration=3, env_steps=640)
    (frame,) = of_kind(publisher, RecordKind.ITERATION)
    assert (frame.iteration, frame.env_steps, frame.more) == (3, 640, False)
    assert before[0] <= frame.mono_ns <= time.monotonic_ns()
    assert before[1] <= frame.unix_ns <= time.time_ns()
    assert frame.values == struct.pack("<2d", 1.5, 2.0)
    assert frame.weights == b""
    assert values_of(publisher) == [{"a": 1.5, "b": 2.0}]
    assert publisher.dropped == {}


def test_a_key_set_is_announced_before_its_first_frame_only(make: Make) -> None:
    publisher = make()
    for iteration in range(3):
        publisher.log({"a": iteration}, iteration=iteration)
    kinds = [kind for _, kind, _ in payloads_of(publisher)]
    assert kinds == [RecordKind.LAYOUT, *[RecordKind.ITERATION] * 3]


def test_bad_values_are_skipped_counted_and_named_once(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    publisher = make(strict=False)
    for iteration in range(3):
        publisher.log(
            {"loss": 1.0, "status": "ok", "n": None, "v": torch.zeros(2)}, iteration=iteration
        )
    assert values_of(publisher) == [{"loss": 1.0}] * 3
    assert publisher.dropped == {"bad_value": 9}
    named = warnings_of(publisher)
    assert len(named) == 3
    assert [text.split(":")[0] for text in named] == ["status", "n", "v"]
    assert capsys.readouterr() == ("", "")


def test_bad_values_are_no_error_in_strict_mode_either(make: Make) -> None:
    publisher = make(strict=True)
    publisher.log({"Loss/actor": 1.0, "Loss/critic": "high"}, iteration=0)
    assert values_of(publisher) == [{"Loss/actor": 1.0}]
    assert publisher.dropped == {"bad_value": 1}


def test_numpy_scalars_and_tensors_are_numbers(make: Make) -> None:
    publisher = make()
    publisher.log(
        {
            "a": np.float64(1.5),
            "b": np.float32(2.5),
            "c": np.int64(5),
            "d": np.bool_(True),
            "e": torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True),
            "f": torch.tensor([7]),
            "g": 10**400,
            "h": math.nan,
        },
        iteration=0,
    )
    (values,) = values_of(publisher)
    assert math.isnan(values.pop("h"))
    assert values == {"a": 1.5, "b": 2.5, "c": 5, "d": 1, "e": 0.5, "f": 7, "g": math.inf}


def test_dict_and_tensors_may_change_right_after_the_call(make: Make) -> None:
    publisher = make()
    values: dict[str, Any] = {"a": torch.tensor(1.0), "b": np.array([2.0])}
    publisher.log(values, iteration=0)
    values["a"].fill_(9.0)
    values["b"][0] = 9.0
    values.clear()
    assert values_of(publisher) == [{"a": 1.0, "b": 2.0}]


def test_partials_carry_weights(make: Make) -> None:
    publisher = make()
    publisher.log({"x": Mean(5.0, 5), "y": 3.0, "none": Mean(0, 0)}, iteration=0)
    (frame,) = of_kind(publisher, RecordKind.ITERATION)
    assert np.frombuffer(frame.values, "<f8").tolist() == [5.0, 3.0]
    assert np.frombuffer(frame.weights, "<f8").tolist() == [5.0, 1.0]
    assert publisher.dropped == {}


@pytest.mark.parametrize("step", [3, 3.0, np.int64(3), torch.tensor(3)])
def test_integral_iterations_of_any_type_are_the_same(make: Make, step: Any) -> None:
    publisher = make()
    publisher.log({"a": 1.0}, iteration=step, env_steps=step)
    (frame,) = of_kind(publisher, RecordKind.ITERATION)
    assert (frame.iteration, frame.env_steps) == (3, 3)


def test_a_step_counter_beyond_the_limit_costs_only_itself(make: Make) -> None:
    publisher = make()
    publisher.log({"a": 1.0}, iteration=1, env_steps=2**63 - 1)
    publisher.log({"a": 2.0}, iteration=2, env_steps=MAX_STEP)
    frames = of_kind(publisher, RecordKind.ITERATION)
    assert [(frame.iteration, frame.env_steps) for frame in frames] == [(1, None), (2, MAX_STEP)]
    assert values_of(publisher) == [{"a": 1.0}, {"a": 2.0}]
    assert sum(publisher.dropped.values()) == 1


@pytest.mark.parametrize("step", [3.7, "4", 2**63, math.nan, -1])
def test_other_iterations_are_refused_and_counted(make: Make, step: Any) -> None:
    publisher = make()
    publisher.log({"a": 1.0}, iteration=step)
    publisher.point("p", 1.0, step=0.5)
    assert of_kind(publisher, RecordKind.ITERATION) == []
    assert of_kind(publisher, RecordKind.POINTS) == []
    assert publisher.dropped == {"bad_step": 2}


def test_a_bad_env_steps_counter_does_not_cost_the_frame(make: Make) -> None:
    publisher = make()
    publisher.log({"a": 1.0}, iteration=0, env_steps=1.5)
    (frame,) = of_kind(publisher, RecordKind.ITERATION)
    assert frame.env_steps is None
    assert publisher.dropped == {"bad_step": 1}


def test_unpaired_surrogates_are_replaced(make: Make) -> None:
    publisher = make()
    for iteration in range(2):
        publisher.log({"a\ud800": 1, "b": 2}, iteration=iteration)
    assert values_of(publisher) == [{"a\ufffd": 1.0, "b": 2.0}] * 2
    assert len(warnings_of(publisher)) == 1
    publisher.event("status", "\udc80 text", note="\ud800")
    publisher.text("t\ud800", "\ud800")
    assert publisher.dropped == {}


def test_useless_tags_are_refused_without_losing_the_others(make: Make) -> None:
    publisher = make()
    publisher.log({"": 1.0, 7: 2.0, "x" * 600: 3.0, "reward/mean": 4.0, "a": 5.0}, iteration=0)  # type: ignore[dict-item]
    assert values_of(publisher) == [{"a": 5.0}]
    assert publisher.dropped == {"bad_tag": 4}


@pytest.mark.parametrize("tag", ["my/thing", "Perf/iteration_time", "reward/mean", ""])
def test_strict_mode_refuses_tags_at_the_call(make: Make, tag: str) -> None:
    publisher = make(strict=True)
    with pytest.raises(ValueError, match=tag or "empty"):
        publisher.log({"Loss/actor": 1.0, tag: 1.0}, iteration=0)
    publisher.log({"Loss/actor": 1.0}, iteration=0)
    assert len(values_of(publisher)) == 1


def test_a_tag_that_is_no_string_is_named_as_it_is(make: Make) -> None:
    publisher, no_tag = make(), cast("Any", 3)
    publisher.log({no_tag: 1.0, "Loss/a": 1.0}, iteration=1)
    publisher.point(cast("Any", (1, 2)), 1.0, 1)
    assert warnings_of(publisher) == ["tag 3: must be a string", "tag (1, 2): must be a string"]
    with pytest.raises(ValueError, match=r"^tag 3: must be a string$"):
        make(strict=True).log({no_tag: 1.0}, iteration=1)


def test_strict_mode_takes_what_was_defined(make: Make) -> None:
    publisher = make(strict=True)
    publisher.define_metric("my/*", over_ranks="sum", over_time="max", unit="m")
    publisher.log({"my/thing": 1.0, "reward/run": 2.0, "Loss/aux_x": 3.0}, iteration=0)
    (definition,) = of_kind(publisher, RecordKind.DEFINITION)
    assert definition.spec.over_ranks == "sum"
    assert len(values_of(publisher)) == 1
    with pytest.raises(ValueError, match="redefined"):
        publisher.define_metric("Loss/actor")
    with pytest.raises(ValueError, match="product"):
        publisher.define_metric("x", over_ranks="product")  # type: ignore[arg-type]


def test_strict_mode_refuses_a_tag_twice_in_one_iteration(make: Make) -> None:
    publisher = make(strict=True)
    publisher.log({"Loss/actor": 1.0}, iteration=1, more=True)
    publisher.log({"Loss/critic": 1.0}, iteration=1, more=True)
    with pytest.raises(ValueError, match="Loss/actor"):
        publisher.log({"Loss/actor": 2.0}, iteration=1)
    publisher.log({"Loss/actor": 1.0}, iteration=2)


def test_open_mode_takes_duplicates_and_logger_owned_tags(make: Make) -> None:
    publisher = make()
    publisher.start_iteration()
    publisher.log({"a": 1.0}, iteration=1, more=True)
    publisher.log({"a": 2.0, "Perf/iteration_time": 0.25}, iteration=1)
    assert values_of(publisher) == [{"a": 1.0}, {"a": 2.0, "Perf/iteration_time": 0.25}]


def test_values_without_a_number_join_the_newest_iteration(make: Make) -> None:
    publisher = make()
    publisher.log({"a": 1.0}, iteration=5)
    publisher.log({"b": 1.0})
    publisher.log({"c": 1.0}, iteration=5)
    assert [f.iteration for f in of_kind(publisher, RecordKind.ITERATION)] == [5, 5, 5]


def test_wall_and_throughput_join_the_completing_call(make: Make) -> None:
    publisher = make()
    publisher.start_training(env_steps=100)
    publisher.start_iteration()
    with publisher.phase("learning"):
        time.sleep(0.002)
    publisher.log({"a": 1.0}, iteration=1, env_steps=164, more=True)
    publisher.log({"b": 1.0}, iteration=1)
    first, second = values_of(publisher)
    assert first == {"a": 1.0}
    wall = second["Perf/iteration_time"]
    assert second["Perf/total_fps"] == pytest.approx(64 / wall)
    assert 0.002 <= second["Perf/learning_time"] <= wall
    assert second["Perf/learner_replay_sample_ms"] == 0.0
    (started,) = of_kind(publisher, RecordKind.EVENT)
    assert (started.kind, started.data) == ("training_started", {"env_steps": 100})


def test_late_values_carry_no_timing(make: Make) -> None:
    publisher = make()
    publisher.start_iteration()
    publisher.log({"a": 1.0}, iteration=1)
    publisher.start_iteration()
    publisher.log({"late": 1.0}, iteration=1)
    publisher.log({"a": 1.0}, iteration=2)
    assert ["Perf/iteration_time" in values for values in values_of(publisher)] == [
        True,
        False,
        True,
    ]


def test_own_values_are_not_marked_as_already_reduced(make: Make) -> None:
    publisher = make()
    publisher.start_iteration()
    publisher.log({"a": 1.0}, iteration=1, already_reduced=True)
    own, caller = of_kind(publisher, RecordKind.ITERATION)
    assert (own.already_reduced, own.more) == (False, True)
    assert (caller.already_reduced, caller.more) == (True, False)


def test_an_empty_call_still_completes_its_iteration(make: Make) -> None:
    publisher = make()
    publisher.log({}, iteration=4)
    (frame,) = of_kind(publisher, RecordKind.ITERATION)
    assert (frame.iteration, frame.more, frame.values) == (4, False, b"")


def test_12345_tags_are_frames_joined_by_more(make: Make) -> None:
    publisher = make()
    values = {f"family/member_{n}": float(n) for n in range(12_345)}
    publisher.log(values, iteration=0)
    frames = of_kind(publisher, RecordKind.ITERATION)
    assert [frame.more for frame in frames] == [True, True, True, False]
    merged: dict[str, float] = {}
    for part in values_of(publisher):
        merged.update(part)
    assert merged == values


def test_ever_changing_key_sets_are_numbered_per_tag(make: Make) -> None:
    publisher = make()
    for iteration in range(200):
        publisher.log({f"t{iteration}": 1.0, "x": iteration}, iteration=iteration)
    assert values_of(publisher) == [{f"t{n}": 1.0, "x": float(n)} for n in range(200)]
    assert len(of_kind(publisher, RecordKind.SPARSE)) == 136
