"""Arguments of ``init()`` and ``connect()``: what can never be right raises, before anything is
made; what is taken, the other side takes too."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unilab_metrics as um
from unilab_metrics.aggregate.folding.limits import identity_fault
from unilab_metrics.publish.opening import new_identity, open_publisher
from unilab_metrics.run import arguments, session
from unilab_schema.codec import MAX_STEP, RecordKind, decode_payload, encode_payload
from unilab_schema.identity import (
    MAX_INSTANCES,
    MAX_NAME_CHARS,
    MAX_RANKS,
    MAX_RUN_CHARS,
    Identity,
    RunInfo,
    SourceKey,
)

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"step_axis": "global_step"}, "no step axis 'global_step'; .* iteration, env_steps, wall_t"),
    ({"step_axis": ""}, "no step axis ''"),
    ({"step_axis": 3}, "no step axis 3"),
    ({"rank": "a"}, "rank 'a': must be a whole number from 0 to 65535"),
    ({"rank": -1}, "rank -1"),
    ({"rank": True}, "rank True"),
    ({"rank": 1.5}, "rank 1.5"),
    ({"rank": MAX_RANKS}, "rank 65536"),
    ({"world_size": 0}, "world_size 0: must be a whole number from 1 to 65536"),
    ({"world_size": "2"}, "world_size '2'"),
    ({"rank": 2, "world_size": 2}, "rank 2 does not lie in a world of 2"),
    ({"expected_learners": -1}, "expected_learners -1"),
    ({"expected_learners": 3, "world_size": 2}, "expected_learners 3 of a world of 2"),
    ({"role": ""}, "role ''"),
    ({"role": None}, "role None: must be a string"),
    ({"role": "x" * (MAX_NAME_CHARS + 1)}, "role of 257 characters; the limit is 256"),
    ({"instance": -1}, "instance -1"),
    ({"instance": None}, "instance None"),
    ({"instance": "0"}, "instance '0'"),
    ({"algorithm": None}, "algorithm None: must be a string"),
    ({"algorithm": "x" * (MAX_RUN_CHARS + 1)}, "algorithm of 4097 characters; the limit is 4096"),
    ({"algorithm": "\ud800"}, "algorithm .*: holds halves of characters"),
    ({"task": 3}, "task 3"),
    ({"sim_backend": b"mujoco"}, "sim_backend b'mujoco'"),
    ({"max_iterations": -1}, "max_iterations -1"),
    ({"max_iterations": 1.5}, "max_iterations 1.5"),
    ({"max_iterations": 2 * MAX_STEP}, "max_iterations"),
    ({"max_iterations": float("inf")}, "max_iterations inf"),
    ({"strict": "yes"}, "strict 'yes': must be True or False"),
    ({"log_interval": 0}, "log_interval 0"),
    ({"log_interval": None}, "log_interval None"),
    ({"backends": None}, "backends None: must be a list of names"),
    ({"backends": [None]}, "no backend None; there are: tensorboard"),
    ({"bind": 5555}, "bind 5555: must be a string"),
    ({"bind": "nowhere"}, "bind: "),
    ({"sidecar": "always"}, "no sidecar 'always'; there are: "),
    ({"alerts": ["Loss/a"]}, "alert rule 'Loss/a', position 7: expected one of"),
    ({"alerts": "Loss/a > 1"}, "alerts must be a list of texts"),
    ({"alert_webhook": "example.org"}, "the alert webhook must be a URL"),
    ({"reward_tag": 3}, "reward_tag 3: must be a string"),
    ({"run_dir": 3}, "run_dir 3: must be a path"),
    ({"run_dir": "a\0b"}, "run_dir .*: a path holds no null character"),
    ({"log_root": b"logs"}, "log_root b'logs'"),
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("mistake", "text"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_value_that_can_never_be_right_raises_in_every_mode(
    mistake: dict[str, Any], text: str, strict: bool, tmp_path: Path
) -> None:
    given = {"log_root": tmp_path, "strict": strict, **mistake}
    with pytest.raises(ValueError, match=text):
        um.init(**given)
    known = inspect.signature(um.connect).parameters
    if mistake.keys() <= known.keys() and None not in mistake.values():
        with pytest.raises(ValueError, match=text):
            um.connect(**{"strict": strict, **mistake})
    assert list(tmp_path.iterdir()) == []


def test_every_argument_has_a_value_that_is_refused() -> None:
    refused = {name for mistake, _ in MISTAKES for name in mistake}
    assert refused == {*inspect.signature(um.init).parameters} - {"config"}


EXTREMES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    (
        {
            "algorithm": "\U0001f916" * MAX_RUN_CHARS,
            "task": "x" * MAX_RUN_CHARS,
            "sim_backend": "x" * MAX_RUN_CHARS,
            "step_axis": "wall_time",
            "max_iterations": float(MAX_STEP),
            "strict": np.bool_(True),
        },
        {"role": "r" * MAX_NAME_CHARS, "rank": MAX_RANKS - 1, "instance": MAX_INSTANCES - 1},
    ),
    (
        {"algorithm": "SAC", "max_iterations": np.int32(7), "strict": 1},
        {"rank": np.int64(3), "instance": np.uint8(2)},
    ),
]


@pytest.mark.parametrize(("run", "place"), EXTREMES)
def test_what_is_taken_the_other_side_takes(run: dict[str, Any], place: dict[str, Any]) -> None:
    said = arguments.run_info(**{"algorithm": "", "strict": False, **run})
    key, _ = arguments.source_key(**{"role": "learner", "rank": None, "instance": 0, **place})
    identity = new_identity(key, said, Path("/spools"), MAX_RANKS, "1")
    arrived = decode_payload(RecordKind.IDENTITY, encode_payload(identity))
    assert arrived == identity
    assert isinstance(arrived, Identity)
    assert identity_fault(arrived) == ""


def test_the_axis_follows_the_algorithm_unless_it_is_said() -> None:
    assert arguments.run_info(algorithm="SAC", strict=False).step_axis == "env_steps"
    assert arguments.run_info(algorithm="ppo", strict=False).step_axis == "iteration"
    said = arguments.run_info(algorithm="sac", step_axis="iteration", strict=False)
    assert said.step_axis == "iteration"


def test_an_identity_that_no_aggregator_would_read_gets_no_spool(tmp_path: Path) -> None:
    run = RunInfo(step_axis="global_step")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="identity: Invalid enum value 'global_step'"):
        open_publisher(
            SourceKey(0, "learner"), run, launch_directory=tmp_path, find_bus=lambda: None
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "said", [f"x > 1 for {'9' * 400} iterations", ";".join(f"x > {n}" for n in range(70)), "x"]
)
def test_a_mistake_in_the_rules_of_the_environment_is_warned_of_and_left_out(said: str):
    with pytest.warns(RuntimeWarning, match="UNILAB_METRICS_ALERTS"):
        kept = session._alerts(["a > 1"], {"UNILAB_METRICS_ALERTS": said})  # pyright: ignore[reportPrivateUsage]
    assert kept == ("a > 1",)


def test_rules_of_the_environment_beyond_what_a_run_may_have_are_left_out():
    own = [f"a > {n}" for n in range(40)]
    said = ";".join(f"b > {n}" for n in range(40))
    with pytest.warns(RuntimeWarning, match="at most 64"):
        kept = session._alerts(own, {"UNILAB_METRICS_ALERTS": said})  # pyright: ignore[reportPrivateUsage]
    assert kept == tuple(own)
