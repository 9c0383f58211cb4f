"""All that one viewer knows of a run: what the feed hands over goes in, what is to be shown and what
is to be asked comes out. Pure.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.pace import Pace
from unilab_sidecar.batch import Batch
from unilab_sidecar.beside import Beside
from unilab_sidecar.chart_keeping import ChartKeeping
from unilab_sidecar.chart_panes import ChartData
from unilab_sidecar.chart_store import HistoryPiece
from unilab_sidecar.moment import Moment
from unilab_sidecar.past_questions import CourseQuestion, MomentQuestion
from unilab_sidecar.picture import Picture
from unilab_sidecar.questions import (
    EarlierQuestion,
    PaceQuestion,
    Question,
    RanksQuestion,
    RunsQuestion,
)
from unilab_sidecar.rank_table import RankStore, RankTable
from unilab_sidecar.scrubbing import Place, Scrubbing
from unilab_sidecar.series import Series
from unilab_sidecar.viewing import ViewState
from unilab_sidecar.views import ranks
from unilab_sidecar.views.charts import usual

_USUAL_KEPT = 7
SPEEDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Of a run that is played again; the keys go from one to the next."""


class Seen(NamedTuple):
    """What is to be shown of it. ``moment_unix_s``: when the moment was that is shown, if the
    display stands still; ``problem``: why another one cannot be shown."""

    picture: Picture
    charts: ChartData
    table: RankTable
    place: Place
    moment_unix_s: float | None
    problem: str


class Watching:
    """One owner, no locks."""

    def __init__(self, run_dir: str) -> None:
        """``run_dir``: where this viewer sees the run."""
        self._run_dir = run_dir
        self.series = Series(run_dir)
        self.newest = self._picture = Picture()
        self.pace: Pace | None = None
        self._charts = ChartKeeping(partial(usual, most=_USUAL_KEPT))
        self._ranks = RankStore()
        self._rank_table = self._ranks.table()
        self._scrubbing = Scrubbing(run_dir)
        self._known: tuple[str, ...] = ()
        self._asked_pace = False
        self._beside = Beside()
        self._wished = PaceQuestion()

    @property
    def is_waiting(self) -> bool:
        """Whether there is more to come soon than a picture every half second needs."""
        is_loading = self._charts.is_loading or self._beside.is_loading
        return self.series.behind or is_loading or self._scrubbing.is_waiting

    @property
    def is_loading(self) -> bool:
        """Whether what comes is only a part of what is waited for."""
        return self._charts.is_loading

    def choose(self, tags: tuple[str, ...]) -> None:
        """These tags' charts are drawn."""
        self._charts.choose(tags)

    def pause(self, *, is_paused: bool) -> None:
        """The display stands still from now on, or is live again."""
        self._charts.add((), is_paused=is_paused)
        self._scrubbing.let_go()

    def take(self, batch: Batch, *, is_paused: bool) -> None:
        """What has come."""
        if batch.restarted:
            self.series = Series(self._run_dir)
            self._charts.restart()
            self._scrubbing.restart()
        self.series.add(batch)
        self._charts.add(batch.records, is_paused=is_paused)
        self._scrubbing.heed(batch.records, batch.head, is_paused=is_paused)
        for answer in batch.answers:
            question, reply = answer
            if isinstance(question, RanksQuestion):
                self._ranks.add(answer, self.newest.run.algorithm)
            elif isinstance(question, CourseQuestion):
                if isinstance(reply, HistoryPiece | NoAnswer):
                    self._charts.answer(question, reply)
            elif isinstance(question, MomentQuestion):
                if isinstance(reply, Moment | NoAnswer):
                    self._scrubbing.answer(question, reply)
            elif isinstance(question, RunsQuestion | EarlierQuestion):
                self._beside.answer(answer)
            elif isinstance(reply, Pace) and self._wished in (question, PaceQuestion()):
                self.pace, self._wished = reply, PaceQuestion()

    def looked_at(self) -> None:
        """Everything that has come is in the next picture."""
        self.newest = self.series.picture()

    def questions(self, state: ViewState) -> list[Question]:
        """What is to be asked of the feed now."""
        wanted: list[Question | None] = [] if self._asked_pace else [PaceQuestion()]
        self._asked_pace = True
        is_paused = state.paused_unix_s is not None
        if state.view == "ranks" and not is_paused:
            wanted.append(ranks.wanted(self.newest, state.ranks))
        if state.view == "charts" and not self.series.behind:
            wanted.append(self._charts.question())
            wanted.append(self._beside.question(state.chart))
        if is_paused:
            wanted.append(self._scrubbing.question(state.at))
        return [question for question in wanted if question is not None]

    @property
    def pace_words(self) -> str:
        """How fast a run is played again, empty of one that is not."""
        return "" if self.pace is None else f"{self.pace.speed:g}×"

    def other_speed(self, *, faster: bool) -> PaceQuestion:
        """To whoever plays a run again: the next speed."""
        now = 1.0 if self.pace is None else self.pace.speed
        others = [one for one in SPEEDS if (one > now if faster else one < now)]
        speed = (others[0] if faster else others[-1]) if others else now
        return self._paced(PaceQuestion(speed))

    def resume(self, state: ViewState, before: ViewState) -> PaceQuestion:
        """To whoever plays a run again: it stands still with the display, and goes on from what
        is shown."""
        is_paused = state.paused_unix_s is not None
        return self._paced(PaceQuestion(None, is_paused, None if is_paused else before.at))

    def _paced(self, wish: PaceQuestion) -> PaceQuestion:
        """The wish with what was wished before and is not done yet: only the newest is heard."""
        now, told = self._wished, self.pace or Pace(1.0, is_paused=False)
        wish = PaceQuestion(
            wish.speed if wish.speed is not None else now.speed,
            wish.is_paused if wish.is_paused is not None else now.is_paused,
            wish.to if wish.to is not None else now.to,
        )
        self._wished = wish
        self.pace = Pace(
            told.speed if wish.speed is None else wish.speed,
            told.is_paused if wish.is_paused is None else wish.is_paused,
        )
        return wish

    def seen(self, state: ViewState) -> Seen:
        """What is shown."""
        is_paused = state.paused_unix_s is not None
        if not is_paused:
            self._picture = self.newest
            self._rank_table = self._ranks.table(self._known, self._picture.sources)
        picture = (self._scrubbing.picture if is_paused else None) or self._picture
        if len(self._picture.readings) != len(self._known):
            self._known = tuple(sorted(self._picture.readings))
        return Seen(
            picture,
            ChartData(self._charts.store, self._known, *self._beside.data(state.chart)),
            self._rank_table,
            self._scrubbing.place(picture, state.at),
            self._scrubbing.unix_s if is_paused else None,
            self._scrubbing.problem if is_paused else "",
        )
