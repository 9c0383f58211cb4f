"""What a publisher leaves in its spool beside iterations, from several threads, and at its end."""

from __future__ import annotations

import math
import signal
import threading
import warnings
from pathlib import Path

import msgspec
import numpy as np
import pytest
from spooled import Make, of_kind, payloads_of, spooled_publisher, values_of

from unilab_metrics.publish.opening import disabled_publisher
from unilab_schema.codec import RecordKind
from unilab_schema.identity import RunInfo, SourceKey

torch = pytest.importorskip("torch")


def test_a_collector_reports_on_its_own_clock(make: Make) -> None:
    publisher = make(role="collector")
    for _ in range(2):
        with publisher.phase("env_step"):
            pass
        publisher.tick()
        publisher.episodes.step(np.ones(2), np.array([True, False]), np.array([False, False]))
    publisher.gauges(inference={"queue_depth": 3, "in_flight": torch.tensor(2)})
    publisher.gauges(inference={"queue_depth": 1, "in_flight": 1})
    publisher.log({"reward/run": 0.5}, env_steps=64)
    (report,) = of_kind(publisher, RecordKind.REPORT)
    assert report.env_steps == 64
    (values,) = values_of(publisher)
    assert values.pop("Perf/collector_env_step_ms") < 1.0
    assert values == {
        "reward/run": 0.5,
        "Train/mean_reward": 1.0,
        "Train/mean_episode_length": 1.0,
        "Episode/timeout_rate": 0.0,
        "Perf/collector_inference_queue_depth": 1.0,
        "Perf/collector_inference_in_flight": 1.0,
        "Perf/collector_inference_max_in_flight": 2.0,
    }


def test_a_collector_gives_no_iteration(make: Make) -> None:
    publisher = make(role="collector")
    publisher.log({"a": 1.0}, iteration=3)
    assert len(of_kind(publisher, RecordKind.REPORT)) == 1
    assert publisher.dropped == {"bad_call": 1}
    with pytest.raises(ValueError, match="own clock"):
        make(role="collector", strict=True).log({"reward/x": 1.0}, iteration=3)


def test_a_bad_episode_step_is_counted(make: Make) -> None:
    publisher = make(role="collector")
    publisher.episodes.step(np.ones(2), np.ones(3))
    publisher.episodes.step("x", None)
    assert publisher.dropped == {"bad_call": 2}
    with pytest.raises(ValueError, match="environments"):
        make(role="collector", strict=True).episodes.step(np.ones(2), np.ones(3))


def test_points_blobs_spans_and_events(make: Make) -> None:
    publisher = make()
    publisher.point("eval/score", np.float32(0.5), 7, unix_ns=123)
    publisher.points([("a", 1.0, 1), ("b", "bad", 1), ("c", 3.0, 1)])
    publisher.text("notes", "héllo", 1)
    publisher.histogram("w", torch.arange(100.0), 2)
    publisher.image("img", b"\x89PNG" + bytes(300_000), 3)
    publisher.span("step", "learner", "main", 10, 5, tick=np.int64(4))
    publisher.event("checkpoint", "saved", iteration=7, path="/x", size=np.float32(1.5), ok=True)
    publisher.set_summary(final_mean_reward=1.0)
    first, second = of_kind(publisher, RecordKind.POINTS)
    assert msgspec.structs.astuple(first.points[0]) == ("eval/score", 0.5, 7, 123)
    assert [point.tag for point in second.points] == ["a", "c"]
    text, histogram, *image = of_kind(publisher, RecordKind.BLOB)
    assert (text.kind, text.tag, text.data.decode()) == ("text", "notes", "héllo")
    limits, counts, low, high, total, number_sum, squares = msgspec.msgpack.decode(histogram.data)
    assert (low, high, total, number_sum) == (0.0, 99.0, 100, 4950.0)
    assert len(limits) == len(counts) == 65
    assert (limits[0], counts[0], limits[-1], sum(counts)) == (0.0, 0, 99.0, 100)
    assert squares == sum(n * n for n in range(100))
    assert [chunk.part for chunk in image] == [0, 1, 2]
    assert {(chunk.parts, chunk.blob, chunk.mime) for chunk in image} == {(3, 3, "image/png")}
    assert b"".join(chunk.data for chunk in image) == b"\x89PNG" + bytes(300_000)
    (span,) = of_kind(publisher, RecordKind.SPAN)
    assert (span.duration_ns, span.args) == (5, {"tick": 4})
    checkpoint, summary = (e for e in of_kind(publisher, RecordKind.EVENT) if e.kind != "warning")
    assert (checkpoint.iteration, checkpoint.data) == (7, {"path": "/x", "size": 1.5, "ok": True})
    assert (summary.kind, summary.data) == ("summary", {"final_mean_reward": 1.0})
    assert publisher.dropped == {"bad_value": 1}


