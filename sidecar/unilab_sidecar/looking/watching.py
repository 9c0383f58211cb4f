"""All that one viewer knows of a run: what the feed hands over goes in, what is to be shown and what
is to be asked comes out. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.pace import Pace
from unilab_schema.requests import ConsolePiece
from unilab_sidecar.charting.beside import Beside
from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.charting.panes import ChartData
from unilab_sidecar.charting.store import HistoryPiece
from unilab_sidecar.events.console_lines import ConsoleText
from unilab_sidecar.events.console_store import ConsoleStore
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.feeding.earlier_events import (
    EventsBefore,
    EventsQuestion,
    PointsQuestion,
    tags_of,
)
from unilab_sidecar.feeding.moment import Moment
from unilab_sidecar.feeding.past_pieces import PastPeak, PastPiece, PastQuestion, PeakQuestion
from unilab_sidecar.feeding.past_questions import CourseQuestion, DetailQuestion, MomentQuestion
from unilab_sidecar.feeding.questions import (
    Answer,
    ConsoleQuestion,
    EarlierQuestion,
    PaceQuestion,
    Question,
    RanksQuestion,
    RunsQuestion,
    StopQuestion,
    StopSaid,
)
from unilab_sidecar.looking.scrubbing import Place, Scrubbing
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Picture
from unilab_sidecar.ranks.table import RankTable
from unilab_sidecar.ranks.watching import RankWatching
from unilab_sidecar.series import Series
from unilab_sidecar.values.whole_run import WholeRun
from unilab_sidecar.views.charts import usual, window_of

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
    console: ConsoleText


class Watching:
    """One owner, no locks."""

    def __init__(self, run_dir: str, target: str = "") -> None:
        """``run_dir``: where this viewer sees the run, ``target``: what it was told to look at."""
        self._run_dir, self._target = run_dir, target
        self.series = self._new_series()
        self.newest = self._picture = Picture(target=target or run_dir)
        self.pace: Pace | None = None
        self._charts = ChartKeeping(partial(usual, most=_USUAL_KEPT))
        self._ranks = RankWatching()
        self._scrubbing = Scrubbing(run_dir)
        self._console = ConsoleStore()
        self._known: tuple[str, ...] = ()
        self._whole = WholeRun(self._new_series)
        self._asked_pace = self._has_asked_points = False
        self._asked_events: EventsQuestion | None = None
        self._beside = Beside()
        self._wished = PaceQuestion()
        self._stop_said = ""

    @property
    def is_waiting(self) -> bool:
        """Whether there is more to come soon than a picture every half second needs."""
        is_loading = self._charts.is_loading or self._beside.is_loading
        is_loading = is_loading or self._console.is_waiting
        is_loading = is_loading or self._whole.is_pending
        return self.series.behind or is_loading or self._scrubbing.is_waiting

    @property
    def is_loading(self) -> bool:
        """Whether what comes is only a part of what is waited for."""
        return self._charts.is_loading or self._whole.is_pending

    def newly_said(self) -> str:
        """What has come of the newest wish to stop the training, once."""
        said, self._stop_said = self._stop_said, ""
        return said

    def _new_series(self) -> Series:
        return Series(self._run_dir, self._target)

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
            self.series, self._whole = self._new_series(), WholeRun(self._new_series)
            self._asked_events = None
            self._charts.restart()
            self._scrubbing.restart()
        self.series.add(batch := self._whole.heed(batch))
        self._charts.add(batch.records, is_paused=is_paused)
        self._scrubbing.heed(batch.records, batch.head, is_paused=is_paused)
        if batch.summary is not None:
            self._scrubbing.ended(batch.summary.training_s)
        for answer in batch.answers:
            self._take_answer(answer)

    def _take_answer(self, answer: Answer) -> None:
        question, reply = answer
        match question:
            case RanksQuestion():
                self._ranks.answer(answer, self.newest.run.algorithm)
            case ConsoleQuestion() if isinstance(reply, ConsolePiece | NoAnswer):
                self._console.answer(question, reply)
            case CourseQuestion() if isinstance(reply, HistoryPiece | NoAnswer):
                self._charts.answer(question, reply)
            case DetailQuestion() if isinstance(reply, HistoryPiece | NoAnswer):
                self._charts.detail_answer(question, reply)
            case PointsQuestion() if isinstance(reply, EventsBefore):
                self._charts.point_tags |= tags_of(reply.records)
            case EventsQuestion() if isinstance(reply, EventsBefore):
                if question is self._asked_events:
                    # Another one was asked for a series that has been replaced.
                    self.series.add_earlier([record.entry for record in reply.records])
            case PastQuestion() if isinstance(reply, PastPiece | NoAnswer):
                if (whole := self._whole.answer(question, reply)) is not None:
                    self.series, self._asked_events = whole, None
            case PeakQuestion() if isinstance(reply, PastPeak | NoAnswer):
                self._whole.peak_answer(question, reply)
                self._scrubbing.peak.answer(question, reply)
            case MomentQuestion() if isinstance(reply, Moment | NoAnswer):
                self._scrubbing.answer(question, reply, self.series.with_courses_until)
                self._charts.reach(self._scrubbing.shown_at or 0)
            case StopQuestion() if isinstance(reply, StopSaid | NoAnswer):
                self._stop_said = reply.text
            case RunsQuestion() | EarlierQuestion():
                self._beside.answer(answer)
            case _:
                if isinstance(reply, Pace) and self._wished in (question, PaceQuestion()):
                    self.pace, self._wished = reply, PaceQuestion()

    def looked_at(self) -> None:
        """Everything that has come is in the next picture."""
        picture = self.series.picture()
        rewards = self._whole.with_peak(picture.rewards)
        self.newest = picture if rewards is picture.rewards else replace(picture, rewards=rewards)

    def questions(self, state: ViewState, *, is_between: bool = True) -> list[Question]:
        """What is to be asked of the feed now. ``is_between``: the next picture is not due yet."""
        wanted: list[Question | None] = [] if self._asked_pace else [PaceQuestion()]
        self._asked_pace = True
        is_paused = state.paused_unix_s is not None
        wanted.append(self._ranks.question(self.newest, state, is_between=is_between))
        wanted.append(self._whole.question(self.newest.rewards.tag))
        first = self._whole.begin or 0
        if first > 1 and not self.series.behind:
            if state.view == "events" and self._asked_events is None:
                self._asked_events = EventsQuestion(first - 1)
                wanted.append(self._asked_events)
            if state.view == "charts" and not self._has_asked_points:
                self._has_asked_points = True
                wanted.append(PointsQuestion(first - 1))
        if state.view == "events":
            # What is held stands still with the display, what is older may be read.
            is_still = is_between or is_paused
            wanted.append(self._console.question(state.events.top, is_between=is_still))
        if state.view == "charts" and not self.series.behind:
            course = self._charts.question()
            wanted.append(course)
            window = window_of(self._chart_data(state), state.chart)
            if course is None:
                wanted.append(self._charts.detail_question(window))
            wanted.append(self._beside.question(state.chart, window))
        if is_paused:
            wanted.append(self._scrubbing.question(state.at))
            if not self._whole.is_pending:
                # Of each kind of question the feed keeps one.
                wanted.append(self._scrubbing.peak_question(is_between=is_between))
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
            told.last,
        )
        return wish

    def _chart_data(self, state: ViewState) -> ChartData:
        # Of a run that is over all is shown, also while it is played again.
        goes_on, is_replay = self.newest.ended is None, self.pace is not None
        beside = self._beside.data(state.chart)
        return ChartData(
            self._charts.store,
            self._known,
            beside.compare,
            beside.compare_label,
            live=goes_on and not is_replay,
            earlier=beside.earlier,
            is_played=goes_on and is_replay,
            finer=self._charts.progress,
            is_behind=self._charts.is_behind,
        )

    def seen(self, state: ViewState) -> Seen:
        """What is shown."""
        is_paused = state.paused_unix_s is not None
        if not is_paused:
            self._picture = self.newest
        past = self._scrubbing.picture if is_paused else None
        table = self._ranks.table(self._picture, self._known, past, is_paused=is_paused)
        picture = past or self._picture
        if self.pace is not None:
            picture = replace(picture, is_played=True)
        readings = self._picture.readings
        more = [tag for tag in self._charts.point_tags if tag not in readings]
        if len(readings) + len(more) != len(self._known):
            self._known = tuple(sorted((*readings, *more)))
        return Seen(
            picture,
            self._chart_data(state),
            table,
            self._scrubbing.place(picture, state.at, 0 if self.pace is None else self.pace.last),
            self._scrubbing.unix_s if is_paused else None,
            self._scrubbing.problem if is_paused else "",
            self._console.text(),
        )
