"""The charts of an earlier run, beside those of the one that is looked at. Pure."""

from __future__ import annotations

from typing import NamedTuple

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_sidecar.charting.detail import Window
from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.charting.state import ChartState
from unilab_sidecar.charting.store import ChartStore, HistoryPiece
from unilab_sidecar.feeding.past_questions import DetailQuestion
from unilab_sidecar.feeding.questions import Answer, EarlierQuestion, RunNames, RunsQuestion


class BesideData(NamedTuple):
    """As in ``ChartData``."""

    compare: ChartStore | None
    compare_label: str
    earlier: int


class Beside:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._about: tuple[str, ...] = ()
        self._has_asked = False
        self._name = ""
        self._charts = _charts()

    @property
    def is_loading(self) -> bool:
        """Whether a part of it is on its way."""
        return self._charts.is_loading

    def question(
        self, state: ChartState, window: Window | None = None
    ) -> RunsQuestion | EarlierQuestion | None:
        """What is to be asked of the feed now. ``window``: the part of the run that is looked
        at."""
        if not self._has_asked:
            self._has_asked = True
            return RunsQuestion()
        name = self._chosen(state)
        if name != self._name:
            self._name = name
            self._charts = _charts()
        if not name:
            return None
        self._charts.choose(state.tags)
        course = self._charts.question() or self._charts.detail_question(window)
        return None if course is None else EarlierQuestion(name, course)

    def answer(self, answer: Answer) -> None:
        """The names of the earlier runs, or a piece of one's past."""
        question, reply = answer
        if isinstance(reply, RunNames):
            self._names, self._about = reply.names, reply.about
        elif (
            isinstance(question, EarlierQuestion)
            and question.name == self._name
            and isinstance(reply, HistoryPiece | NoAnswer)
        ):
            if isinstance(question.course, DetailQuestion):
                self._charts.detail_answer(question.course, reply)
            else:
                self._charts.answer(question.course, reply)

    def data(self, state: ChartState) -> BesideData:
        """What is drawn of it."""
        name = self._chosen(state)
        store = self._charts.store if name and name == self._name else None
        label = ""
        if name:
            about = dict(zip(self._names, self._about, strict=False)).get(name)
            named = f"{name}, {about}" if about else name
            place = f"{state.earlier + 1} of {len(self._names)}: " if len(self._names) > 1 else ""
            label = f"{place}{named}"
        return BesideData(store, label, len(self._names))

    def _chosen(self, state: ChartState) -> str:
        return self._names[state.earlier] if 0 <= state.earlier < len(self._names) else ""


def _charts() -> ChartKeeping:
    return ChartKeeping(lambda _tags: (), is_over=True)
