"""What is true of the run at this moment, in a few words. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unilab_metrics.outcome import COLLECTION_COMPLETED, COMPLETED, FAILED
from unilab_schema.control import SourceStatus
from unilab_schema.identity import LEARNER
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import Segment, Style, clean, fit
from unilab_sidecar.events.milestones import stopped_by
from unilab_sidecar.picture import Picture

if TYPE_CHECKING:
    from unilab_metrics.subscribe.ssh.outage import Outage

SILENT_AFTER_S = 2.0
"""Without an announcement for so long (they come once a second) the aggregator is silent."""
_HOST_CELLS = 24
_AT_WORK = frozenset({"live", "awaited"})


def has_contact(picture: Picture) -> bool:
    """Whether what is shown of the sources is news; of an ended run nobody expects any."""
    return picture.ended is not None or picture.silent_s <= SILENT_AFTER_S


def state(picture: Picture) -> Segment:
    """A few words about the run, with a mark that needs no colour."""
    if picture.ended is not None:
        mark, style = _mark_of_end(picture)
        return Segment(f"{mark} run ended: {how_ended(picture)}", style)
    if picture.gone is not None:
        # Who has never heard of it was told to wait.
        again = ", waiting for it to begin again" if picture.stage == "connecting" else ""
        return Segment(f"✗ run cut off{again}", "bad")
    if picture.refusal:
        return Segment(_refused(picture), "bad")
    is_unheard = not has_contact(picture) or picture.stage == "connecting"
    if picture.outage is not None and is_unheard:
        return Segment(f"○ {_unheard(picture.outage, picture.silent_s)}", "warn")
    if picture.stage == "connecting":
        whereto = f" to {clean(picture.target)}" if picture.target else ""
        return Segment(f"◌ connecting{whereto}", "warn")
    if picture.stage == "loading":
        return Segment("◌ reading the history", "accent")
    return _live(picture) if has_contact(picture) else _silent(picture)


def _mark_of_end(picture: Picture) -> tuple[str, Style]:
    """As of a source that ended so."""
    if picture.ended in (COMPLETED, COLLECTION_COMPLETED):
        return "✓", "good"
    return ("■", "warn") if stopped_by(picture) else ("✗", "bad")


def words(picture: Picture) -> str:
    """:func:`state` without its mark."""
    return state(picture).text.split(" ", 1)[1]


def how_ended(picture: Picture) -> str:
    """Its status; of a training that somebody has stopped, that and how."""
    by = stopped_by(picture)
    if not by or by == picture.ended:
        return clean(picture.ended or "")
    return f"stopped ({by})"


def is_training(picture: Picture) -> bool:
    """Whether further iterations are to be expected, as far as is known."""
    is_over = picture.ended is not None or picture.gone is not None
    return not is_over and _without_learner(picture) is None


def expects_eta(picture: Picture) -> bool:
    """Whether it is known, or will be, when the training is done."""
    return is_training(picture) and picture.run.max_iterations is not None


def last_words(picture: Picture) -> str:
    """What holds of the run when a view of it closes, in one sentence."""
    if picture.ended is not None:
        return f"The run has ended: {how_ended(picture)}."
    if picture.gone is not None:
        return "Nobody is at work on the run any more."
    if picture.stage == "training" and has_contact(picture) and is_training(picture):
        return "The training goes on."
    return "It has only looked on: what trains is not touched."


def _refused(picture: Picture) -> str:
    if picture.outage is None:
        return "✗ key refused"
    return f"✗ {_host(picture.outage)} asks for a password, code or key"


def _unheard(outage: Outage, silent_s: float) -> str:
    since = "" if math.isinf(silent_s) else f" for {formatting.age(silent_s)}"
    if outage.is_open:
        return f"no answer from {_host(outage)}{since}"
    when = "trying again" if outage.next_s is None else f"next try in {outage.next_s:.0f} s"
    return f"no connection to {_host(outage)}{since}, {when}"


def _host(outage: Outage) -> str:
    return fit(clean(outage.host), _HOST_CELLS)


def _silent(picture: Picture) -> Segment:
    if math.isinf(picture.silent_s) and picture.stage == "waiting":
        return Segment("◌ waiting for the training to begin, no aggregator yet", "warn")
    if math.isinf(picture.silent_s):
        return Segment("○ no aggregator", "warn")
    return Segment(f"○ aggregator silent for {formatting.age(picture.silent_s)}", "warn")


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
    if any(source.state == FAILED for source in learners):
        return Segment(f"✗ learners ended, not all well{_others(picture.sources)}", "bad")
    return Segment(f"✓ learners finished{_others(picture.sources)}", "accent")


def _others(sources: tuple[SourceStatus, ...]) -> str:
    count = sum(source.state in _AT_WORK for source in sources)
    if not count:
        return ""
    return ", 1 process lives on" if count == 1 else f", {count} processes live on"
