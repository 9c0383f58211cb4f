"""The line that says what holds a training up and where to look first. Pure.

It has a row of its own at a fixed place, blank while nothing stands out: its coming and going
moves no other row.
"""

from __future__ import annotations

from collections.abc import Iterator

from unilab_schema.bottleneck import Bottleneck
from unilab_schema.phases import all_learner_slices, family_of
from unilab_sidecar.drawing.text import Block, Line, Segment, clip, line, line_width
from unilab_sidecar.picture import Picture

_LABEL = "Bottleneck  "
_KNOWN = frozenset(phase.tag for phase in all_learner_slices())


def bottleneck(picture: Picture, width: int) -> Block:
    """One row for a run with a timing, none for one that can have no bottleneck, or none any more."""
    if picture.learner is None or family_of(picture.run.algorithm) == "on_policy":
        return []
    if picture.bottleneck is None:
        return [()] if picture.ended is None and _has_known_phases(picture) else []
    for made in _lines(picture.bottleneck):
        if line_width(made) <= width:
            return [made]
    return [clip(_line(picture.bottleneck, picture.bottleneck.share.brief(short=True), 0), width)]


def _has_known_phases(picture: Picture) -> bool:
    """Others say nothing of what is slow."""
    rows = picture.learner.rows if picture.learner is not None else ()
    has_collector = picture.collector is not None and bool(picture.collector.rows)
    return has_collector or any(row.tag in _KNOWN for row in rows)


def _lines(found: Bottleneck) -> Iterator[Line]:
    """From all that is known to the least that is worth a line: more evidence is better than a
    third place to look at, but without a place to look at the numbers help nobody."""
    for count in range(len(found.more), -1, -1):
        told = "; ".join((found.share.text, *found.more[:count]))
        for places in range(len(found.look), 1, -1):
            yield _line(found, told, places)
    for short in (False, True):
        for places in range(len(found.look), 0, -1):
            yield _line(found, found.share.brief(short=short), places)


def _line(found: Bottleneck, told: str, places: int) -> Line:
    note = f", {found.note}" if found.note else ""
    look = f" → {', '.join(found.look[:places])}" if places else ""
    style = "accent" if found.costs_time is False else "warn"
    return line(Segment(_LABEL, style), Segment(told + note, "value"), Segment(look, "label"))
