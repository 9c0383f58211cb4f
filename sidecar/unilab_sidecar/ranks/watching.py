"""The ranks as a viewer sees them: live, standing still, and beside a moment of the past. Pure.

What single ranks have sent is kept by nobody. While the display stands still the table does too; who
looks at the ranks, or chooses tags, only then is told what they are by now, and that it is so.
"""

from __future__ import annotations

from dataclasses import replace

from unilab_schema.requests import RankValues
from unilab_sidecar.feeding.questions import Answer, RanksQuestion
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Picture
from unilab_sidecar.ranks.pace import RankPace
from unilab_sidecar.ranks.table import RankStore, RankTable
from unilab_sidecar.views import ranks


class RankWatching:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._store = RankStore()
        self._pace = RankPace()
        self._table = self._store.table()
        self._told: RanksQuestion | None = None
        self._asks_still = self._is_later = self._has_news = False

    def answer(self, answer: Answer, algorithm: str) -> None:
        """Takes an answer of the feed."""
        question, reply = answer
        self._store.add(answer, algorithm)
        self._pace.heed(reply)
        if isinstance(question, RanksQuestion) and isinstance(reply, RankValues):
            self._told = question
        # One that was under way as the display came to a stand changes nothing that is shown.
        self._has_news = self._asks_still

    def question(
        self, newest: Picture, state: ViewState, *, is_between: bool
    ) -> RanksQuestion | None:
        """What is to be asked now. ``is_between``: the next picture is not due yet."""
        if state.view != "ranks" or not self._is_wanted(state):
            self._pace.forget()
            return None
        self._asks_still = state.paused_unix_s is not None
        return self._pace.question(ranks.wanted(newest, state.ranks), is_between=is_between)

    def _is_wanted(self, state: ViewState) -> bool:
        if state.paused_unix_s is None or self._told is None:
            return True
        return not set(state.ranks.tags) <= set(self._told.tags)

    def table(
        self, held: Picture, known: tuple[str, ...], past: Picture | None, *, is_paused: bool
    ) -> RankTable:
        """What is shown. ``held``: the run's picture, of a display that stands still the last one
        before; ``past``: of a moment that was gone to."""
        if not is_paused or self._has_news:
            last = held.iteration if held.ended is not None else None
            self._table = self._store.table(known, held.sources, last)
            self._is_later = is_paused and self._table.has_answer
        if not is_paused:
            self._asks_still = False
        self._has_news = False
        shown = held if past is None else past
        is_other = (past is not None or self._is_later) and shown.iteration != self._table.iteration
        return replace(self._table, is_of_another_moment=is_paused and is_other)
