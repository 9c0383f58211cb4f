"""The metric table: what a tag means, its unit, and how it is reduced.

Sources: the logging documents' metric schema, version 1, and the project's own
terminal-only tags. Names and units are frozen within a major version.
"""

from __future__ import annotations

from collections.abc import Iterable

from unilab_schema.canonical.bus import BUS as _BUS
from unilab_schema.canonical.open import FAMILIES, RESERVED
from unilab_schema.canonical.open import TERMINAL_ONLY as _TERMINAL_ONLY
from unilab_schema.canonical.performance import PERFORMANCE
from unilab_schema.canonical.training import TRAINING
from unilab_schema.metric_spec import METRIC_SCHEMA_VERSION, MetricSpec, OverRanks, OverTime

__all__ = [
    "BUS",
    "CANONICAL",
    "FAMILIES",
    "METRIC_SCHEMA_VERSION",
    "RESERVED",
    "TERMINAL_ONLY",
    "MetricSpec",
    "MetricTable",
    "OverRanks",
    "OverTime",
]

CANONICAL: dict[str, MetricSpec] = {spec.tag: spec for spec in TRAINING + PERFORMANCE}
"""The 68 tags of the schema, in the order of the published table."""
TERMINAL_ONLY: dict[str, MetricSpec] = {spec.tag: spec for spec in _TERMINAL_ONLY}
"""Tags that travel in updates and reach no backend."""
BUS: dict[str, MetricSpec] = {spec.tag: spec for spec in _BUS}
"""What the bus measures of itself; beside them there are the families ``Bus/dropped/*`` and
``Bus/trouble/*``."""

BUS_OWNER = "bus"

_MAX_REMEMBERED = 8192
"""Look-ups that a table remembers; a caller that invents names must not fill the memory."""

_FAMILY_STARTS = tuple({family.tag.partition("*")[0] for family in FAMILIES})


class MetricTable:
    """The canonical table plus what users define; pure, owned by one thread.

    An exact name wins over a pattern, the canonical table over users' definitions, and the
    pattern with the longest fixed part over shorter ones (the newest of equals).
    """

    def __init__(self, extra: Iterable[MetricSpec] = ()) -> None:
        """``extra``: definitions as for :meth:`define`, which says what it raises."""
        self._exact: dict[str, MetricSpec] = {**CANONICAL, **TERMINAL_ONLY, **BUS}
        self._families: dict[str, MetricSpec] = {}
        self._remembered: dict[str, MetricSpec | None] = {}
        for spec in extra:
            self.define(spec)

    def define(self, spec: MetricSpec) -> None:
        """Adds or replaces a user's definition.

        Raises ``ValueError`` for an empty tag, a second ``*``, a reserved name, and a tag or
        family of the canonical table: its meaning is frozen.
        """
        tag = spec.tag
        if tag.count("*") > 1:
            raise ValueError(f"{tag!r}: a pattern has one '*'")
        reason = _unusable(tag)
        if reason is not None:
            raise ValueError(reason)
        if self._frozen(tag):
            raise ValueError(f"{tag!r} belongs to the metric schema and cannot be redefined")
        if "*" in tag:
            # Re-inserted at the end, so that the newest of equally specific patterns is last.
            self._families.pop(tag, None)
            self._families[tag] = spec
        else:
            self._exact[tag] = spec
        self._remembered.clear()

    def spec(self, tag: str) -> MetricSpec | None:
        """What ``tag`` means, or ``None`` if nothing registers it. A family's spec is shared:
        its ``tag`` is the pattern."""
        try:
            return self._remembered[tag]
        except KeyError:
            pass
        found = self._exact.get(tag) or self._match(tag)
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[tag] = found
        return found

    def reduction(self, tag: str) -> MetricSpec:
        """As :meth:`spec`, with mean over ranks and last over time for unknown tags."""
        return self.spec(tag) or MetricSpec(tag, "user", "")

    def check(self, tag: str, *, strict: bool) -> str | None:
        """Why a caller may not log ``tag``, or ``None`` if it may.

        Open mode refuses only empty and reserved names, and what the bus measures of itself;
        strict mode also what is not registered and what the logger assembles itself.
        """
        reason = _unusable(tag)
        if reason is not None:
            return reason
        spec = self.spec(tag)
        if spec is not None and spec.owner == BUS_OWNER:
            return f"{tag!r} is measured by the bus itself"
        if not strict:
            return None
        if spec is None:
            return f"{tag!r} is not registered: define_metric() declares it"
        if spec.logger_owned:
            return f"{tag!r} is assembled by the logger"
        return None

    def label(self, tag: str) -> str:
        """The terminal's short name: the spec's, else what the family's ``*`` stands for,
        else the last part of the tag."""
        spec = self.spec(tag)
        if spec is not None and spec.label:
            return spec.label
        if spec is not None and "*" in spec.tag:
            head, _, tail = spec.tag.partition("*")
            return tag[len(head) : len(tag) - len(tail)]
        return tag.rpartition("/")[2] or tag

    def _match(self, tag: str) -> MetricSpec | None:
        if tag in RESERVED:
            return None
        # Most of thousands of tags belong to none.
        if tag.startswith(_FAMILY_STARTS):
            for family in FAMILIES:
                if _matches(family.tag, tag):
                    return family
        best: MetricSpec | None = None
        for pattern, spec in self._families.items():
            if _matches(pattern, tag) and (best is None or len(pattern) >= len(best.tag)):
                best = spec
        return best

    @staticmethod
    def _frozen(tag: str) -> bool:
        if tag in CANONICAL or tag in TERMINAL_ONLY or tag in BUS:
            return True
        return any(tag == family.tag or _matches(family.tag, tag) for family in FAMILIES)


def _unusable(tag: str) -> str | None:
    if not tag or tag.isspace():
        return "an empty tag"
    if tag in RESERVED:
        return f"{tag!r} is a reserved name"
    return None


def _matches(pattern: str, tag: str) -> bool:
    head, _, tail = pattern.partition("*")
    return len(tag) > len(head) + len(tail) and tag.startswith(head) and tag.endswith(tail)
