"""What is true of the run at this moment, in a few words. Pure."""

from __future__ import annotations

import math

from unilab_schema.control import SourceStatus
from unilab_schema.identity import LEARNER
from unilab_sidecar import formatting
from unilab_sidecar.picture import Picture
from unilab_sidecar.text import Segment, Style, clean

SILENT_AFTER_S = 2.0
"""Without an announcement for so long (they come once a second) the aggregator is silent."""
_AT_WORK = frozenset({"live", "awaited"})


def has_contact(picture: Picture) -> bool:
    """Whether what is shown of the sources is news; of an ended run nobody expects any."""
    return picture.ended is not None or picture.silent_s <= SILENT_AFTER_S


def state(picture: Picture) -> Segment:
    """A few words about the run, with a mark that needs no colour."""
    if picture.ended is not None:
        style: Style = "good" if picture.ended == "completed" else "bad"
        return Segment(f"■ run ended: {clean(picture.ended)}", style)
    if picture.gone is not None:
        return Segment("✗ run cut off", "bad")
    if picture.refusal:
        return Segment("✗ key refused", "bad")
    if picture.stage == "connecting":
        return Segment("◌ connecting", "warn")
    if picture.stage == "loading":
        return Segment("◌ reading the history", "accent")
    return _live(picture) if has_contact(picture) else _silent(picture.silent_s)


def words(picture: Picture) -> str:
    """:func:`state` without its mark."""
    return state(picture).text.split(" ", 1)[1]


def is_training(picture: Picture) -> bool:
    """Whether further iterations are to be expected, as far as is known."""
    is_over = picture.ended is not None or picture.gone is not None
    return not is_over and _without_learner(picture) is None


def _silent(silent_s: float) -> Segment:
    if math.isinf(silent_s):
        return Segment("○ no aggregator", "warn")
    return Segment(f"○ aggregator silent for {formatting.age(silent_s)}", "warn")


def _live(picture: Picture) -> Segment:
    if (without := _without_learner(picture)) is not None:
        return without
    if picture.stage == "waiting":
        return Segment("◌ waiting for the first update", "accent")
    if picture.restarted_s is not None:
        return Segment(f"● training, aggregator back for {picture.restarted_s:.0f} s", "good")
    return Segment("● training", "good")


def _without_learner(picture: Picture) -> Segment | None:
    """What holds where no learner is at work that was: nobody trains then."""
    learners = [source for source in picture.sources if source.key.role == LEARNER]
    if not learners or any(source.state in _AT_WORK for source in learners):
        return None
    if silent := [source for source in learners if source.state == "silent"]:
        age_s = min(source.age_s for source in silent)
        return Segment(f"○ no learner heard for {formatting.age(age_s)}", "warn")
    if any(source.state == "lost" for source in learners):
        return Segment(f"✗ no learner left{_others(picture.sources)}", "bad")
    return Segment(f"✓ learners finished{_others(picture.sources)}", "accent")


def _others(sources: tuple[SourceStatus, ...]) -> str:
    count = sum(source.state in _AT_WORK for source in sources)
    if not count:
        return ""
    return ", 1 process lives on" if count == 1 else f", {count} processes live on"
