"""The options of the demo's SAC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Meta

from unilab_metrics.demo.job_options import JobOptions, LearningOptions, Positive, Rate, RunOptions
from unilab_metrics.demo.overrides import OptionError, read_overrides

Slots = Annotated[int, Meta(ge=1, le=16)]


class TrainingOptions(RunOptions, frozen=True, forbid_unknown_fields=True):
    """How the job runs; the words of the logging document.

    ``collector_metrics_interval``: ticks per collector report. ``env_steps_per_sync``: ticks
    that the learner serves per iteration. ``replay_ingress_slot_rows``: rows per ring slot, a
    multiple of ``algo.num_envs``; ``None`` is one tick.
    """

    env_steps_per_sync: Positive = 1
    collector_metrics_interval: Annotated[int, Meta(ge=1, le=10_000)] = 1
    inference_slot_capacity: Slots = 1
    replay_ingress_depth: Slots = 2
    replay_ingress_slot_rows: Positive | None = None


class AlgoOptions(LearningOptions, frozen=True, forbid_unknown_fields=True):
    """SAC and its budget. Sizes are per rank; ``learning_starts`` counts replay rows."""

    max_iterations: Positive = 2500
    updates_per_step: Positive = 4
    batch_size: Positive = 256
    buffer_size: Positive = 65_536
    learning_starts: Positive = 4_096
    tau: Rate = 0.01
    initial_temperature: Annotated[float, Meta(gt=0.0)] = 0.1


class DemoOptions(JobOptions, frozen=True, forbid_unknown_fields=True):
    """Everything that a rank of SAC needs to know; identical on all ranks."""

    algorithm: ClassVar[str] = "sac"

    training: TrainingOptions = TrainingOptions()
    algo: AlgoOptions = AlgoOptions()

    @property
    def slot_rows(self) -> int:
        """Rows of one ingress slot."""
        return self.training.replay_ingress_slot_rows or self.algo.num_envs

    @property
    def slots_per_iteration(self) -> int:
        """Ingress slots that an iteration's ticks fill, at least 1."""
        rows = self.training.env_steps_per_sync * self.algo.num_envs
        return max(rows // self.slot_rows, 1)


KNOWN_KEYS = tuple(DemoOptions().flat())


def parse_options(overrides: Sequence[str] = (), *, iterations: int | None = None) -> DemoOptions:
    """SAC's options, see :func:`unilab_metrics.demo.overrides.read_overrides`.

    Raises :class:`OptionError`, also for combinations that cannot run.
    """
    options = read_overrides(DemoOptions, overrides, iterations=iterations)
    _check_together(options)
    return options


def _check_together(options: DemoOptions) -> None:
    algo = options.algo
    if options.slot_rows % algo.num_envs:
        raise OptionError(
            "training.replay_ingress_slot_rows",
            f"{options.slot_rows} is no multiple of algo.num_envs={algo.num_envs}",
        )
    if algo.learning_starts > algo.buffer_size:
        raise OptionError(
            "algo.learning_starts",
            f"{algo.learning_starts} rows never fit into algo.buffer_size={algo.buffer_size}",
        )
    if options.slot_rows > algo.buffer_size:
        raise OptionError(
            "algo.buffer_size", f"smaller than one ingress slot of {options.slot_rows} rows"
        )
