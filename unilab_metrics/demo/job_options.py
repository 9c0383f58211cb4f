"""The options that a training of any algorithm has."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from unilab_metrics.demo.slow import SlowOptions

Positive = Annotated[int, Meta(ge=1)]
Rate = Annotated[float, Meta(gt=0.0, le=1.0)]
Discount = Annotated[float, Meta(ge=0.0, lt=1.0)]
Logger = Literal["tensorboard"]


class RunOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the job logs; the words of the logging document.

    ``log_dir``: the run directory itself instead of a new one below ``log_root``.
    """

    logger: Logger = "tensorboard"
    log_interval: Positive = 1
    log_root: str = "logs"
    log_dir: str | None = None
    checkpoint_interval: Positive = 500


class LearningOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every algorithm learns with. Sizes are per rank."""

    seed: int = 1
    max_iterations: Positive = 1000
    num_envs: Positive = 32
    hidden_size: Positive = 64
    learning_rate: Rate = 3e-4
    gamma: Discount = 0.98


class EnvOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The task's length: ``episode_ticks`` control ticks of 20 ms until the time is up."""

    episode_ticks: Positive = 200


class JobOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a rank needs to know; identical on all ranks."""

    algorithm: ClassVar[str] = ""
    """The name of the algorithm, as ``init()`` takes it."""

    training: RunOptions = RunOptions()
    algo: LearningOptions = LearningOptions()
    env: EnvOptions = EnvOptions()
    slow: SlowOptions = SlowOptions()

    def flat(self) -> dict[str, Any]:
        """``{"training.logger": ...}``: what the run's configuration shows."""
        sections: dict[str, dict[str, Any]] = msgspec.to_builtins(self)
        return {
            f"{section}.{name}": value
            for section, fields in sections.items()
            for name, value in fields.items()
        }
