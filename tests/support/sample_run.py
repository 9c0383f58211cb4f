"""A SAC run on two ranks as a subscriber would see it, made up but consistent.

Loaded by the fixtures of this folder, and a program of its own for tests that need the app
in a real terminal: ``python sample_run.py [--end-after N] [--plain] [--exit-with-run] [--no-unicode]``.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import struct
import sys
import time

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.earlier_runs import EarlierRuns
from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.subscribe.past_files import Stretch
from unilab_schema.control import BackendStatus, Epoch, Head, SourceFigures, SourceStatus
from unilab_schema.frames import EventFrame
from unilab_schema.identity import RunInfo, SourceKey
from unilab_schema.requests import Blocks, Console, ConsolePiece, RankValues, Snapshot
from unilab_schema.updates import AttemptOpened, EventUpdate, RunEnded, Update
from unilab_sidecar.feeding.batch import Batch

RUN = RunInfo("sac", "cart_pole_balance", "numpy", "env_steps", 3000, strict=True, world_size=2)
START_UNIX_NS = 1_772_000_000_000_000_000
WALL_S = 0.054
A_SECOND = 18
"""Iterations, about."""


def pack(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def values_of(iteration: int, chance: random.Random) -> dict[str, float]:
    """All tags of a SAC update."""
    progress = 1 - math.exp(-iteration / 500)
    jitter = chance.gauss
    learning_ms = 38.0 + jitter(0, 1.2)
    wall_ms = learning_ms + 15.2 + jitter(0, 0.3)
    inference = 3.1 + jitter(0, 0.1)
    return {
        "Train/iteration": float(iteration),
        "Train/mean_reward": -120 + 560 * progress + 24 * math.sin(iteration / 90) + jitter(0, 2),
        "Train/mean_episode_length": 40 + 420 * progress + jitter(0, 1),
        "Episode/timeout_rate": min(0.9 * progress, 1.0),
        "Loss/entropy": 1.42 * (1 - 0.8 * progress),
        "Loss/actor": -31.2 * progress + jitter(0, 0.3),
        "Loss/critic": 4.1 * (1 - 0.7 * progress) + abs(jitter(0, 0.1)),
        "Loss/temperature": -0.031 + jitter(0, 0.002),
        "Loss/learning_rate": 3e-4,
        "Policy/mean_std": 0.92 - 0.6 * progress,
        "Policy/temperature": 0.2 * (1 - 0.7 * progress),
        "Train/actor_gradient_norm": 1.9 + jitter(0, 0.2),
        "Train/critic_gradient_norm": 6.4 + jitter(0, 0.6),
        "Train/target_q_max": 88.0 * progress,
        "Train/target_q_min": -14.0 + jitter(0, 0.3),
        "Train/reward_scale_std": 1.31,
        "Train/replay_ingress_depth": 4.0,
        "Train/replay_ingress_occupancy": 1.0,
        "Train/replay_ingress_high_water": 3.0,
        "Train/replay_ingress_backpressure_wait_ms": 0.42 * iteration / 10,
        "Train/replay_ingress_dropped_batches": 0.0,
        "Perf/total_fps": 2 * 128 / (wall_ms / 1000),
        "Perf/iteration_time": wall_ms / 1000,
        "Perf/learning_time": learning_ms / 1000,
        "Perf/learner_collector_wait_ms": 7.4 + jitter(0, 0.3),
        "Perf/learner_inference_ms": inference,
        "Perf/learner_inference_h2d_ms": 0.4,
        "Perf/learner_inference_forward_ms": 2.1,
        "Perf/learner_inference_d2h_ms": 0.5,
        "Perf/learner_collector_release_ms": 0.08,
        "Perf/learner_replay_batch_wait_ms": 0.71 + jitter(0, 0.05),
        "Perf/learner_replay_sample_ms": 2.3 + jitter(0, 0.1),
        "Perf/replay_ingress_h2d_submit_ms": 0.35,
        "Perf/collector_inference_request_ms": 0.21,
        "Perf/collector_learner_action_wait_ms": 38.9 + jitter(0, 0.8),
        "Perf/collector_env_step_ms": 9.6 + jitter(0, 0.4),
        "Perf/collector_env_step_backend_ms": 7.8 + jitter(0, 0.2),
        "Perf/collector_env_step_update_state_ms": 1.1,
        "Perf/collector_env_step_reset_done_ms": 0.2,
        "Perf/collector_transition_extract_ms": 1.3,
        "Perf/collector_replay_write_ms": 2.4 + jitter(0, 0.2),
        "Perf/collector_metrics_publish_ms": 0.05,
        "reward/upright": 0.4 + 0.55 * progress,
        "reward/centred": 0.2 + 0.7 * progress,
        "reward/effort": -0.31 * (1 - 0.5 * progress),
        "reward/alive": 1.0,
        "Terminal/replay_rows_per_s": 2 * 4096 / (wall_ms / 1000),
        "Terminal/buffer_size": min(256.0 * iteration, 400_000.0),
        "Terminal/buffer_capacity": 400_000.0,
        "Terminal/num_envs": 256.0,
        "Terminal/batch_per_rank": 1024.0,
    }


class SampleRun:
    """Makes the run's history entries and announcements, one iteration after another."""

    def __init__(self, seed: int = 7, run: RunInfo = RUN) -> None:
        self._chance = random.Random(seed)
        self._run = run
        self.sequence = 0
        self.iteration = 0
        self.mono_ns = 1_000_000_000_000
        self.ended: str | None = None

    def open_attempt(self) -> HistoryRecord:
        return self._record(AttemptOpened(1, START_UNIX_NS, self._run))

    def event(self, kind: str, text: str, **data: float) -> HistoryRecord:
        frame = EventFrame(kind, text, self.mono_ns, self._unix_ns(), None, dict(data))
        return self._record(EventUpdate(1, SourceKey(0, "learner"), frame))

    def update(self, changed: dict[str, float] | None = None) -> HistoryRecord:
        self.iteration += 1
        self.mono_ns += round(WALL_S * 1e9)
        values = values_of(self.iteration, self._chance) | (changed or {})
        entry = Update(
            attempt=1,
            iteration=self.iteration,
            env_steps=256 * self.iteration,
            unix_ns=self._unix_ns(),
            sealed_mono_ns=self.mono_ns,
            elapsed_s=self.iteration * WALL_S,
            ranks_reported=2,
            ranks_expected=2,
            layout=1,
            values=pack(list(values.values())),
        )
        return self._record(entry, tuple(values))

    def end(self, status: str = "completed") -> HistoryRecord:
        self.ended = status
        return self._record(RunEnded(1, status, self._unix_ns()))

    def head(self, states: tuple[str, ...] = ("live", "live", "live", "live")) -> Head:
        keys = [SourceKey(rank, role) for rank in (0, 1) for role in ("learner", "collector")]
        sources = tuple(
            SourceStatus(key, 48211 + 7 * place, "node-a", state, 0.05 if state == "live" else 41.0,
                         0.08 if state == "live" else 42.0, self.sequence, 0,
                         figures=self._figures(place))
            for place, (key, state) in enumerate(zip(keys, states, strict=True))
        )  # fmt: skip
        is_over = self.ended is not None and "live" not in states
        behind, unsynced = (0, 0) if is_over else (4, 2)
        state = "finished" if is_over else "running"
        writer = BackendStatus("tensorboard", state, max(self.sequence - behind, 0), 48240)
        return Head(
            epoch=Epoch(b"0123456789abcdef", 1),
            update=self.sequence,
            durable=max(self.sequence - unsynced, 0),
            attempt=1,
            run=self._run,
            run_dir="logs/sac/cart_pole_balance/2026-03-09_18-30-00_numpy",
            sources=sources,
            backends=(writer,),
            mono_ns=self.mono_ns,
            unix_ns=self._unix_ns(),
            ended=self.ended,
        )

    def _figures(self, place: int) -> SourceFigures:
        """Now and then a frame waits, and a commit takes a little longer."""
        wave = math.sin(self.iteration / 25 + place)
        calls = self.sequence * (1 if place % 2 else 8)
        return SourceFigures(
            int(2 + 2 * wave), calls, calls * (9_000 + 3_000 * place), 6.0 + 3 * wave + place
        )

    def batch(self, *records: HistoryRecord, **more: object) -> Batch:
        return Batch(tuple(records), self.head(), connected=True, head_age_s=0.05, **more)  # type: ignore[arg-type]

    def _unix_ns(self) -> int:
        return START_UNIX_NS + self.mono_ns - 1_000_000_000_000

    def _record(self, entry: object, tags: tuple[str, ...] = ()) -> HistoryRecord:
        self.sequence += 1
        return HistoryRecord(self.sequence, entry, tags)  # type: ignore[arg-type]


