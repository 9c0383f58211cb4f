"""The options of the demo's PPO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from unilab_metrics.demo.job_options import (
    Discount,
    JobOptions,
    LearningOptions,
    Positive,
    RunOptions,
)
from unilab_metrics.demo.overrides import OptionError, read_overrides
from unilab_metrics.demo.slow import SlowOptions, Wait

Schedule = Literal["adaptive", "fixed"]
NotNegative = Annotated[float, Meta(ge=0.0)]
AboveZero = Annotated[float, Meta(gt=0.0)]


class PpoRunOptions(RunOptions, frozen=True, forbid_unknown_fields=True):
    """As for every algorithm; an iteration is longer than one of SAC."""

    checkpoint_interval: Positive = 100


class PpoAlgoOptions(LearningOptions, frozen=True, forbid_unknown_fields=True):
    """PPO and its budget, in rsl_rl's words. Sizes are per rank.

    ``schedule``: ``adaptive`` changes the learning rate so that an update moves the policy by
    about ``desired_kl`` nats.
    """

    max_iterations: Positive = 600
    num_envs: Positive = 64
    num_steps_per_env: Positive = 24
    num_learning_epochs: Positive = 2
    num_mini_batches: Positive = 4
    lam: Discount = 0.95
    clip_param: AboveZero = 0.2
    value_loss_coef: NotNegative = 1.0
    entropy_coef: NotNegative = 0.002
    max_grad_norm: AboveZero = 1.0
    init_noise_std: AboveZero = 1.0
    schedule: Schedule = "adaptive"
    desired_kl: AboveZero = 0.001


class PpoSlowOptions(SlowOptions, frozen=True, forbid_unknown_fields=True):
    """An iteration has many ticks and updates, each of which waits, so each waits less."""

    part: Literal["env", "learner", "inference"] | None = None
    wait_ms: Wait = 20.0


class PpoOptions(JobOptions, frozen=True, forbid_unknown_fields=True):
    """Everything that a rank of PPO needs to know; identical on all ranks."""

    algorithm: ClassVar[str] = "ppo"

    training: PpoRunOptions = PpoRunOptions()
    algo: PpoAlgoOptions = PpoAlgoOptions()
    slow: PpoSlowOptions = PpoSlowOptions()

    @property
    def samples_per_iteration(self) -> int:
        """Of one rank."""
        return self.algo.num_envs * self.algo.num_steps_per_env


def parse_ppo_options(
    overrides: Sequence[str] = (), *, iterations: int | None = None
) -> PpoOptions:
    """PPO's options, see :func:`unilab_metrics.demo.overrides.read_overrides`.

    Raises :class:`OptionError`, also for combinations that cannot run.
    """
    options = read_overrides(PpoOptions, overrides, iterations=iterations)
    if options.samples_per_iteration % options.algo.num_mini_batches:
        raise OptionError(
            "algo.num_mini_batches",
            f"{options.samples_per_iteration} samples of an iteration cannot be divided by it",
        )
    return options
