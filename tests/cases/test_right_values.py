"""Values that are easy to get wrong, from ``log()`` to the history and the event file.

Several ranks live in one process: each publisher is a source of its own all the same. Numbers
in the names of tests are lines of the checklist of right values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from case_runs import Points, ended, run, scalars, updates
from own_tags import without_bus

from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.metrics import CANONICAL
from unilab_schema.timing import learner_timeline
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.series import Series

HEAD = """
import json, os, sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, algorithm, world = sys.argv[1], sys.argv[2], int(sys.argv[3])
options = json.loads(sys.argv[4])
learners = [
    um.init(algorithm=algorithm, task="Toy", run_dir=run_dir, rank=n, world_size=world, **options)
    for n in range(world)
]
zero = learners[0]

def collector(rank=0, instance=0):
    return um.connect(rank=rank, instance=instance, run_dir=run_dir, algorithm=algorithm)

def sealed(count):
    from unilab_metrics.subscribe.history import HistoryReader
    from unilab_schema.updates import Update
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        bus = Path(run_dir) / "bus"
        with HistoryReader(bus) as reader:
            if sum(isinstance(record.entry, Update) for record in reader.poll()) >= count:
                return
        time.sleep(0.02)
    raise TimeoutError(count)
"""
TAIL = """
for publisher in [*globals().get("collectors", []), *reversed(learners)]:
    assert publisher.close(), publisher.errors
"""

Values = Mapping[str, float]


class Trained:
    """A run that is over."""

    def __init__(self, run_dir: Path, log_interval: int) -> None:
        self.run_dir = run_dir
        self.verified = ended(run_dir, log_interval=log_interval)

    @property
    def values(self) -> list[Values]:
        return [values for _, values in updates(self.run_dir)]

    @property
    def points(self) -> Points:
        return scalars(self.run_dir)

    @property
    def bus(self) -> dict[str, Any]:
        summary = read_summary(self.run_dir)
        assert summary is not None
        return summary["bus"]


def train(folder: Path, algorithm: str, world: int, body: str, **options: Any) -> Trained:
    run_dir = folder / "run"
    run(HEAD + body + TAIL, run_dir, algorithm, str(world), json.dumps(options))
    return Trained(run_dir, options.get("log_interval", 1))


def test_line_2_rates_are_sums_of_rates_and_walls_are_means(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "sac",
        2,
        """
for publisher, wall_s in zip(learners, (0.5, 1.0)):
    publisher.log(
        {"Perf/total_fps": 384 / wall_s, "Perf/iteration_time": wall_s,
         "Terminal/replay_rows_per_s": 128 / wall_s},
        iteration=1, env_steps=384,
    )
""",
    )
    (values,) = trained.values
    assert values["Perf/total_fps"] == 1152.0
    assert values["Perf/iteration_time"] == 0.75
    assert values["Terminal/replay_rows_per_s"] == 384.0
    assert trained.points == {
        "Perf/total_fps": [(768, 1152.0)],
        "Perf/iteration_time": [(768, 0.75)],
        "Train/iteration": [(768, 1.0)],
    }


def test_line_3_first_over_ranks_then_over_time(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "ppo",
        2,
        """
for publisher, value in zip(learners, (1.0, 3.0)):
    publisher.log({"Loss/value": value}, iteration=0)
zero.log({"Loss/value": 10.0}, iteration=1)
learners[1].log({}, iteration=1)
""",
    )
    assert [values["Loss/value"] for values in trained.values] == [2.0, 10.0]
    series = Series()
    with HistoryReader(bus_directory(trained.run_dir)) as reader:
        series.add(Batch(records=tuple(reader.poll())))
    (shown,) = series.picture().losses
    assert shown.reading.value == 6.0


SUMS = {
    "Perf/total_fps",
    "Train/ring_available_slots",
    "Train/rollouts_read",
    "Train/replay_ingress_depth",
    "Train/replay_ingress_occupancy",
    "Train/replay_ingress_high_water",
    "Train/replay_ingress_backpressure_wait_ms",
    "Train/replay_ingress_dropped_batches",
}


def test_line_5_every_canonical_tag_is_reduced_as_the_table_says(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "mine",
        2,
        f"""
tags = {sorted(CANONICAL)!r}
for publisher, value in zip(learners, (2.0, 5.0)):
    publisher.log(dict.fromkeys(tags, value) | {{"reward/term": value}}, iteration=0)
