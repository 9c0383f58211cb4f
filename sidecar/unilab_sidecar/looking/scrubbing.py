"""The display while it stands still: which moment of the run is shown, and where keys go from it.

Pure. Moments are told by their update sequences. The feed answers for one after the other; what is
shown stays until the next one is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from unilab_schema.control import Head
from unilab_schema.updates import Update
from unilab_sidecar.feeding.moment import Moment
from unilab_sidecar.feeding.past_pieces import PeakQuestion
from unilab_sidecar.feeding.past_questions import MomentQuestion
from unilab_sidecar.looking.past import StartsAndEvents, picture_of
from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.training_clock import TrainingClock
from unilab_sidecar.values.end_peak import EndPeak

if TYPE_CHECKING:
    from unilab_metrics.subscribe.asking import NoAnswer
    from unilab_metrics.subscribe.history import HistoryRecord

_PAGES = 20
_MINUTE_S = 60


class Place(NamedTuple):
    """A moment among all: ``at`` of ``newest`` update sequences, ``per_s`` of them in a second of
    the run around it."""

    at: int = 0
    newest: int = 0
    per_s: int = 1


def moved(place: Place, key: str) -> int | None:
    """The moment to which a key goes, ``None`` for one without a meaning here. Arrows go by a
    second of the run, with Shift by a minute; pages by a twentieth of it."""
    page = max(place.newest // _PAGES, place.per_s)
    steps = {
        "left": -place.per_s,
        "right": place.per_s,
        "shift+left": -_MINUTE_S * place.per_s,
        "shift+right": _MINUTE_S * place.per_s,
        "pageup": -page,
        "pagedown": page,
        "home": -place.newest,
        "end": place.newest,
    }
    step = steps.get(key)
    if step is None:
        return None
    return min(max(place.at + step, 1), max(place.newest, 1))


class Scrubbing:
    """One owner, no locks."""

    def __init__(self, run_dir: str = "") -> None:
        self._run_dir = run_dir
        self._kept = StartsAndEvents()
        self._clock = TrainingClock()
        self._head: Head | None = None
        self._cursor = 0
        self._unix_s: float | None = None
        self._asked: MomentQuestion | None = None
        self._is_answered = False
        self._moment: Moment | None = None
        self._picture: Picture | None = None
        self.peak = EndPeak()
        self.problem = ""
        """Why the moment that was asked for cannot be shown, empty while it can."""

    def heed(self, records: Iterable[HistoryRecord], head: Head | None, *, is_paused: bool) -> None:
        """Takes what has come, also while the display stands still. What is shown is the newest of
        what came before it stood still."""
        self._head = head or self._head
        self._kept.add(records)
        for record in records:
            if isinstance(record.entry, Update):
                self._clock.seen(record.entry)
            if not is_paused:
                self._cursor = record.sequence
                if isinstance(record.entry, Update):
                    self._unix_s = record.entry.unix_ns / 1e9
        if head is not None:
            self._clock.heed(head)

    def ended(self, training_s: float | None) -> None:
        """How long the training took, as the run says of itself."""
        if training_s is not None:
            self._clock.ended(training_s)

    def restart(self) -> None:
        """The live view goes on from another place."""
        self._cursor = 0
        self._clock.forget()
        self.let_go()

    def let_go(self) -> None:
        """The display is live again."""
        self._asked = self._moment = self._picture = None
        self.peak = EndPeak()
        self.problem = ""

    @property
    def is_waiting(self) -> bool:
        """Whether the moment that was asked for is not shown yet."""
        return self._asked is not None and not self._is_answered and not self.problem

    def question(self, at: int | None) -> MomentQuestion | None:
        """What is to be asked of the feed for the moment ``at``; ``None`` if that is done."""
        if at is None or (self._asked is not None and self._asked.at == at):
            return None
        self._asked, self._is_answered = MomentQuestion(at), False
        return self._asked

    def answer(
        self,
        question: MomentQuestion,
        reply: Moment | NoAnswer,
        completed: Callable[[Picture], Picture] = lambda picture: picture,
    ) -> None:
        """A moment is there. One to an earlier wish is shown too: somebody who holds a key down
        sees where he is. ``completed``: adds to its picture what a few seconds do not tell."""
        if self._asked is None:
            return
        if not isinstance(reply, Moment):
            self.problem = reply.text if question is self._asked else self.problem
            return
        self.problem = ""
        self._moment, self._is_answered = reply, question is self._asked
        self._kept.add(reply.records)
        first = reply.records[0].sequence if reply.records else reply.at
        before = self._kept.before(first)
        picture = picture_of(reply, before, self._head, self._run_dir, self._clock)
        self.peak.heed(picture, first)
        if first > 1:
            # The highest one of a few seconds is no peak of a run.
            picture = replace(picture, rewards=replace(picture.rewards, peak=None))
        self._picture = replace(completed(picture), is_past=True)

    def peak_question(self, *, is_between: bool) -> PeakQuestion | None:
        """What is to be asked of the feed for the peak up to the moment that is shown. All before it
        is read for that: not while keys go from one moment to the next."""
        is_passing = self._picture is None or (is_between and self._picture.ended is None)
        return None if is_passing or self.is_waiting else self.peak.question()

    @property
    def shown_at(self) -> int | None:
        """The moment that is shown; ``None`` as long as nobody has gone anywhere."""
        return None if self._moment is None else self._moment.at

    @property
    def picture(self) -> Picture | None:
        """That of the moment; ``None`` as long as nobody has gone anywhere."""
        picture = self._picture
        if picture is None:
            return None
        rewards = replace(self.peak.of(picture.rewards), is_peak_awaited=self.peak.is_awaited)
        return replace(picture, rewards=rewards)

    @property
    def unix_s(self) -> float | None:
        """When it was, on the training's wall clock; ``None`` before the first update."""
        if self._moment is None:
            return self._unix_s
        updates = [r.entry for r in self._moment.records if isinstance(r.entry, Update)]
        return updates[-1].unix_ns / 1e9 if updates else None

    def place(self, shown: Picture, at: int | None, last: int = 0) -> Place:
        """``shown``: what is on the screen; ``at``: the moment that was asked for last; ``last``: of
        a run that is played again."""
        newest = max(self._cursor, last, self._head.update if self._head is not None else 0)
        newest = max(newest, self._moment.newest if self._moment is not None else 0)
        return Place(at or self._cursor or newest, newest, max(shown.samples // 2, 1))
