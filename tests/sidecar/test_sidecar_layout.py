"""The overview as text: tiers, order, labels, every size, strange values."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from sample_run import SampleRun
from screen_text import find, text

from unilab_schema.identity import RunInfo
from unilab_sidecar.drawing.layout import FRAME_CELLS
from unilab_sidecar.drawing.text import line_width, plain, width_of
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.panels.header import title
from unilab_sidecar.picture import Metric, Note, Picture, Reading
from unilab_sidecar.printed.plain import format_line
from unilab_sidecar.series import Series
from unilab_sidecar.views.overview import layout


@pytest.mark.parametrize("columns", [70, 80, 95])
def test_under_96_columns_everything_stacks(training: Picture, columns: int):
    screen = text(training, columns)
    order = ["Losses and policy", "Rewards", "Timing", "Iter Wall", "collector, own clock",
             "Learner Action Wait", "Actor Grad Norm", "Sources", "Writers"]  # fmt: skip
    places = [find(screen, word) for word in order]
    assert places == sorted(places)
    assert {column for _, column in places} <= {0, 2, 3}
    assert "System" not in screen
    assert "Ep Len" in screen
    assert f"Peak {training.rewards.peak:.2f} " in screen
    assert training.rewards.mean is not None
    assert f"Mean {training.rewards.mean.value:.3f} " in screen


@pytest.mark.parametrize("columns", [96, 100, 119])
def test_from_96_columns_panels_stand_beside_each_other(training: Picture, columns: int):
    screen = text(training, columns)
    assert find(screen, "Losses and policy")[0] == find(screen, "Rewards")[0]
    assert find(screen, "Collector Wait")[0] == find(screen, "Learner Action Wait")[0]
    heading = screen.splitlines()[find(screen, "Collector Wait")[0] - 1]
    assert heading.startswith("Learner ─")
    assert " Collector ─" in heading
    assert "System" not in screen
    assert "Timing" not in screen
    assert f"Peak {training.rewards.peak:.3f} " in screen
    assert training.rewards.mean is not None
    assert f"Mean {training.rewards.mean.value:.3f} " in screen


@pytest.mark.parametrize("columns", [120, 160])
def test_from_120_columns_there_are_three_timing_columns(training: Picture, columns: int):
    screen = text(training, columns)
    rows = {find(screen, w)[0] for w in ("Learner (Iter Wall)", "Collector (own clock)", "System")}
    assert len(rows) == 1
    for label in ("Buffer", "Timeout Rate", "Envs", "Batch/Rank", "CUDA MPS"):
        find(screen, label)
    assert find(screen, "Sources")[0] == find(screen, "Writers")[0]


@pytest.mark.parametrize("columns", [70, 80, 95, 96, 100, 119, 120, 160])
def test_no_label_and_no_number_of_a_usual_run_is_cut(training: Picture, columns: int):
    screen = text(training, columns)
    cut = [line for line in screen.splitlines() if "…" in line]
    assert not cut
    for label in ("Collector Release", "Replay Batch Wait", "Learner Action Wait", "Actor",
                  "Temperature", "Learning Rate", "Ingress Backpressure", "Critic Grad Norm"):  # fmt: skip
        find(screen, label)


def test_backend_only_details_and_derived_sums_have_no_row(training: Picture):
    screen = text(training, 160)
    for word in ("H2D", "D2H", "Forward", "Inference Wait", "Weight Publish", "Replay Stage",
                 "Inference Request", "Metrics Publish", "cycle"):  # fmt: skip
        assert word not in screen


def test_an_algorithm_without_off_policy_phases_shows_none_of_them():
    sample = SampleRun(run=RunInfo("ppo", "walk", "numpy", "iteration", 100))
    record = sample.update()
    keep = [i for i, tag in enumerate(record.tags) if tag in {
        "Perf/iteration_time", "Perf/learning_time", "Loss/entropy", "Train/mean_reward"}]  # fmt: skip
    values = record.values()
    import struct

    import msgspec

    entry = msgspec.structs.replace(
        record.entry, values=struct.pack(f"<{len(keep)}d", *(float(values[i]) for i in keep))
    )
    series = Series()
    series.add(sample.batch(record._replace(entry=entry, tags=tuple(record.tags[i] for i in keep))))
    screen = text(series.picture(), 120)
    for word in ("Collector", "Replay", "CUDA MPS", "Rows/s", "Buffer"):
        assert word not in screen
    find(screen, "Learning")
    find(screen, "Iter Wall")


def test_the_title_says_nothing_of_what_is_not_known_yet():
    series = Series()
    for stage in ("connecting", "waiting"):
        assert layout(series.picture(), 80).title == "", stage
        series.add(
            Batch((), structs.replace(SampleRun().head(), attempt=0, run=RunInfo()), connected=True)
        )
    sample = SampleRun()
    series.add(sample.batch(sample.open_attempt()))
    assert layout(series.picture(), 80).title == "SAC · cart_pole_balance · GPUs 2"
    series.add(sample.batch(sample.update()))
    assert layout(series.picture(), 80).title.endswith("GPUs 2 · iter 1/3000 · Avg 2s (n=1)")


def test_a_single_rank_leaves_the_title_before_the_task_does(training: Picture):
    run = RunInfo(algorithm="ppo", task="Isaac-Velocity-Rough-G1-v0", max_iterations=3000)
    one = replace(training, run=run, samples=0)
    whole = "PPO · Isaac-Velocity-Rough-G1-v0 · GPUs 1 · iter 400/3000"
    assert title(one, len(whole)) == whole
    assert title(one, len(whole) - 1) == whole.replace(" · GPUs 1", "")
    two = replace(one, run=structs.replace(run, world_size=2))
    assert "GPUs 2" in title(two, len(whole) - 1)


def test_the_title_names_algorithm_task_ranks_iteration_and_window(training: Picture):
    assert layout(training, 120).title == (
        f"SAC · cart_pole_balance · GPUs 2 · iter 400/3000 · Avg 2s (n={training.samples})"
    )
    assert "cart_pole" not in layout(training, 50).title
    assert "GPUs 2 · iter 400/3000" in layout(training, 60).title
    late = replace(training, samples=1, age_s=12.0)
    assert layout(late, 120).title.endswith("Avg 2s (n=1, 12 s ago)")


def test_a_few_events_give_way_before_a_screen_has_to_be_scrolled(training: Picture):
    many = replace(training, notes=tuple(Note("status", f"step {n}", 9.0 - n) for n in range(9)))
    heights = {rows: len(layout(many, 120, rows).lines) for rows in range(30, 50)}
    whole = next(rows for rows, lines in heights.items() if lines <= rows - 2)
    screens = [layout(many, 120, rows) for rows in range(whole, whole + 4)]
    assert all(len(one.lines) <= rows - 2 for rows, one in enumerate(screens, start=whole))
    shown = [sum("ago  status" in plain(one) for one in each.lines) for each in screens]
    # The second one gives its row to what holds the training up.
    assert shown == [3, 3, 4, 5]


def test_the_whole_screen_fits_its_width_and_never_raises(run: tuple[SampleRun, Picture]):
    for columns in range(1, 301):
        screen = layout(run[1], columns)
        room = max(columns - FRAME_CELLS, 1)
        assert all(line_width(line) <= room for line in screen.lines)
        assert width_of(screen.title) <= max(columns - FRAME_CELLS - 2, 0)


STRANGE = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324])


@settings(max_examples=40)
@given(st.integers(1, 300), st.lists(st.tuples(st.text(max_size=30), STRANGE), max_size=8),
       st.sampled_from(["live", "silent", "finished", "lost", "\x1b[31m"]), st.randoms())  # fmt: skip
def test_strange_values_and_names_never_raise(
    columns: int, others: list[tuple[str, float]], state: str, chance: random.Random
):
    sample = SampleRun(
        run=RunInfo("[b]sac", "任务" * 9, max_iterations=chance.choice([None, 0, 5]))
    )
    changed = {name or "-": value for name, value in others}
    changed |= {"Perf/iteration_time": chance.choice([0.0, math.nan, math.inf, -1.0, 0.01])}
    series = Series()
    batch = sample.batch(sample.update(changed), sample.event("status", "a\x1b\n[b]"))
    series.add(replace(batch, head=sample.head((state,) * 4)))
    picture = series.picture()
    screen = layout(picture, columns)
    room = max(columns - FRAME_CELLS, 1)
    for line in screen.lines:
        assert line_width(line) <= room
        assert "\x1b" not in plain(line)
        assert "\n" not in plain(line)
    assert "\n" not in format_line(picture)


def test_nan_is_text_and_touches_nothing_else():
    sample = SampleRun()
    series = Series()
    series.add(sample.batch(sample.update({"Loss/actor": math.nan, "Loss/critic": 2.0})))
    screen = text(series.picture(), 100)
    row = screen.splitlines()[find(screen, "Actor")[0]]
    assert "NaN" in row
    assert "Critic" in screen


def test_tags_with_brackets_are_literal_and_cjk_names_stay_aligned(training: Picture):
    others = tuple(
        Metric(name, name, Reading(1.0))
        for name in ("[/x]", "reward[left]", "损失函数值x", "loss/value")
    )
    screen = layout(replace(training, others=others), 50).lines
    lines = [plain(line) for line in screen]
    rows = [line for line in lines if any(metric.label in line for metric in others)]
    assert len(rows) == 4
    assert len({width_of(row) for row in rows}) == 1
