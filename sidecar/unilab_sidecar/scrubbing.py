"""The display while it stands still: which moment of the run is shown, and where keys go from it.

Pure. Moments are told by their update sequences. The feed answers for one after the other; what is
shown stays until the next one is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from unilab_schema.control import Head
from unilab_schema.updates import Update
from unilab_sidecar.moment import Moment
from unilab_sidecar.past import Milestones, picture_of
from unilab_sidecar.past_questions import MomentQuestion
from unilab_sidecar.picture import Picture

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
    """The moment to which a key goes, ``None`` for one without a meaning here. Arrows go by a second
    of the run, with Shift by a minute; pages by a twentieth of it."""
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
        self._milestones = Milestones()
        self._head: Head | None = None
        self._cursor = 0
        self._unix_s: float | None = None
        self._asked: MomentQuestion | None = None
        self._moment: Moment | None = None
        self._picture: Picture | None = None
        self.problem = ""
        """Why the moment that was asked for cannot be shown, empty while it can."""

    def heed(self, records: Iterable[HistoryRecord], head: Head | None, *, is_paused: bool) -> None:
        """Takes what has come, also while the display stands still. What is shown is the newest of
        what came before it stood still."""
        self._head = head or self._head
        self._milestones.add(records)
        if not is_paused:
            for record in records:
                self._cursor = record.sequence
                if isinstance(record.entry, Update):
                    self._unix_s = record.entry.unix_ns / 1e9

    def restart(self) -> None:
        """The live view goes on from another place."""
        self._cursor = 0
        self.let_go()

    def let_go(self) -> None:
        """The display is live again."""
        self._asked = self._moment = self._picture = None
        self.problem = ""

    @property
    def is_waiting(self) -> bool:
        """Whether the moment that was asked for is not shown yet."""
        asked, shown = self._asked, self._moment
        is_there = shown is not None and asked is not None and asked.at == shown.at
        return asked is not None and not is_there and not self.problem

    def question(self, at: int | None) -> MomentQuestion | None:
        """What is to be asked of the feed for the moment ``at``; ``None`` if that is done."""
        if at is None or (self._asked is not None and self._asked.at == at):
            return None
        self._asked = MomentQuestion(at)
        return self._asked

    def answer(self, question: MomentQuestion, reply: Moment | NoAnswer) -> None:
        """A moment is there. One to an earlier wish is shown too: somebody who holds a key down
        sees where he is."""
        if self._asked is None:
            return
        if not isinstance(reply, Moment):
            self.problem = reply.text if question is self._asked else self.problem
            return
        self.problem = ""
        self._moment = reply
        self._milestones.add(reply.records)
        first = reply.records[0].sequence if reply.records else reply.at
        picture = picture_of(reply, self._milestones.before(first), self._head, self._run_dir)
        if first > 1:
            # The highest one of a few seconds is no peak of a run.
            picture = replace(picture, rewards=replace(picture.rewards, peak=None))
        self._picture = picture

    @property
    def picture(self) -> Picture | None:
        """That of the moment; ``None`` as long as nobody has gone anywhere."""
        return self._picture

    @property
    def unix_s(self) -> float | None:
        """When it was, on the training's wall clock; ``None`` before the first update."""
        if self._moment is None:
            return self._unix_s
        updates = [r.entry for r in self._moment.records if isinstance(r.entry, Update)]
        return updates[-1].unix_ns / 1e9 if updates else None

    def place(self, shown: Picture, at: int | None) -> Place:
        """``shown``: what is on the screen; ``at``: the moment that was asked for last."""
        newest = max(self._cursor, self._head.update if self._head is not None else 0)
        newest = max(newest, self._moment.newest if self._moment is not None else 0)
        return Place(at or self._cursor or newest, newest, max(shown.samples // 2, 1))
