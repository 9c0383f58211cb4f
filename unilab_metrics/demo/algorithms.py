"""What the demo can train, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unilab_metrics.demo.job_options import JobOptions
from unilab_metrics.demo.options import DemoOptions, parse_options
from unilab_metrics.demo.overrides import OptionError
from unilab_metrics.demo.ppo_options import PpoOptions, parse_ppo_options

ALGORITHMS = ("sac", "ppo")
DEFAULT_ALGORITHM = "sac"

_PARSERS: dict[str, Callable[..., JobOptions]] = {"sac": parse_options, "ppo": parse_ppo_options}


def options_of(
    algorithm: str, overrides: Sequence[str] = (), *, iterations: int | None = None
) -> JobOptions:
    """The algorithm's options. Raises :class:`OptionError`, also for an unknown name."""
    parse = _PARSERS.get(algorithm)
    if parse is None:
        raise OptionError("--algorithm", f"one of {', '.join(ALGORITHMS)}, not {algorithm!r}")
    return parse(overrides, iterations=iterations)


def train(options: JobOptions) -> int:
    """Trains this process's rank and returns its exit code. Imports torch.

    Raises ``TypeError`` for options of no algorithm.
    """
    if isinstance(options, DemoOptions):
        from unilab_metrics.demo.train import train_rank

        return train_rank(options)
    if isinstance(options, PpoOptions):
        from unilab_metrics.demo.ppo_train import train_ppo_rank

        return train_ppo_rank(options)
    raise TypeError(f"nothing trains with {type(options).__name__}")
