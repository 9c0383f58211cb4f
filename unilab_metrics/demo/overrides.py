"""The strict parser of ``key=value`` overrides, for the options of any algorithm."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from unilab_metrics.demo.job_options import JobOptions
from unilab_metrics.errors import ExitCode, UnilabMetricsError

Options = TypeVar("Options", bound=JobOptions)

ITERATIONS_KEY = "algo.max_iterations"


class OptionError(UnilabMetricsError, ValueError):
    """An override that cannot be used. ``key`` is the offending one; the text says why."""

    exit_code = ExitCode.USAGE

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key


def read_overrides(
    kind: type[Options], overrides: Sequence[str], *, iterations: int | None = None
) -> Options:
    """Options of ``kind`` from ``section.name=value`` words; ``iterations`` is
    ``algo.max_iterations``.

    Raises :class:`OptionError` for a word without ``=``, an unknown or repeated key, and a value
    of the wrong type or range.
    """
    known = tuple(kind().flat())
    values: dict[str, str] = {}
    for word in overrides:
        key, separator, value = word.partition("=")
        key = key.strip()
        if not separator or not key:
            raise OptionError(word, "expected key=value, for example algo.seed=7")
        if key not in known:
            raise OptionError(key, f"unknown option of {kind.algorithm}{_suggestion(key, known)}")
        if key in values:
            raise OptionError(key, "given twice")
        values[key] = value.strip()
    if iterations is not None:
        if ITERATIONS_KEY in values:
            raise OptionError(ITERATIONS_KEY, "given twice, also as --iterations")
        values[ITERATIONS_KEY] = str(iterations)
    sections = get_type_hints(kind)
    return kind(
        **{
            field.name: _section(kind.algorithm, sections[field.name], field.name, values)
            for field in msgspec.structs.fields(kind)
        }
    )


def _section(algorithm: str, kind: type[Any], section: str, values: Mapping[str, str]) -> Any:
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
            if words := _words(kind, name):
                reason = f"Expected one of {', '.join(words)}"
            raise OptionError(key, f"{reason} (got {value!r}) for {algorithm}") from None
    return msgspec.convert(chosen, kind, strict=False)


def _words(kind: type[Any], name: str) -> tuple[str, ...]:
    """The words that a field takes, if it takes nothing else."""
    hint: Any = get_type_hints(kind)[name]
    choices = [hint, *get_args(hint)]
    return tuple(word for choice in choices for word in get_args(choice) if isinstance(word, str))


def _suggestion(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f", did you mean {close[0]}?" if close else ""
    return f"{hint or '.'} Known: {', '.join(known)}"