def node_of(iteration: int) -> dict[str, float]:
    """What the aggregator samples once a second: two GPUs, and a container with a quota."""
    gib, wave = 2.0**30, math.sin(iteration / 40)
    values = {
        "Node/0/cpu_percent": 43.0 + 4 * wave,
        "Node/0/cpu_quota_processors": 16.0,
        "Node/0/memory_used_bytes": (21.4 + 0.001 * iteration) * gib,
        "Node/0/memory_total_bytes": 64 * gib,
    }
    for index in (0, 1):
        place = f"Node/0/gpu{index}"
        values |= {
            f"{place}/util_percent": 87.0 - 3 * index + 2 * wave,
            f"{place}/memory_used_bytes": (11.3 + 0.4 * index) * gib,
            f"{place}/memory_total_bytes": 80 * gib,
            f"{place}/temperature_c": 64.0 - 2 * index + wave,
            f"{place}/power_w": 231.0 - 6 * index + 5 * wave,
        }
    return values


def whole_run(
    iterations: int = 1240, *, info: RunInfo = RUN, after: int = 0
) -> tuple[SampleRun, list[Batch]]:
    """A run in the middle of its training, with a few events; resumed at an iteration."""
    run = SampleRun(run=info)
    run.iteration = after
    batches = [run.batch(run.open_attempt())]
    batches.append(run.batch(run.event("status", "warm-up: 5120 of 5120 replay rows", fill=1.0)))
    batches.append(run.batch(run.event("training_started", "")))
    for iteration in range(after + 1, after + iterations + 1):
        records = [run.update(node_of(iteration) if iteration % A_SECOND == 1 else None)]
        if iteration % 500 == 0:
            records.append(run.event("checkpoint", f"checkpoint model_{iteration}.pt"))
        batches.append(run.batch(*records))
    return run, batches


