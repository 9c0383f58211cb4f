"""BR-15, BR-17, BR-21 and BR-43: tags as they are, and whatever a training calls a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from case_runs import ended, run, scalars
from real_runs import only_run

from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.updates import EventUpdate

HEAD = """
import json, math, sys
import numpy as np
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", sim_backend="numpy", log_root=sys.argv[1])
"""
TAIL = """
assert publisher.close(90), publisher.errors
print(json.dumps(publisher.dropped))
"""


def train(logs: Path, body: str) -> tuple[Path, dict[str, int]]:
    dropped = json.loads(run(HEAD + body + TAIL, logs))
    run_dir = only_run(logs)
    ended(run_dir)
    return run_dir, dropped


def dropped_in_summary(run_dir: Path) -> Any:
    summary = read_summary(run_dir)
    assert summary is not None
    return summary["bus"]["dropped_calls"]


def warnings_of(run_dir: Path) -> list[str]:
    with HistoryReader(bus_directory(run_dir)) as reader:
        entries = [record.entry for record in reader.poll(10_000)]
    events = [entry.frame for entry in entries if isinstance(entry, EventUpdate)]
    return [event.text for event in events if event.kind == "warning"]


def test_br15_tags_are_written_unchanged_and_stay_distinct(tmp_path: Path) -> None:
    run_dir, dropped = train(
        tmp_path,
        """
publisher.log({"Episode / Total timesteps (mean)": 1.0, "reward[0]": 2.0, "reward(0)": 3.0,
               "/lead": 4.0, "../up": 5.0, "": 6.0}, iteration=0)
publisher.point("point [1]/(x)", 7.0, step=1)
""",
    )
    # The empty tag is refused and named; a leading slash or dots are data, never a path.
    assert dropped == {"bad_tag": 1}
    assert dropped_in_summary(run_dir) == dropped
    assert scalars(run_dir) == {
        "Episode / Total timesteps (mean)": [(0, 1.0)],
        "reward[0]": [(0, 2.0)],
        "reward(0)": [(0, 3.0)],
        "/lead": [(0, 4.0)],
        "../up": [(0, 5.0)],
        "point [1]/(x)": [(1, 7.0)],
    }
    assert len(list(run_dir.glob("**/*tfevents*"))) == 1
    assert list(tmp_path.glob("**/up*")) == []


def test_br17_values_that_are_no_numbers_are_skipped_counted_and_named_once(
    tmp_path: Path,
) -> None:
    run_dir, dropped = train(
        tmp_path,
        """
import torch
for iteration in range(3):
    bad = {"status": "ok", "n": None, "v": torch.zeros(2)} if iteration == 0 else {}
    publisher.log({"loss": 1.0, **bad}, iteration=iteration)
publisher.log({"loss": 1.0, "status": "still", "c": 1j}, iteration=3)
""",
    )
    assert dropped == {"bad_value": 5}
    assert dropped_in_summary(run_dir) == dropped
    assert scalars(run_dir) == {"loss": [(iteration, 1.0) for iteration in range(4)]}
    named = [text.split(":")[0] for text in warnings_of(run_dir)]
    assert sorted(named) == ["c", "n", "status", "v"]


def test_br21_integral_steps_of_any_type_are_the_same_and_others_are_refused(
    tmp_path: Path,
) -> None:
    run_dir, dropped = train(
        tmp_path,
        """
import torch
for n, step in enumerate([3, 3.0, np.int64(3), torch.tensor(3), np.float32(3), torch.tensor([3.0])]):
    publisher.point(f"good/{n}", 1.0, step=step)
publisher.point("large", 1.0, step=4096.0)
for n, step in enumerate([3.7, "4", 2**63, math.nan, math.inf, None, True, [3]]):
    publisher.point(f"bad/{n}", 1.0, step=step)
for iteration in (0, 1.0, np.int64(2), torch.tensor(3)):
    publisher.log({"Loss/value": 1.0}, iteration=iteration)
for iteration in (3.7, "4", 2**63, math.nan):
    publisher.log({"Loss/value": 2.0}, iteration=iteration)
""",
    )
    assert dropped == {"bad_step": 8 + 4}
    found = scalars(run_dir)
    assert found.pop("Loss/value") == [(n, 1.0) for n in range(4)]
    assert found.pop("large") == [(4096, 1.0)]
    assert found == {f"good/{n}": [(3, 1.0)] for n in range(6)}


def test_br43_numpy_scalars_are_numbers(tmp_path: Path) -> None:
    run_dir, dropped = train(
        tmp_path,
        """
publisher.log({"a": np.float64(1.5), "b": np.float32(2.5), "c": np.int64(5), "d": np.bool_(True)},
              iteration=0)
""",
    )
    assert dropped == {}
    assert {tag: points[0][1] for tag, points in scalars(run_dir).items()} == {
        "a": 1.5, "b": 2.5, "c": 5.0, "d": 1.0,
    }  # fmt: skip
