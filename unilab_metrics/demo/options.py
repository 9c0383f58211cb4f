"""The options of the demo and the strict parser of ``key=value`` overrides."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from unilab_metrics.demo.slow import SlowOptions, SlowPart
from unilab_metrics.errors import ExitCode, UnilabMetricsError

Positive = Annotated[int, Meta(ge=1)]
Slots = Annotated[int, Meta(ge=1, le=16)]
Logger = Literal["tensorboard"]
Rate = Annotated[float, Meta(gt=0.0, le=1.0)]


class TrainingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the job runs and logs; the words of the logging document.

    ``collector_metrics_interval``: ticks per collector report. ``env_steps_per_sync``: ticks
    that the learner serves per iteration. ``replay_ingress_slot_rows``: rows per ring slot, a
    multiple of ``algo.num_envs``; ``None`` is one tick. ``log_dir``: the run directory itself
    instead of a new one below ``log_root``.
    """

    logger: Logger = "tensorboard"
    log_interval: Positive = 1
    log_root: str = "logs"
    log_dir: str | None = None
    env_steps_per_sync: Positive = 1
    collector_metrics_interval: Annotated[int, Meta(ge=1, le=10_000)] = 1
    inference_slot_capacity: Slots = 1
    replay_ingress_depth: Slots = 2
    replay_ingress_slot_rows: Positive | None = None
    checkpoint_interval: Positive = 500


class AlgoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """SAC and its budget. Sizes are per rank; ``learning_starts`` counts replay rows."""

    seed: int = 1
    max_iterations: Positive = 2500
    num_envs: Positive = 32
    updates_per_step: Positive = 4
    batch_size: Positive = 256
    buffer_size: Positive = 65_536
    learning_starts: Positive = 4_096
    hidden_size: Positive = 64
    learning_rate: Rate = 3e-4
    gamma: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.98
    tau: Rate = 0.01
    initial_temperature: Annotated[float, Meta(gt=0.0)] = 0.1


class EnvOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The task's length: ``episode_ticks`` control ticks of 20 ms until the time is up."""

    episode_ticks: Positive = 200


class DemoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a rank needs to know; identical on all ranks."""

    training: TrainingOptions = TrainingOptions()
    algo: AlgoOptions = AlgoOptions()
    env: EnvOptions = EnvOptions()
    slow: SlowOptions = SlowOptions()

    @property
    def slot_rows(self) -> int:
        """Rows of one ingress slot."""
        return self.training.replay_ingress_slot_rows or self.algo.num_envs

    @property
    def slots_per_iteration(self) -> int:
        """Ingress slots that an iteration's ticks fill, at least 1."""
        rows = self.training.env_steps_per_sync * self.algo.num_envs
        return max(rows // self.slot_rows, 1)

    def flat(self) -> dict[str, Any]:
        """``{"training.logger": ...}``: what the run's configuration shows."""
        sections: dict[str, dict[str, Any]] = msgspec.to_builtins(self)
        return {
            f"{section}.{name}": value
            for section, fields in sections.items()
            for name, value in fields.items()
        }


class OptionError(UnilabMetricsError, ValueError):
    """An override that cannot be used. ``key`` is the offending one; the text says why."""

    exit_code = ExitCode.USAGE

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key


KNOWN_KEYS = tuple(DemoOptions().flat())
_WORDS = {"training.logger": get_args(Logger), "slow.part": get_args(SlowPart)}


def parse_options(overrides: Sequence[str] = (), *, iterations: int | None = None) -> DemoOptions:
    """Options from ``section.name=value`` words; ``iterations`` is ``algo.max_iterations``.

    Raises :class:`OptionError` for a word without ``=``, an unknown or repeated key, a value
    of the wrong type or range, and combinations that cannot run.
    """
    values: dict[str, str] = {}
    for word in overrides:
        key, separator, value = word.partition("=")
        key = key.strip()
        if not separator or not key:
            raise OptionError(word, "expected key=value, for example algo.seed=7")
        if key not in KNOWN_KEYS:
            raise OptionError(key, f"unknown option{_suggestion(key)}")
        if key in values:
            raise OptionError(key, "given twice")
        values[key] = value.strip()
    if iterations is not None:
        if "algo.max_iterations" in values:
            raise OptionError("algo.max_iterations", "given twice, also as --iterations")
        values["algo.max_iterations"] = str(iterations)
    options = DemoOptions(
        training=_section(TrainingOptions, "training", values),
        algo=_section(AlgoOptions, "algo", values),
        env=_section(EnvOptions, "env", values),
        slow=_section(SlowOptions, "slow", values),
    )
    _check_together(options)
    return options


def _section(kind: type[Any], section: str, values: Mapping[str, str]) -> Any:
    chosen: dict[str, str | None] = {}
    for key, value in values.items():
        owner, _, name = key.partition(".")
        if owner != section:
            continue
        chosen[name] = None if value in ("null", "none", "None") else value
        try:
            msgspec.convert({name: chosen[name]}, kind, strict=False)
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at ")[0]
            if key in _WORDS:
                reason = f"Expected one of {', '.join(_WORDS[key])}"
            raise OptionError(key, f"{reason} (got {value!r})") from None
    return msgspec.convert(chosen, kind, strict=False)


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


def _suggestion(key: str) -> str:
    close = difflib.get_close_matches(key, KNOWN_KEYS, n=1)
    hint = f", did you mean {close[0]}?" if close else ""
    return f"{hint or '.'} Known: {', '.join(KNOWN_KEYS)}"