""",
    )
    (values,) = trained.values
    expected = dict.fromkeys(CANONICAL, 3.5) | dict.fromkeys(SUMS, 7.0)
    assert values == expected | {"Train/iteration": 2.0, "reward/term": 3.5}
    assert len(CANONICAL) == 68
    assert set(trained.points) == set(values)


def test_line_6_a_phase_of_one_rank_adds_up_after_the_mean(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "appo",
        2,
        """
wall = {"Perf/iteration_time": 0.010}
zero.log({**wall, "Perf/learning_time": 0.006, "Perf/learner_weight_publish_ms": 4.0},
         iteration=1, env_steps=8)
learners[1].log({**wall, "Perf/learning_time": 0.010}, iteration=1, env_steps=8)
""",
    )
    (values,) = trained.values
    assert values["Perf/learning_time"] == pytest.approx(0.008)
    assert values["Perf/learner_weight_publish_ms"] == 2.0
    timeline = learner_timeline(values, "appo")
    assert timeline is not None
    assert not timeline.over_accounted
    assert timeline.accounted_percent == pytest.approx(100.0)
    # What no rank had is no zero.
    assert "Perf/learner_replay_stage_ms" not in values


def test_line_14_episode_statistics_are_absent_before_the_first_end(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "sac",
        1,
        """
collectors = [collector()]
own = collectors[0]
def tick(rewards, dones, timeouts=(False, False)):
    own.episodes.step(rewards, dones, timeouts)
    own.tick()
    own.log({"reward/term": 1.0})
for iteration, (dones, timeouts) in enumerate(
    [((0, 0), (0, 0)), ((1, 0), (0, 0)), ((0, 0), (0, 0)), ((1, 1), (0, 1))], 1
):
    tick((1.0, 3.0), dones, timeouts)
    zero.log({"Loss/actor": 0.0}, iteration=iteration, env_steps=2 * iteration)
for n in range(250):
    own.episodes.step((7.0, 7.0), (1, 1), (0, 0))
own.log({"reward/term": 1.0})
zero.log({"Loss/actor": 0.0}, iteration=5, env_steps=1000)
""",
    )
    found = [
        [
            values.get(tag)
            for tag in ("Train/mean_reward", "Train/mean_episode_length", "Episode/timeout_rate")
        ]
        for values in trained.values
    ]
    assert found == [
        [None, None, None],
        [2.0, 2.0, 0.0],
        [2.0, 2.0, 0.0],
        # The episodes of 2, 2 and 4 ticks; of the last two, one ran out of time.
        [pytest.approx(16 / 3), pytest.approx(8 / 3), 0.5],
        [7.0, 1.0, 0.0],
    ]
    assert [step for step, _ in trained.points["Episode/timeout_rate"]] == [4, 6, 8, 1000]


def test_line_16_maxima_are_since_the_last_report(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "sac",
        1,
        """
collectors = [collector()]
own = collectors[0]
readings = [[(3, 1, 2), (0, 2, 0)], [(1, 0, 0)], [(2, 2, 5)]]
for iteration, several in enumerate(readings, 1):
    for in_flight, backlog, lag in several:
        own.gauges(inference={"queue_depth": 1, "in_flight": in_flight,
                              "action_backlog": backlog, "publication_lag": lag})
    own.log({})
    zero.log({"Loss/actor": 0.0}, iteration=iteration, env_steps=iteration)
""",
    )
    found = [
        [
            values[f"Perf/collector_inference_{name}"]
            for name in ("in_flight", "max_in_flight", "max_action_backlog", "max_publication_lag")
        ]
        for values in trained.values
    ]
    # The backlog of 2 at the first report is still there when the second interval begins.
    assert found == [[0, 3, 2, 2], [1, 1, 2, 0], [2, 2, 2, 5]]


def test_line_16_a_refused_report_does_not_reset_the_maxima(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "sac",
        1,
        """
import resource
collectors = [collector()]
own = collectors[0]
def read(in_flight):
    own.gauges(inference={"queue_depth": 0, "in_flight": in_flight, "action_backlog": 0,
                          "publication_lag": 0})
