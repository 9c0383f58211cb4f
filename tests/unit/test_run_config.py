"""``run_config.json`` takes any configuration and never ends a training because of one."""

from __future__ import annotations

import json
import math
import stat
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from unilab_metrics.run.tracker import plain_config, write_run_config
from unilab_schema.identity import RunInfo

STARTED = datetime(2026, 3, 9, 18, 30, 0, tzinfo=timezone.utc)


@dataclass
class Sizes:
    hidden: tuple[int, ...] = (256, 128)
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


class Options(msgspec.Struct):
    seed: int = 1


class Container:
    def to_dict(self) -> dict[str, Any]:
        return {"inner": Sizes()}


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_containers_of_every_kind_become_plain() -> None:
    plain = plain_config({"a": Sizes(), "b": Options(), "c": Container(), 4: {1, 2}})
    assert plain == {
        "a": {"hidden": [256, 128], "extra": {}},
        "b": {"seed": 1},
        "c": {"inner": {"hidden": [256, 128], "extra": {}}},
        "4": [1, 2],
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (2**70, str(2**70)),
        (np.float32(0.5), "0.5"),
        (Path("/logs"), "/logs"),
        ("\udc80", "?"),
        (b"x", "b'x'"),
        (Hostile(), "<Hostile>"),
        (None, None),
        (True, True),
    ],
)
def test_values_that_json_does_not_know_become_text(value: object, expected: object) -> None:
    assert plain_config({"x": value}) == {"x": expected}


def test_a_configuration_that_holds_itself_ends() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    assert json.dumps(plain_config(endless))


def test_no_configuration_and_no_mapping() -> None:
    assert plain_config(None) == {}
    assert plain_config(["a"]) == {"value": ["a"]}


def test_the_file(run_dir: Path) -> None:
    run_dir.chmod(0o750)
    run = RunInfo("sac", "Toy", "numpy", "env_steps", world_size=2)
    write_run_config(run_dir, run, plain_config({"algo": {"seed": 7}}), STARTED)
    path = run_dir / "run_config.json"
    content = json.loads(path.read_text())
    assert content["config"] == {"algo": {"seed": 7}}
    assert content["run"]["algo"] == "sac"
    assert content["run"]["sim_backend"] == "numpy"
    assert content["run"]["log_dir"] == str(run_dir)
    assert content["run"]["start_time_utc"] == "2026-03-09T18:30:00+00:00"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
