"""One rank of the demo without a bus: ``python demo_rank.py FOLDER [key=value ...]``.

Each process writes what it would publish into a file of its own in FOLDER, one JSON object
per line: ``learner-<rank>.jsonl`` and ``collector-<rank>.jsonl``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from unilab_metrics.demo.job_options import JobOptions
from unilab_metrics.demo.metrics import Metrics
from unilab_metrics.demo.options import parse_options
from unilab_metrics.publish.episodes import EpisodeStatistics
from unilab_metrics.publish.phases import PhaseClock

FOLDER_VARIABLE = "UNILAB_DEMO_TEST_FOLDER"


class FileMetrics:
    """A publisher's phases and episode statistics, with a file instead of a spool."""

    def __init__(self, role: str) -> None:
        folder = Path(os.environ[FOLDER_VARIABLE])
        self._file = (folder / f"{role}-{os.environ.get('RANK', '0')}.jsonl").open("w")
        self._phases = PhaseClock(role, "sac")
        self._readings: dict[str, float] = {}
        self.episodes = EpisodeStatistics()
        self._say("opened", pid=os.getpid())

    def log(
        self,
        values: Mapping[str, Any],
        *,
        iteration: int | None = None,
        env_steps: int | None = None,
    ) -> None:
        numbers = {tag: float(value) for tag, value in values.items()}
        numbers |= self._phases.collect(time.monotonic_ns()) | self.episodes.collect()
        gauges = {f"gauge/{name}": value for name, value in self._readings.items()}
        self._say("log", iteration=iteration, env_steps=env_steps, values=numbers | gauges)

    def start_training(self, env_steps: int = 0) -> None:
        self._say("start_training", env_steps=env_steps)

    def start_iteration(self) -> None:
        self._phases.start_iteration()

    def phase(self, name: str) -> AbstractContextManager[object]:
        return self._phases.phase(name, strict=True)

    def add_phase_ns(self, name: str, duration_ns: int) -> None:
        self._phases.add_ns(name, duration_ns, strict=True)

    def tick(self) -> None:
        self._phases.tick()

    def gauges(self, *, inference: Mapping[str, float]) -> None:
        self._readings = dict(inference)

    def event(
        self, kind: str, text: str = "", *, iteration: int | None = None, **data: Any
    ) -> None:
        self._say("event", kind=kind, text=text, iteration=iteration, data=data)

    def set_summary(self, **fields: Any) -> None:
        self._say("summary", **fields)

    def close(self, timeout_s: float = 30.0, status: str = "completed") -> bool:
        self._say("closed", status=status, timeout_s=timeout_s)
        self._file.close()
        return True

    def _say(self, what: str, **fields: Any) -> None:
        print(json.dumps({"what": what, **fields}), file=self._file, flush=True)


def open_learner(_options: JobOptions) -> tuple[Metrics, Path]:
    return FileMetrics("learner"), Path(os.environ[FOLDER_VARIABLE])


def open_collector(_options: JobOptions) -> Metrics:
    return FileMetrics("collector")


def main() -> int:
    from unilab_metrics.demo.train import train_rank

    os.environ[FOLDER_VARIABLE] = sys.argv[1]
    return train_rank(
        parse_options(sys.argv[2:]),
        learner_metrics=open_learner,
        collector_metrics=open_collector,
    )


if __name__ == "__main__":
    sys.exit(main())
