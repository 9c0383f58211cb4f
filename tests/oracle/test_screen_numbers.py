"""Every number of the overview, read from the screen at several moments of a real run, is what an
independent computation makes of the values that the ranks have logged: over ranks, then over the
last two seconds of the aggregator's time."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from known_rank import (
    COLLECTOR,
    PHASES,
    RANK_0_PHASE,
    WORLD,
    known_env_steps,
    known_values,
)
from real_runs import until
from series_records import SAC, head

from unilab_metrics.run.summary import read_summary
from unilab_metrics.storage.lease import is_free
from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_metrics.transport.rendezvous import aggregator_lease, bus_directory
from unilab_schema.updates import Update
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.series import Series
from unilab_sidecar.views.overview import layout

SCRIPT = Path(__file__).parent.parent / "support" / "known_rank.py"
ITERATIONS = 150
RANKS_S = 60.0
LAUNCHERS = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
WINDOW_NS = 2_000_000_000
GIB = 2**30
SUMS = {
    "Perf/total_fps",
    "Terminal/replay_rows_per_s",
    "Terminal/buffer_size",
    "Terminal/buffer_capacity",
    "Terminal/num_envs",
    *(
        f"Train/replay_ingress_{name}"
        for name in ("depth", "occupancy", "high_water", "backpressure_wait_ms", "dropped_batches")
    ),
}
METRICS = {
    "Entropy": "Loss/entropy",
    "Actor": "Loss/actor",
    "Critic": "Loss/critic",
    "Temperature": "Loss/temperature",
    "Learning Rate": "Loss/learning_rate",
    "Mean Std": "Policy/mean_std",
    "Policy Temp": "Policy/temperature",
    "Actor Grad Norm": "Train/actor_gradient_norm",
    "Critic Grad Norm": "Train/critic_gradient_norm",
    "Target Q Max": "Train/target_q_max",
    "Target Q Min": "Train/target_q_min",
    "Reward Scale Std": "Train/reward_scale_std",
    "Ingress Depth": "Train/replay_ingress_depth",
    "Ingress Occupancy": "Train/replay_ingress_occupancy",
    "Ingress High Water": "Train/replay_ingress_high_water",
    "Ingress Backpressure": "Train/replay_ingress_backpressure_wait_ms",
    "Ingress Drops": "Train/replay_ingress_dropped_batches",
    "Mean": "Train/mean_reward",
    "upright": "reward/upright",
    "effort": "reward/effort",
    "Steps/s": "Perf/total_fps",
    "Rows/s": "Terminal/replay_rows_per_s",
    "Episode Length": "Train/mean_episode_length",
    "Ep Len": "Train/mean_episode_length",
}
SYSTEM = {
    "Buffer": "Terminal/buffer_size",
    "Timeout Rate": "Episode/timeout_rate",
    "Envs": "Terminal/num_envs",
    "Batch/Rank": "Terminal/batch_per_rank",
}
LEARNER = {
    "Collector Wait": "Perf/learner_collector_wait_ms",
    "Inference": "Perf/learner_inference_ms",
    "Collector Release": "Perf/learner_collector_release_ms",
    "Replay Batch Wait": RANK_0_PHASE,
    "Replay Sample": "Perf/learner_replay_sample_ms",
    "Learning": "Perf/learning_time",
}
COLLECTING = {
    "Inference Request": "Perf/collector_inference_request_ms",
    "Learner Action Wait": "Perf/collector_learner_action_wait_ms",
    "Env Step": "Perf/collector_env_step_ms",
    "Backend Step": "Perf/collector_env_step_backend_ms",
    "Transition Extract": "Perf/collector_transition_extract_ms",
    "Replay Write": "Perf/collector_replay_write_ms",
}
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?"


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[HistoryRecord]]:
    """The whole history of one run, which all tests here look at."""
    run_dir = tmp_path_factory.mktemp("known") / "run"
    # What isolates a test has not begun before a fixture of the module. Sockets need short paths.
    with tempfile.TemporaryDirectory(prefix="um-") as own:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in LAUNCHERS and not name.startswith("UNILAB_")
        }
        environment |= dict.fromkeys(("HOME", "XDG_STATE_HOME", "TMPDIR"), own)
        environment |= {f"UNILAB_METRICS_{use}": f"{own}/{use[0]}" for use in ("RUNTIME", "SPOOL")}
        command = [sys.executable, str(SCRIPT), str(run_dir)]
        ranks = [
            subprocess.Popen([*command, str(rank), str(ITERATIONS)], env=environment)
            for rank in range(WORLD)
        ]
        try:
            # The aggregator samples its node once a second, however fast or slow the rest goes.
            until(lambda: any("Node/0/cpu_percent" in record.tags for record in history(run_dir)))
            (run_dir.parent / "go").touch()
            assert [rank.wait(RANKS_S) for rank in ranks] == [0] * WORLD
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
            # What the ranks have handed over may be in the journal's other half only, so far.
            until(lambda: is_free(aggregator_lease(run_dir)))
        assert read_summary(run_dir) is not None
        yield history(run_dir)


def history(run_dir: Path) -> list[HistoryRecord]:
    found: list[HistoryRecord] = []
    if any(bus_directory(run_dir).glob("history-*")):
        with HistoryReader(bus_directory(run_dir)) as reader:
            while some := reader.poll():
                found += some
    return found


def updates(records: list[HistoryRecord]) -> list[Update]:
    return [record.entry for record in records if isinstance(record.entry, Update)]


def over_ranks(tag: str, iteration: int) -> float:
    values = [known_values(rank, iteration) for rank in range(WORLD)]
    if tag == RANK_0_PHASE:
        # The other rank measured its wall, so the phase took no time there.
        return values[0][tag] / WORLD
    total = math.fsum(value[tag] for value in values)
    return total if tag in SUMS else total / WORLD


def as_ms(tag: str, iteration: int) -> float:
    return over_ranks(tag, iteration) * (1e3 if tag.endswith("_time") else 1.0)


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def expected(seen: list[HistoryRecord]) -> dict[str, tuple[float, ...]]:
    """Label to value, and to its share of the wall or the cycle where it has one."""
    sealed = updates(seen)
    newest = sealed[-1]
    inside = [u.iteration for u in sealed if u.sealed_mono_ns >= newest.sealed_mono_ns - WINDOW_NS]

    def over_time(tag: str) -> float:
        return mean([over_ranks(tag, k) for k in inside])

    found: dict[str, tuple[float, ...]] = {
        label: (over_time(tag),) for label, tag in (METRICS | SYSTEM).items()
    }
    found["Timeout Rate"] = (100 * found["Timeout Rate"][0],)
    found["Buffer"] += (over_time("Terminal/buffer_capacity"),)
    found["Peak"] = (max(over_ranks("Train/mean_reward", u.iteration) for u in sealed),)
    found["Env Steps"] = (float(WORLD * known_env_steps(newest.iteration)),)
    phases = (*PHASES, RANK_0_PHASE)
    wall = mean([as_ms("Perf/iteration_time", k) for k in inside])
    left = [
        as_ms("Perf/iteration_time", k) - math.fsum(as_ms(tag, k) for tag in phases) for k in inside
    ]
    other = mean([max(one, 0.0) for one in left])
    found |= {"Other": (other, 100 * other / wall), "Iter Wall": (wall, 100.0)}
    for label, tag in LEARNER.items():
        ms = mean([as_ms(tag, k) for k in inside])
        found[label] = (ms, 100 * ms / wall)
    exclusive = [tag for tag in COLLECTOR if "env_step_" not in tag.replace("env_step_ms", "")]
    cycle = math.fsum(over_time(tag) for tag in exclusive)
    for label, tag in COLLECTING.items():
        found[label] = (over_time(tag), 100 * over_time(tag) / cycle)
    node = node_means(seen, newest)
    if "Node/0/cpu_percent" in node:
        quota = node.get("Node/0/cpu_quota_processors")
        found["CPU"] = (node["Node/0/cpu_percent"], *([] if quota is None else [quota]))
        sizes = ("used", "total")
        found["Memory"] = tuple(node[f"Node/0/memory_{size}_bytes"] / GIB for size in sizes)
    return found


def node_means(seen: list[HistoryRecord], newest: Update) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for record in seen:
        entry = record.entry
        if isinstance(entry, Update) and (
            entry.sealed_mono_ns >= newest.sealed_mono_ns - WINDOW_NS
        ):
            for tag, value in zip(record.tags, record.values().tolist(), strict=True):
                if tag.startswith("Node/"):
                    values.setdefault(tag, []).append(value)
    return {tag: mean(some) for tag, some in values.items()}


def agrees(shown: str, value: float) -> bool:
    """To the last digit that is shown."""
    number = Decimal(shown.replace(",", ""))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return math.isclose(float(number), value, rel_tol=1e-9, abs_tol=0.500001 * 10.0**exponent)


def is_axis_of(course: list[float], axis: list[float]) -> None:
    """Marks at equal round steps, from top to bottom, that begin and end within a step of the
    course's ends."""
    assert len(axis) >= 2
    step = axis[0] - axis[1]
    assert step > 0
    assert [above - below for above, below in pairwise(axis)] == pytest.approx(
        [step] * (len(axis) - 1)
    )
    assert f"{step:.6e}"[:3] in {"1.0", "2.0", "2.5", "5.0"}
    assert all(round(mark / step, 6).is_integer() for mark in axis)
    assert abs(axis[0] - max(course)) < step
    assert abs(axis[-1] - min(course)) < step