read(3)
read(0)
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
own.log({"reward/term": 1.0})
resource.setrlimit(resource.RLIMIT_FSIZE, before)
own.log({"reward/term": 2.0})
zero.log({"Loss/actor": 0.0}, iteration=1, env_steps=1)
""",
    )
    (values,) = trained.values
    assert values["reward/term"] == 2.0
    assert values["Perf/collector_inference_max_in_flight"] == 3.0
    assert set(trained.bus["dropped_calls"]) == {"spool_full"}


def test_line_24_learner_phases_are_sums_and_collector_phases_means_per_tick(
    tmp_path: Path,
) -> None:
    trained = train(
        tmp_path,
        "sac",
        1,
        """
collectors = [collector()]
own = collectors[0]
for milliseconds in (1, 2, 3, 6):
    zero.add_phase_ns("inference", milliseconds * 1_000_000)
    zero.add_phase_ns("replay_ingress_h2d_submit", milliseconds * 1_000_000)
    own.add_phase_ns("env_step", milliseconds * 1_000_000)
    own.tick()
own.log({"reward/term": 1.0})
zero.log({"Loss/actor": 0.0}, iteration=1, env_steps=4)
""",
    )
    (values,) = trained.values
    assert values["Perf/learner_inference_ms"] == 12.0
    assert values["Perf/replay_ingress_h2d_submit_ms"] == 6.0
    assert values["Perf/collector_env_step_ms"] == 3.0


def test_line_23_steps_are_iterations_while_nobody_counts(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "sac",
        2,
        """
for iteration, steps in enumerate((0, 0, 8, 8, 12), 1):
    for publisher in learners:
        publisher.log({"Loss/actor": float(iteration)}, iteration=iteration, env_steps=steps)
""",
    )
    # A counter may stand still: steps never fall, iterations rise by one.
    assert trained.points == {
        "Loss/actor": [(1, 1.0), (2, 2.0), (16, 3.0), (16, 4.0), (24, 5.0)],
        "Train/iteration": [(16, 3.0), (16, 4.0), (24, 5.0)],
    }


def test_a_late_value_completes_its_iteration_and_changes_nothing(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "ppo",
        1,
        """
zero.log({"Loss/value": 1.0}, iteration=0, more=True)
zero.log({"Loss/surrogate": 2.0}, iteration=0)
zero.log({"Loss/value": 3.0}, iteration=1)
sealed(2)
zero.log({"Loss/value": 9.0, "Loss/entropy": 4.0}, iteration=0)
zero.log({"Loss/value": 5.0}, iteration=2)
""",
    )
    assert trained.points == {
        "Loss/value": [(0, 1.0), (1, 3.0), (2, 5.0)],
        "Loss/surrogate": [(0, 2.0)],
        "Loss/entropy": [(0, 4.0)],
    }
    assert trained.bus["late_values"] == 1


def test_log_interval_thins_the_backend_only_and_keeps_the_last(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "ppo",
        1,
        """
for iteration in range(32):
    zero.log({"Loss/value": float(iteration)}, iteration=iteration)
""",
        log_interval=7,
    )
    assert [step for step, _ in trained.points["Loss/value"]] == [0, 7, 14, 21, 28, 31]
    assert len(trained.values) == 32
    per_tag = trained.verified.points_per_tag
    assert without_bus(per_tag) == {"Loss/value": 6}


def test_phases_of_another_algorithm_and_terminal_tags_reach_no_backend(tmp_path: Path) -> None:
    trained = train(
        tmp_path,
        "sac",
        1,
        """
with zero.phase("replay_stage"):
    pass
zero.log({"Loss/actor": 1.0, "Perf/collection_time": 1.0, "Perf/learner_weight_publish_ms": 0.0,
          "Perf/learner_replay_stage_ms": 0.0, "Terminal/num_envs": 8.0}, iteration=1, env_steps=1)
""",
    )
    assert set(trained.points) == {"Loss/actor", "Train/iteration"}


def test_reserved_names_are_refused_also_in_open_mode(tmp_path: Path) -> None:
    body = (
        "for iteration, tag in enumerate(['reward/mean', 'reward/mean_ep100', 'reward/']):\n"
        "    zero.log({'Loss/value': 1.0, tag: 2.0}, iteration=iteration)\n"
    )
    trained = train(tmp_path, "ppo", 1, body)
    assert trained.points == {"Loss/value": [(0, 1.0), (1, 1.0), (2, 1.0)]}
    assert trained.bus["dropped_calls"] == {"bad_tag": 3}