def test_nonsense_is_counted_and_never_raised(make: Make) -> None:
    publisher = make()
    publisher.log(None, iteration=0)  # type: ignore[arg-type]
    publisher.log([1, 2], iteration=0)  # type: ignore[arg-type]
    publisher.histogram("h", [math.nan], 0)
    publisher.image("i", 17, 0)  # type: ignore[arg-type]
    publisher.span("s", "c", "t", "soon", 1)  # type: ignore[arg-type]
    publisher.gauges(inference={"height": 1})
    publisher.add_phase_ns("x", "long")  # type: ignore[arg-type]
    publisher.define_metric("two*stars*")
    publisher.start_training(env_steps="many")
    publisher.event("status", "x" * 400_000)
    assert "internal_error" not in publisher.dropped
    assert publisher.dropped["bad_call"] == 6
    publisher.log({"a": 1.0}, iteration=1)
    assert values_of(publisher) == [{"a": 1.0}]
    assert publisher.errors


def test_threads_and_the_loop_log_at_once(make: Make) -> None:
    publisher = make()

    def report(name: str) -> None:
        for number in range(100):
            publisher.point(name, number, number)
            publisher.event("status", name)

    threads = [threading.Thread(target=report, args=(f"t{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for iteration in range(100):
        publisher.log({f"k{iteration % 7}": 1.0}, iteration=iteration)
    for thread in threads:
        thread.join()
    sequences = [sequence for sequence, _, _ in payloads_of(publisher)]
    assert sequences == list(range(1, len(sequences) + 1))
    assert len(of_kind(publisher, RecordKind.POINTS)) == 300
    assert len(of_kind(publisher, RecordKind.ITERATION)) == 100


def test_close_writes_the_end_and_later_calls_are_counted(make: Make) -> None:
    publisher = make()
    publisher.log({"a": 1.0, "b": "x"}, iteration=0)
    assert not publisher.close(0, status="failed")
    assert not publisher.close(0)
    (end,) = of_kind(publisher, RecordKind.END)
    assert (end.status, end.drops) == ("failed", {"bad_value": 1})
    publisher.log({"a": 1.0}, iteration=1)
    publisher.event("status", "too late")
    assert publisher.dropped == {"bad_value": 1, "closed": 2}


def test_a_with_block_closes_with_its_outcome(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unilab_metrics.publish.publisher.CLOSE_TIMEOUT_S", 0.0)
    publisher = make()
    with pytest.raises(RuntimeError), publisher:
        raise RuntimeError
    (end,) = of_kind(publisher, RecordKind.END)
    assert end.status == "failed"


def test_without_a_place_for_a_spool_calls_are_counted_and_one_warning_is_given(
    tmp_path: Path,
) -> None:
    (tmp_path / "launch").write_text("a file where a directory should be")
    publisher = spooled_publisher(tmp_path)
    with pytest.warns(RuntimeWarning, match="not logged"):
        publisher.log({"a": 1.0}, iteration=0)
    publisher.log({"a": 1.0}, iteration=1)
    with publisher.phase("learning"):
        publisher.event("status", "still here")
    assert publisher.dropped == {"spool_unavailable": 2}, "what is said once waits for the run"
    with pytest.warns(RuntimeWarning, match="no aggregator could be told"):
        assert not publisher.close(0)


def test_a_disabled_publisher_does_nothing() -> None:
    publisher = disabled_publisher(SourceKey(0, "learner"), RunInfo("sac"))
    before = threading.active_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        publisher.log({"a": 1.0}, iteration=0)
        publisher.start_iteration()
    assert threading.active_count() == before
    assert publisher.dropped == {}
    assert (publisher.rank, publisher.role, publisher.unsent) == (0, "learner", 0)
    publisher.close()


def test_two_threads_and_a_signal_handler_log_at_once(make: Make) -> None:
    publisher = make()
    handled = 0

    def handler(*_: object) -> None:
        nonlocal handled
        handled += 1
        publisher.event("status", f"signal {handled}")

    def report(name: str) -> None:
        for number in range(200):
            publisher.point(name, number, number)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        threads = [threading.Thread(target=report, args=(f"t{n}",)) for n in range(2)]
        for thread in threads:
            thread.start()
        iteration = 0
        while handled < 20 or iteration < 200:
            iteration += 1
            publisher.log({"a": 1.0}, iteration=iteration)
        for thread in threads:
            thread.join()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    sequences = [sequence for sequence, _, _ in payloads_of(publisher)]
    assert sequences == list(range(1, len(sequences) + 1))
    assert len(of_kind(publisher, RecordKind.POINTS)) == 400
    assert len(of_kind(publisher, RecordKind.ITERATION)) == iteration
    assert len(of_kind(publisher, RecordKind.EVENT)) == handled