class FakeSource:
    """A subscriber whose run goes on by itself, about as fast as a real one."""

    def __init__(self, end_after: int | None = None) -> None:
        self._run, batches = whole_run(100)
        self._waiting = [record for batch in batches for record in batch.records]
        self._end_after = end_after
        self.head: Head | None = self._run.head()
        self.connected = True
        self.refusal: UnilabMetricsError | None = None
        self.closed = False

    def poll(self, timeout_ms: int) -> list[HistoryRecord]:
        if self._waiting:
            records, self._waiting = self._waiting, []
            return records
        time.sleep(timeout_ms / 1000)
        if self._run.ended is not None:
            return []
        if self._end_after is not None and self._run.iteration >= 100 + self._end_after:
            records = [self._run.end()]
        else:
            records = [self._run.update(), self._run.update()]
        self.head = self._run.head()
        return records

    def snapshot(self) -> Snapshot | None:
        return None

    cursor: int | None = None
    restarts = 0
    reads_files = True
    lost_entries = passed_over = 0
    keeps_up = False
    late_s = 0.0
    earlier = EarlierRuns(None)

    def newest(self) -> int:
        return 0

    def ranks(self, tags: tuple[str, ...]) -> RankValues | NoAnswer | None:
        return NoAnswer("nobody to ask")

    def console(self, asked: Console) -> ConsolePiece | NoAnswer | None:
        return ConsolePiece(0, begins=True)

    def pace(self, speed: float | None, to: int | None, *, is_paused: bool | None) -> None:
        return None

    def bins(self, tags: tuple[str, ...], after: int) -> Blocks | NoAnswer | None:
        return NoAnswer("nobody to ask")

    def stretch(
        self, after: int, limit: int, tags: tuple[str, ...] = (), kinds: tuple[int, ...] = ()
    ) -> Stretch | NoAnswer | None:
        del tags, kinds
        return NoAnswer("nobody to ask")

    def close(self) -> None:
        self.closed = True


def main() -> int:
    from unilab_sidecar.app import SidecarApp
    from unilab_sidecar.feeding.feed import Feed
    from unilab_sidecar.printed.plain import run_plain
    from unilab_sidecar.terminal.charsets import shows_unicode

    parser = argparse.ArgumentParser()
    parser.add_argument("--end-after", type=int)
    parser.add_argument("--exit-with-run", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--no-unicode", action="store_true")
    options = parser.parse_args()
    feed = Feed(lambda: FakeSource(options.end_after), wait_for_bus=False)
    if options.plain:
        import threading

        thread = threading.Thread(target=feed.run)
        thread.start()
        run_plain(feed, print)
        feed.stop()
        thread.join()
        return 0
    unicode = shows_unicode(os.environ) and not options.no_unicode
    app = SidecarApp(
        feed, exit_with_run=options.exit_with_run, unicode=unicode, environ=dict(os.environ)
    )
    app.run(mouse=False)
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
