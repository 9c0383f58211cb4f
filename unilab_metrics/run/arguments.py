"""Which values the arguments of ``init()`` and ``connect()`` may have.

Everything here raises ``ValueError``, in every mode and before anything is made: a value that
the other side would refuse is a mistake in the program, and is best seen where it is made.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from unilab_metrics.config import BACKENDS, OFF_POLICY, SIDECARS
from unilab_metrics.publish.scalars import to_step
from unilab_metrics.run.meeting.binding import resolve_bind
from unilab_metrics.webhook_url import checked_url
from unilab_schema.alert_rules import parse_alert_rules, split_alert_rules
from unilab_schema.codec import MAX_STEP, MAX_TAG_BYTES
from unilab_schema.identity import (
    MAX_INSTANCES,
    MAX_NAME_CHARS,
    MAX_RANKS,
    MAX_RUN_CHARS,
    RunInfo,
    SourceKey,
    StepAxis,
)


def run_info(
    *,
    algorithm: Any,
    task: Any = "",
    sim_backend: Any = "",
    step_axis: Any = None,
    max_iterations: Any = None,
    strict: Any,
    reward_tag: Any = None,
) -> RunInfo:
    """What a process says of its run; the world size is not known here."""
    names = [
        _text(name, value, MAX_RUN_CHARS)
        for name, value in (
            ("algorithm", algorithm),
            ("task", task),
            ("sim_backend", sim_backend),
        )
    ]
    axes = get_args(StepAxis)
    if step_axis is not None and step_axis not in axes:
        raise ValueError(f"no step axis {step_axis!r}; there are: {', '.join(axes)}")
    return RunInfo(
        *names,
        step_axis=step_axis or ("env_steps" if names[0].lower() in OFF_POLICY else "iteration"),
        max_iterations=whole("max_iterations", max_iterations, 0, MAX_STEP),
        strict=_flag("strict", strict),
        reward_tag="" if reward_tag is None else _text("reward_tag", reward_tag, MAX_TAG_BYTES),
    )


def source_key(*, role: Any, rank: Any, instance: Any) -> tuple[SourceKey, int | None]:
    """The place of a process, rank 0 where the caller does not say it, and the rank he says."""
    text = _text("role", role, MAX_NAME_CHARS)
    if not text:
        raise ValueError("role '': a role has a name, such as learner or collector")
    known = whole("rank", rank, 0, MAX_RANKS - 1)
    number = whole("instance", instance, 0, MAX_INSTANCES - 1)
    if number is None:
        raise ValueError("instance None: must be a whole number")
    return SourceKey(known or 0, text, number), known


def world_size(value: Any, rank: int | None) -> int | None:
    """How many ranks there are, ``rank`` among them."""
    size = whole("world_size", value, 1, MAX_RANKS)
    if size is not None and rank is not None and rank >= size:
        raise ValueError(f"rank {rank} does not lie in a world of {size}")
    return size


def expected_learners(value: Any, size: int | None) -> int | None:
    """How many of ``size`` ranks publish iterations; 0 is none said, as ``None`` is."""
    count = whole("expected_learners", value, 0, MAX_RANKS)
    if count is not None and size is not None and count > size:
        raise ValueError(f"expected_learners {count} of a world of {size}")
    return count or None


def log_interval(value: Any) -> int:
    """Every how many iterations something is written."""
    interval = whole("log_interval", value, 1, MAX_STEP)
    if interval is None:
        raise ValueError("log_interval None: must be a whole number")
    return interval


def backend_names(value: Any) -> tuple[str, ...]:
    """What the run is written into."""
    if not isinstance(value, Iterable):
        raise ValueError(f"backends {value!r}: must be a list of names")  # noqa: TRY004
    given = cast("Iterable[Any]", value)
    names: tuple[Any, ...] = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in BACKENDS:
            raise ValueError(f"no backend {name!r}; there are: {', '.join(BACKENDS)}")
    return names


def bind(value: Any) -> str | None:
    """Where the aggregator is to listen."""
    if value is None:
        return None
    text = _text("bind", value, MAX_NAME_CHARS)
    resolve_bind(text, {})
    return text


def sidecar(value: Any) -> str | None:
    """What is to be opened for the run, perhaps nothing was said."""
    if value is not None and value not in SIDECARS:
        raise ValueError(f"no sidecar {value!r}; there are: {', '.join(SIDECARS)}")
    return value


def alerts(value: Any, of_environment: str) -> tuple[str, ...]:
    """Rules for alerts, beside those that the environment has."""
    given: list[Any] = [] if value is None else value
    parse_alert_rules(given)  # says what is wrong with the list itself
    rules = parse_alert_rules([*given, *split_alert_rules(of_environment)])
    return tuple(rule.text for rule in rules)


def alert_webhook(value: Any) -> str | None:
    """The URL that gets alerts; a mistake does not repeat it, because it may be a secret."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("alert_webhook must be a string")  # noqa: TRY004
    return checked_url(value) if value else ""


def path(name: str, value: Any) -> Path | None:
    """A directory, perhaps none."""
    if value is None:
        return None
    text: Any = None
    with suppress(TypeError):
        text = cast("Any", os.fspath(value))
    if not isinstance(text, str):
        raise ValueError(f"{name} {value!r}: must be a path")  # noqa: TRY004
    if "\0" in text:
        raise ValueError(f"{name} {value!r}: a path holds no null character")
    return Path(text)


def whole(name: str, value: Any, least: int, most: int) -> int | None:
    """An integral number of any type."""
    if value is None:
        return None
    number = to_step(value)
    if number is None or not least <= number <= most:
        raise ValueError(f"{name} {value!r}: must be a whole number from {least} to {most}")
    return number


def _text(name: str, value: Any, most: int) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} {value!r}: must be a string")  # noqa: TRY004
    if len(value) > most:
        raise ValueError(f"{name} of {len(value)} characters; the limit is {most}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} {value!r}: holds halves of characters") from None
    return value


def _flag(name: str, value: Any) -> bool:
    given: Any = value
    if not isinstance(given, bool | np.bool_) and to_step(value) not in {0, 1}:
        raise ValueError(f"{name} {value!r}: must be True or False")
    return bool(value)