def panels_of(lines: list[str]) -> list[str]:
    """The rows with numbers: header, metrics, rewards, timing, system."""
    end = next(at for at, row in enumerate(lines) if re.search(r"(Sources|Writers) ─", row))
    # The axis under a chart may stand beside a row of metrics.
    lines = [re.sub(r"└\d+ ─+ [\d,]+ *$", "", row) for row in lines]
    kept = [row for row in lines[1:end] if not re.search(r"─ |╌", row + " ")]
    return [row for row in kept if not re.search(r"live|awaited|Bottleneck", row)]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 100, 120, 160])
@pytest.mark.parametrize("iteration", [1, 7, 60, 101, ITERATIONS])
def test_every_number_of_the_overview_is_the_mean_of_two_seconds_of_reduced_updates(
    records: list[HistoryRecord], iteration: int, columns: int
):
    at = next(
        place
        for place, record in enumerate(records)
        if isinstance(record.entry, Update) and record.entry.iteration == iteration
    )
    seen = records[: at + 1]
    newest = updates(seen)[-1]
    series = Series()
    announced = head(newest.sealed_mono_ns / 1e9, run=SAC)
    # As a viewer gets it: a few records at a time, with pictures between them.
    for first in range(0, len(seen), 17):
        series.add(Batch(tuple(seen[first : first + 17]), announced, connected=True))
        series.picture()
    screen = layout(series.picture(), columns)
    inside = sum(u.sealed_mono_ns >= newest.sealed_mono_ns - WINDOW_NS for u in updates(seen))
    assert f"iter {iteration}/" in screen.title
    assert screen.title.endswith(f"Avg 2s (n={inside})")
    rest = "\n".join(panels_of([plain(row) for row in screen.lines]))
    axis = [float(number.replace(",", "")) for number in re.findall(rf"({NUMBER}) ┤", rest)]
    rest = re.sub(rf"{NUMBER} ┤", "", rest)
    values = expected(seen)
    read: set[str] = set()
    for label in sorted(values, key=len, reverse=True):
        pattern = (
            rf"(?<![\w/]){re.escape(label)} +({NUMBER})"
            rf"(?: ?(?:[/ ]|% of) *({NUMBER}))?(?: (?:ms|%|GiB))?"
        )
        found = re.search(pattern, rest)
        if found is None:
            continue
        shown = [number for number in found.groups() if number is not None]
        wanted = values[label][: len(shown)]
        assert len(shown) == len(values[label]), (label, found.group())
        for number, value in zip(shown, wanted, strict=True):
            assert agrees(number, value), (label, number, value)
        read.add(label)
        rest = rest[: found.start()] + "·" + rest[found.end() :]
    # The last iterations come after the first sample of the node.
    assert ("CPU" in read) or iteration < ITERATIONS or columns < 120
    missing = set(values) - read - {"Ep Len", "Episode Length"}
    hidden = {*SYSTEM, "CPU", "Memory"} if columns < 120 else set()
    # From 1 % of the cycle on; what each rank adds to it varies.
    assert missing - {"Inference Request", "Transition Extract"} == hidden & set(values)
    rest = re.sub(r"! phases overlap: [\d.]+ % of wall", "", rest)
    # How many reports the trend is of.
    rest = re.sub(r"(rising|steady|falling) \(last \d+\)", "", rest)
    assert not re.search(r"\d", rest), rest
    course = [over_ranks("Train/mean_reward", u.iteration) for u in updates(seen)]
    assert axis or len(course) < 2 or columns < 120
    if axis:
        is_axis_of(course, axis)
