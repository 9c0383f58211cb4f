"""What sources say of the run beside its numbers, as much of it as is kept. Pure.

A metric's definition, fields of the summary: each source may add to them, none may fill the
memory or the snapshot with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unilab_schema.codec import MAX_TAG_BYTES, FrameDecodeError
from unilab_schema.frames import Scalar
from unilab_schema.metrics import MetricSpec

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.state import AggregatorState

MAX_DEFINITIONS = 4096
MAX_PATTERNS = 256
"""Definitions with a ``*``; each new tag is held against all of them."""
MAX_REDEFINITIONS = 256
"""Changes of what was defined already: each one looks at all tags again."""
_MAX_DEFINITION_CHARS = 2048
MAX_SUMMARY_FIELDS = 1024
MAX_SUMMARY_CHARS = 256 * 1024
_TOO_LARGE = "the run summary is full: fields beyond 1,024, or 256 KiB of text, are left out"


def take_definition(state: AggregatorState, spec: MetricSpec) -> None:
    """Learn what a tag or a family means. Raises ``FrameDecodeError`` beyond the limits and
    ``ValueError`` for what the metric schema forbids."""
    defined = state.defined
    known = defined.get(spec.tag)
    if known == spec:
        return
    texts = (spec.owner, spec.unit, spec.description, spec.label)
    if len(spec.tag.encode()) > MAX_TAG_BYTES or sum(map(len, texts)) > _MAX_DEFINITION_CHARS:
        raise FrameDecodeError("definition", "its texts are too long")
    if known is not None and state.data.redefinitions >= MAX_REDEFINITIONS:
        raise FrameDecodeError("definition", f"{MAX_REDEFINITIONS} were changed already")
    if known is None and len(defined) >= MAX_DEFINITIONS:
        raise FrameDecodeError("definition", f"{MAX_DEFINITIONS} are known already")
    if known is None and "*" in spec.tag and _patterns(defined) >= MAX_PATTERNS:
        raise FrameDecodeError("definition", f"{MAX_PATTERNS} patterns are known already")
    state.columns.define(spec)
    state.data.redefinitions += known is not None
    # At the end, because the newest of equally specific patterns wins.
    defined.pop(spec.tag, None)
    defined[spec.tag] = spec


def take_summary(state: AggregatorState, fields: Mapping[str, Scalar]) -> None:
    """Fields of ``run_summary.json``; the newest value of each counts."""
    summary = state.data.summary
    chars = sum(_chars(name, value) for name, value in summary.items())
    for name, value in fields.items():
        more = _chars(name, value) - (_chars(name, summary[name]) if name in summary else 0)
        is_new = name not in summary
        if (is_new and len(summary) >= MAX_SUMMARY_FIELDS) or chars + more > MAX_SUMMARY_CHARS:
            state.data.count_warning(_TOO_LARGE, {})
            continue
        summary[name] = value
        chars += more


def _patterns(defined: Mapping[str, MetricSpec]) -> int:
    return sum("*" in tag for tag in defined)


def _chars(name: str, value: Scalar) -> int:
    return len(name) + (len(value) if isinstance(value, str) else 8)
