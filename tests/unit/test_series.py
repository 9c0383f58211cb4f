"""What the terminal computes: two-second means, Other, rewards, newest values, ages."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.control import Epoch, Head, Snapshot, SourceStatus
from unilab_schema.frames import EventFrame
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.updates import AttemptOpened, EventUpdate, RunEnded, Supplement, Update
from unilab_sidecar.batch import Batch
from unilab_sidecar.picture import Picture
from unilab_sidecar.rewards import RewardCourse
from unilab_sidecar.series import Series

SAC = RunInfo("sac", "task", "numpy", "env_steps", 100, world_size=2)
EPOCH = Epoch(b"j" * 16, 1)
S = 1_000_000_000


def pack(values: Mapping[str, float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values.values())


def update(
    sequence: int,
    values: Mapping[str, float],
    *,
    sealed_s: float | None = None,
    iteration: int | None = None,
    attempt: int = 1,
    elapsed_s: float = 1.0,
) -> HistoryRecord:
    sealed_ns = round((sequence if sealed_s is None else sealed_s) * S)
    entry = Update(
        attempt, sequence if iteration is None else iteration, 10 * sequence, 0, sealed_ns,
        elapsed_s, 2, 2, 1, pack(values),
    )  # fmt: skip
    return HistoryRecord(sequence, entry, tuple(values))


def supplement(
    sequence: int, iteration: int, values: Mapping[str, float], sealed_s: float
) -> HistoryRecord:
    entry = Supplement(1, iteration, 0, 0, round(sealed_s * S), 1.0, 1, pack(values))
    return HistoryRecord(sequence, entry, tuple(values))


def event(
    sequence: int,
    kind: str,
    text: str = "",
    *,
    rank: int = 0,
    at_s: float = 0.0,
    **data: float | str,
) -> HistoryRecord:
    frame = EventFrame(kind, text, 0, round(at_s * S), None, dict(data))
    return HistoryRecord(sequence, EventUpdate(1, SourceKey(rank, "learner"), frame), ())


def head(mono_s: float, *, run: RunInfo = SAC, ended: str | None = None, attempt: int = 1) -> Head:
    return Head(
        EPOCH, 1, 1, attempt, run, "run", (), (), round(mono_s * S), round(mono_s * S), ended
    )


def picture(*records: HistoryRecord, at: Head | None = None, age_s: float = 0.0) -> Picture:
    series = Series()
    series.add(Batch(records, at or head(0.0), connected=True, head_age_s=age_s))
    return series.picture()


def reading(shown: Picture, tag: str) -> float:
    everything = (*shown.losses, *shown.policy, *shown.diagnostics, *shown.ingress, *shown.others)
    return next(metric.reading.value for metric in everything if metric.tag == tag)


# --- the window --------------------------------------------------------------------------


def test_ranks_are_averaged_before_time():
    # Update A was reduced from ranks with 1 and 3, update B from one rank with 10.
    shown = picture(update(1, {"Loss/actor": 2.0}), update(2, {"Loss/actor": 10.0}))
    assert shown.losses[0].reading.value == 6.0
    assert shown.samples == 2


@given(st.lists(st.floats(0.001, 1.5), min_size=1, max_size=60))
def test_the_window_holds_two_seconds_and_always_the_newest(gaps: list[float]):
    times = [sum(gaps[: count + 1]) for count in range(len(gaps))]
    records = [update(i, {"x": float(i)}, sealed_s=t) for i, t in enumerate(times, 1)]
    sealed_ns = [round(t * S) for t in times]
    inside = [i for i, ns in enumerate(sealed_ns, 1) if ns >= sealed_ns[-1] - 2 * S]
    shown = picture(*records)
    assert shown.samples == len(inside)
    assert inside[-1] == len(records)
    assert reading(shown, "x") == pytest.approx(sum(inside) / len(inside), rel=1e-12)


def test_n_is_the_number_of_updates_without_a_cap():
    shown = picture(*(update(i, {"x": 1.0}, sealed_s=i / 1000) for i in range(1, 3001)))
    assert shown.samples == 2001


def test_a_burst_that_arrives_at_once_is_spread_over_the_aggregators_time():
    # Ten seconds of updates in one batch, as after a stall or on joining late.
    shown = picture(*(update(i, {"x": float(i)}, sealed_s=i / 4) for i in range(1, 41)))
    assert shown.samples == 9
    assert reading(shown, "x") == 36.0


def test_an_iteration_longer_than_the_window_is_shown_alone_with_its_age():
    records = [update(i, {"x": float(i)}, sealed_s=5.0 * i) for i in (1, 2, 3)]
    shown = picture(*records, at=head(15.0), age_s=4.0)
    assert (shown.samples, reading(shown, "x")) == (1, 3.0)
    assert shown.age_s == pytest.approx(4.0)


def test_the_window_does_not_empty_while_nothing_comes():
    series = Series()
    series.add(Batch((update(1, {"x": 7.0}),), head(1.0), connected=True))
    series.add(Batch((), head(601.0), connected=True))
    shown = series.picture()
    assert (shown.samples, reading(shown, "x"), shown.age_s) == (1, 7.0, 600.0)


def test_a_tag_is_averaged_over_the_updates_that_have_it():
    shown = picture(
        update(1, {"a": 1.0, "b": 5.0}, sealed_s=1.0),
        update(2, {"a": 3.0}, sealed_s=1.1),
        update(3, {"a": 5.0, "b": 7.0}, sealed_s=1.2),
    )
    assert (reading(shown, "a"), reading(shown, "b")) == (3.0, 6.0)


def test_a_supplement_joins_its_iteration_while_that_is_in_the_window():
    shown = picture(
        update(1, {"a": 1.0}, sealed_s=1.0),
        update(2, {"a": 3.0, "b": 4.0}, sealed_s=1.5),
        supplement(3, 1, {"b": 2.0}, 1.9),
    )
    assert reading(shown, "b") == 3.0
    assert shown.samples == 2


def test_a_clock_of_another_boot_starts_a_new_window():
    shown = picture(update(1, {"x": 1.0}, sealed_s=9000.0), update(2, {"x": 5.0}, sealed_s=0.5))
    assert (shown.samples, reading(shown, "x")) == (1, 5.0)


def test_attempts_are_never_averaged_together():
    opened = HistoryRecord(2, AttemptOpened(2, 0, SAC), ())
    shown = picture(
        update(1, {"x": 1.0}, sealed_s=1.0), opened, update(3, {"x": 5.0}, sealed_s=1.1, attempt=2)
    )
    assert (shown.samples, reading(shown, "x")) == (1, 5.0)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20))
def test_no_value_raises_or_touches_another_tag(values: list[float]):
    records = [
        update(i, {"bad": value, "good": 2.0}, sealed_s=i / 100)
        for i, value in enumerate(values, 1)
    ]
    shown = picture(*records)
    assert reading(shown, "good") == 2.0
    if any(math.isnan(value) for value in values):
        assert math.isnan(reading(shown, "bad"))


# --- timing ------------------------------------------------------------------------------


def timing(wall_ms: float, learning_ms: float, wait_ms: float = 0.0) -> dict[str, float]:
    return {
        "Perf/iteration_time": wall_ms / 1e3,
        "Perf/learning_time": learning_ms / 1e3,
        "Perf/learner_collector_wait_ms": wait_ms,
    }


def rows(shown: Picture) -> dict[str, tuple[float | None, float | None]]:
    assert shown.learner is not None
    return {row.label: (row.ms, row.percent) for row in shown.learner.rows}


def test_other_is_clamped_per_update_and_then_averaged():
    # The first update's phases exceed its wall by 2, the second leaves 4 unnamed.
    shown = picture(update(1, timing(10, 12)), update(2, timing(10, 6)))
    assert shown.learner is not None
    assert rows(shown)["Other"][0] == pytest.approx(2.0)
    assert rows(shown)["Iter Wall"] == (pytest.approx(10.0), pytest.approx(100.0))
    assert shown.learner.over_accounted


def test_walls_of_two_ranks_with_a_phase_on_one_add_up_without_an_alert():
    # Learning 6 and 10 of 10 and 10, 4 elsewhere on rank 0 only: reduced to 8 + 2.
    shown = picture(update(1, timing(10, 8, 2)))
    assert shown.learner is not None
    assert not shown.learner.over_accounted
    assert rows(shown)["Learning"][1] == pytest.approx(80.0)
    assert rows(shown)["Collector Wait"][1] == pytest.approx(20.0)
    assert rows(shown)["Other"][0] == pytest.approx(0.0)


def test_phases_beyond_the_wall_raise_the_alert_and_keep_the_wall():
    shown = picture(update(1, timing(10, 12)))
    assert shown.learner is not None
    assert shown.learner.over_accounted
    assert shown.learner.accounted_percent == pytest.approx(120.0)
    assert rows(shown)["Other"][0] == 0.0
    assert rows(shown)["Iter Wall"][1] == pytest.approx(100.0)


def test_without_a_timing_there_is_no_timeline():
    assert picture(update(1, {"Loss/actor": 1.0})).learner is None


def test_collector_rows_follow_their_order_and_the_one_percent_rule():
    shown = picture(
        update(
            1,
            {
                "Perf/collector_metrics_publish_ms": 0.7,
                "Perf/collector_replay_write_ms": 8.0,
                "Perf/collector_transition_extract_ms": 1.0,
                "Perf/collector_env_step_backend_ms": 25.0,
                "Perf/collector_env_step_ms": 30.0,
                "Perf/collector_learner_action_wait_ms": 60.0,
                "Perf/collector_inference_request_ms": 0.3,
            },
        )
    )
    assert shown.collector is not None
    assert [(row.label, row.percent) for row in shown.collector.rows] == [
        ("Learner Action Wait", pytest.approx(60.0)),
        ("Env Step", pytest.approx(30.0)),
        ("Backend Step", pytest.approx(25.0)),
        ("Transition Extract", pytest.approx(1.0)),
        ("Replay Write", pytest.approx(8.0)),
    ]


def collector(env_ms: float, publish_ms: float) -> dict[str, float]:
    return {
        "Perf/collector_inference_request_ms": 0.3,
        "Perf/collector_learner_action_wait_ms": 99.7 - env_ms - publish_ms,
        "Perf/collector_env_step_ms": env_ms,
        "Perf/collector_replay_write_ms": 0.0,
        "Perf/collector_metrics_publish_ms": publish_ms,
    }


def test_a_row_around_one_percent_stays_until_it_has_been_quiet_for_ten_seconds():
    series = Series()
    has_row: list[bool] = []
    for second in range(1, 20):
        loud = second == 3
        values = collector(30.0, 1.5 if loud else 0.4)
        series.add(Batch((update(4 * second, values, sealed_s=4.0 * second),), head(4.0 * second)))
        shown = series.picture().collector
        assert shown is not None
        rows = [row for row in shown.rows if row.label == "Metrics Publish"]
        has_row.append(bool(rows))
        if rows:
            assert rows[0].percent == pytest.approx(1.5 if loud else 0.4)
            assert shown.rows[-1] == rows[0]
    assert has_row == [False, False, True, True, True] + [False] * 14


def test_a_new_attempt_forgets_which_rows_were_shown():
    series = Series()
    series.add(Batch((update(1, collector(30.0, 1.5)),), head(1.0)))
    series.picture()
    opened = HistoryRecord(2, AttemptOpened(2, 0, SAC), ())
    later = update(3, collector(30.0, 0.4), sealed_s=2.0, attempt=2)
    series.add(Batch((opened, later), head(2.0, attempt=2)))
    shown = series.picture().collector
    assert shown is not None
    assert "Metrics Publish" not in [row.label for row in shown.rows]


# --- groups and newest values ------------------------------------------------------------


def test_losses_diagnostics_and_ingress_are_apart_and_in_order():
    tags = [
        "Train/replay_ingress_backpressure_wait_ms",
        "Train/critic_gradient_norm",
        "Policy/mean_std",
        "Loss/critic",
        "Loss/actor",
        "Perf/replay_ingress_h2d_submit_ms",
        "Perf/learner_inference_forward_ms",
        "mine",
        "reward/alive",
        "Terminal/num_envs",
    ]
    shown = picture(update(1, dict.fromkeys(tags, 1.0)))
    assert [metric.label for metric in shown.losses] == ["Actor", "Critic"]
    assert [metric.label for metric in shown.policy] == ["Mean Std"]
    assert [metric.label for metric in shown.diagnostics] == ["Critic Grad Norm"]
    assert [metric.label for metric in shown.ingress] == ["Ingress Backpressure"]
    assert [metric.label for metric in shown.rewards.terms] == ["alive"]
    assert [metric.label for metric in shown.others] == ["mine"]


def test_mps_without_evidence_is_off_and_absent_where_it_means_nothing():
    off_policy = picture(update(1, {"Loss/actor": 1.0}))
    assert [(m.tag, m.reading.value) for m in off_policy.system] == [("Terminal/mps", 0.0)]
    on_policy = picture(update(1, {"Loss/value": 1.0}), at=head(0.0, run=RunInfo("ppo")))
    assert on_policy.system == ()


def test_a_tag_that_left_the_window_keeps_its_newest_value_and_shows_its_age():
    shown = picture(
        update(1, {"rare": 3.0, "x": 1.0}, sealed_s=1.0),
        update(2, {"x": 1.0}, sealed_s=11.0),
        at=head(11.0),
        age_s=0.5,
    )
    rare = next(metric.reading for metric in shown.others if metric.tag == "rare")
    assert rare == (3.0, pytest.approx(10.5))


def snapshot(update_sequence: int, **values: float) -> Snapshot:
    count = len(values)
    sequences = struct.pack(f"<{count}q", *[update_sequence] * count)
    return Snapshot(1, EPOCH, update_sequence, tuple(values), pack(values), sequences)


def test_a_late_viewer_has_every_tag_from_the_snapshot():
    series = Series()
    series.add(Batch((), head(50.0), snapshot(60, old=1.0, x=2.0), connected=True))
    assert reading(series.picture(), "old") == 1.0
    series.add(Batch((update(61, {"x": 5.0}),), connected=True))
    shown = series.picture()
    assert (reading(shown, "old"), reading(shown, "x")) == (1.0, 5.0)


@given(st.integers(1, 20), st.permutations(list(range(3))))
def test_the_higher_update_sequence_wins_over_the_snapshot(at: int, order: list[int]):
    series = Series()
    batches = [
        Batch((update(5, {"rare": 5.0}), update(6, {"x": 0.0}, sealed_s=50.0)), connected=True),
        Batch((), head(50.0), snapshot(at, rare=-1.0), connected=True),
        Batch((), head(50.0), connected=True),
    ]
    for index in order:
        series.add(batches[index])
    assert reading(series.picture(), "rare") == (-1.0 if at > 5 else 5.0)


# --- time --------------------------------------------------------------------------------


def test_eta_is_elapsed_per_iteration_times_what_remains():
    shown = picture(update(1, {"x": 1.0}, iteration=25, elapsed_s=50.0))
    assert (shown.elapsed_s, shown.eta_s) == (50.0, 150.0)


def test_an_on_policy_run_counts_from_zero():
    run = RunInfo("ppo", max_iterations=100)
    shown = picture(update(1, {"x": 1.0}, iteration=24, elapsed_s=50.0), at=head(0.0, run=run))
    assert shown.eta_s == 150.0


@pytest.mark.parametrize("iteration", [0, 100, 101])
def test_eta_is_finite_or_unknown_at_the_edges(iteration: int):
    eta_s = picture(update(1, {"x": 1.0}, iteration=iteration)).eta_s
    assert eta_s in (None, 0.0)


# --- rewards -----------------------------------------------------------------------------


def course(*values: float) -> RewardCourse:
    made = RewardCourse()
    for index, value in enumerate(values):
        # Real reports differ in their last digits.
        made.add(value * (1 + 1e-9 * index))
    return made


@pytest.mark.parametrize(
    ("before", "after", "trend"),
    [
        (-100.0, -104.0, "falling"),
        (-104.0, -100.0, "rising"),
        (-100.0, -90.0, "rising"),
        (100.0, 110.0, "rising"),
        (100.0, 90.0, "falling"),
        (0.0, 1.0, "rising"),
        (-0.5, 0.5, "rising"),
        (100.0, 100.0, "steady"),
    ],
)
def test_the_trend_is_right_for_rewards_of_either_sign(before: float, after: float, trend: str):
    assert course(*[before] * 10, *[after] * 10).trend() == trend


def test_a_run_that_climbs_evenly_is_rising_and_noise_on_a_plateau_is_not():
    assert course(*(float(i) for i in range(200))).trend() == "rising"
    climbed = [float(i) for i in range(80)] + [80.0 + (i % 2) for i in range(20)]
    assert course(*climbed).trend() == "steady"


def test_there_is_no_trend_before_the_eleventh_report():
    assert course(*range(10)).trend() is None
    assert course(*range(11)).trend() == "rising"


@given(st.lists(st.floats(), max_size=400))
def test_history_is_bounded_and_the_peak_is_kept(values: list[float]):
    made = RewardCourse()
    for value in values:
        made.add(value)
    finite = [value for value in values if math.isfinite(value)]
    assert made.peak == (max(finite) if finite else None)
    assert len(made.history) <= 200
    made.trend()


def test_a_report_that_updates_repeat_counts_once():
    records = [update(i, {"Train/mean_reward": float(i // 5)}) for i in range(1, 51)]
    assert picture(*records).rewards.history == tuple(float(i) for i in range(11))


def test_the_whole_run_is_kept_in_a_bounded_number_of_points():
    made = RewardCourse()
    for iteration in range(1, 100_001):
        made.add(float(iteration), iteration)
    whole, recent = made.whole(), made.recent()
    assert whole.span == (1, 100_000)
    assert recent.span == (99_801, 100_000)
    assert len(whole.values) <= 400
    assert list(whole.values) == sorted(whole.values)
    assert whole.values[0] < 400
    assert whole.values[-1] > 99_600


def test_an_ended_run_shows_its_whole_course_and_a_live_one_the_last_reports():
    series = Series()
    records = [update(i, {"Train/mean_reward": float(i)}) for i in range(1, 302)]
    series.add(Batch(tuple(records), head(301.0), connected=True))
    live = series.picture().rewards
    assert (live.span, len(live.history), live.whole_run) == ((102, 301), 200, False)
    series.add(Batch((HistoryRecord(302, RunEnded(1, "completed", 0), ()),)))
    ended = series.picture().rewards
    assert (ended.span, len(ended.history), ended.whole_run) == ((1, 301), 301, True)


# --- stages ------------------------------------------------------------------------------


def test_stages_from_connecting_to_ended():
    series = Series()
    assert series.picture().stage == "connecting"
    series.add(Batch((), head(1.0), connected=True))
    assert series.picture().stage == "waiting"
    series.add(Batch((event(1, "status", "filling", fill=0.25),), connected=True))
    progress = series.picture().progress
    assert progress is not None
    assert (progress.fraction, progress.text) == (0.25, "filling")
    series.add(Batch((update(2, {"x": 1.0}),), connected=True))
    assert (series.picture().stage, series.picture().progress) == ("training", None)
    series.add(Batch((HistoryRecord(3, RunEnded(1, "failed", 0), ()),), connected=True))
    assert (series.picture().stage, series.picture().ended) == ("ended", "failed")


def test_a_new_attempt_is_not_ended():
    series = Series()
    series.add(Batch((HistoryRecord(1, RunEnded(1, "failed", 0), ()),), head(1.0, ended="failed")))
    series.add(Batch((HistoryRecord(2, AttemptOpened(2, 0, SAC), ()),)))
    assert series.picture().ended is None


def test_configuration_and_summary_events_are_no_notes():
    shown = picture(event(1, "config", "{}"), event(2, "summary"), event(3, "warning", "look"))
    assert [note.text for note in shown.notes] == ["look"]


def test_an_event_of_all_ranks_is_one_note_with_its_ranks():
    shown = picture(
        event(1, "training_started", rank=1),
        event(2, "training_started", rank=0),
        event(3, "status", "again", rank=0),
        event(4, "status", "again", rank=0),
    )
    assert [(note.text, note.ranks) for note in shown.notes] == [
        ("training started", (0, 1)),
        ("again", (0,)),
        ("again", (0,)),
    ]


def test_refusals_are_named_once_and_push_nothing_out():
    refusals = [
        event(i, "warning", f"tag_{i % 80}: None is no number", reason="bad_value", rank=i % 2)
        for i in range(1, 400)
    ]
    shown = picture(event(0, "checkpoint", "model_1.pt"), *refusals)
    assert shown.notes[0].text == "model_1.pt"
    assert len(shown.notes) <= 51
    assert shown.refused[:2] == ("tag_1", "tag_2")
    assert len(shown.refused) == len(set(shown.refused)) == 64
    assert shown.refused_more >= 16


def test_a_warning_that_refuses_nothing_is_an_event_like_others():
    shown = picture(event(1, "warning", "rank 1: is late"))
    assert (shown.refused, shown.notes[0].refused) == ((), False)


# --- contact -----------------------------------------------------------------------------


def statuses(state: str, age_s: float) -> tuple[SourceStatus, ...]:
    return tuple(
        SourceStatus(SourceKey(rank, "learner"), 1, "here", state, age_s, None, 1, 1, {"quota": 2})
        for rank in (0, 1)
    )


def heard(mono_s: float, sources: tuple[SourceStatus, ...], counter: int = 1) -> Batch:
    made = structs.replace(head(mono_s), sources=sources, epoch=Epoch(b"j" * 16, counter))
    return Batch((), made, connected=True)


def test_sources_that_a_new_aggregator_has_not_heard_are_awaited_and_not_silent():
    series = Series()

    def states() -> set[str]:
        return {source.state for source in series.picture().sources}

    series.add(heard(1.0, statuses("live", 0.1)))
    assert series.picture().restarted_s is None
    series.add(heard(2.0, statuses("live", 0.0), 2))
    assert series.picture().restarted_s == 0.0
    series.add(heard(8.0, statuses("silent", 6.1), 2))
    assert states() == {"awaited"}
    assert series.picture().restarted_s == 6.0
    series.add(heard(9.0, statuses("live", 0.2), 2))
    assert states() == {"live"}
    # Heard, and silent again: that is its own.
    series.add(heard(15.0, statuses("silent", 5.5), 2))
    assert states() == {"silent"}


def test_a_source_that_does_not_come_back_is_silent_at_last():
    series = Series()
    series.add(heard(1.0, statuses("live", 0.1)))
    series.add(heard(2.0, statuses("live", 0.0), 2))
    series.add(heard(18.0, statuses("silent", 16.0), 2))
    assert {source.state for source in series.picture().sources} == {"silent"}
    assert series.picture().restarted_s is None


def test_what_was_dropped_is_unknown_where_nobody_says_it():
    series = Series()
    series.add(Batch((update(1, {"x": 1.0}), HistoryRecord(2, RunEnded(1, "completed", 0), ()))))
    assert series.picture().dropped is None
    series.add(Batch(dropped=1600))
    assert series.picture().dropped == 1600
    series.add(heard(1.0, statuses("live", 0.1)))
    assert series.picture().dropped == 6


def test_files_without_an_aggregator_are_no_contact():
    series = Series()
    assert series.picture().silent_s == 0
    series.add(Batch((update(1, {"x": 1.0}),)))
    assert math.isinf(series.picture().silent_s)


def test_half_of_a_history_is_never_shown():
    series = Series()
    series.add(Batch((HistoryRecord(1, AttemptOpened(1, 0, SAC), ()), update(2, {"x": 1.0})),
                     behind=True))  # fmt: skip
    loading = series.picture()
    assert (loading.stage, loading.iteration, loading.run) == ("loading", None, SAC)
    series.add(Batch((update(3, {"x": 1.0}),)))
    assert series.picture().iteration == 3


def test_events_of_an_ended_run_are_told_from_its_end():
    series = Series()
    series.add(Batch((event(1, "checkpoint", "a.pt", at_s=10.0), update(2, {"x": 1.0}))))
    assert series.picture().note_reference == "last entry"
    series.add(Batch((HistoryRecord(3, RunEnded(1, "completed", 25 * S), ()),)))
    shown = series.picture()
    assert (shown.note_reference, shown.notes[0].age_s) == ("end", 15.0)
