"""A run as lines of text: for pipes, logs and terminals that cannot show a screen.

No escape codes, no carriage returns, at most one line per update and interval.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from unilab_metrics.errors import ExitCode
from unilab_metrics.wording import counted
from unilab_schema.bottleneck import Rule
from unilab_sidecar.alerting.alerts import alerts
from unilab_sidecar.alerting.missing_words import is_counted, missing, refused, refused_apart
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import clean
from unilab_sidecar.events.milestones import stopped_by
from unilab_sidecar.feeding.batch import Failure
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.picture import Picture, Reading
from unilab_sidecar.printed.end_figures import end_figures
from unilab_sidecar.printed.printed_run import PrintedRun
from unilab_sidecar.printed.told_end import ToldEnd
from unilab_sidecar.progress.standing import expects_eta, has_contact, how_ended, state, words

INTERVAL_S = 5.0
HEARD_WITHIN_S = 2.0
"""Whoever announces the run is heard by then; before, nothing is said of its absence."""
QUIET_INTERVAL_S = 10.0
"""Between two lines about the same iteration."""
_TAKE_S = 0.2
_SAID_CELLS = 40
_NUMBERS = re.compile(r"\d[\d.,:]*")
_REFUSED = 4


def format_line(picture: Picture, said: Collection[str] = ()) -> str:
    """The run in one line, for people: the figures of the screen's header. ``said``: alerts, as
    :func:`gist` has them, of which the first words are enough. Pure."""
    if picture.iteration is None:
        return _before_training(picture)
    maximum = picture.run.max_iterations
    fields = [f"iter {picture.iteration}" + (f"/{maximum}" if maximum is not None else "")]
    rewards = picture.rewards
    if rewards.mean is not None:
        text = f"mean reward {formatting.fixed(rewards.mean.value, 2)}"
        if rewards.peak is not None:
            text += f" (peak {formatting.fixed(rewards.peak, 2)})"
        fields.append(text)
    fields += _reading("len", picture.episode_length, lambda v: formatting.fixed(v, 1))
    fields += _reading("steps/s", picture.steps_per_s, formatting.rate)
    fields += _reading("rows/s", picture.rows_per_s, formatting.rate)
    fields += _learning(picture)
    fields.append(f"elapsed {formatting.duration(picture.elapsed_s)}")
    if expects_eta(picture):
        fields.append(f"eta {formatting.duration(picture.eta_s)}")
    fields += missing(picture, lambda text: gist(text) in said)
    fields += _troubles(picture, said)
    return "  ".join(fields)


def gist(text: str) -> str:
    """What stays the same of an alert's text while it is open. Pure."""
    return _NUMBERS.sub("#", text)


class Teller(Protocol):
    """Turns pictures into lines of output."""

    def once(self, picture: Picture) -> list[str]:
        """All that is to be said at this moment."""
        ...

    def tell(self, picture: Picture, now_s: float, *, is_over: bool) -> list[str]:
        """What is to be said now, if anything. ``now_s``: on any clock that only rises;
        ``is_over``: nothing follows."""
        ...

    @property
    def has_found(self) -> bool:
        """Whether what was said last had a metric that passes the filter, if there is one."""
        ...


class LineTeller:
    """One line for people per update and interval, and what holds the training up when that
    changes."""

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._said: str = ""
        self._said_of, self._said_s = _About(None, "", 0), -math.inf
        self._told: Rule | None = None
        self._alerts: frozenset[str] = frozenset()

    @property
    def has_found(self) -> bool:
        """There is no filter."""
        return True

    def once(self, picture: Picture) -> list[str]:
        """One line, with the end of the run if it has one."""
        ended = picture.ended is not None and picture.iteration is not None
        slow = f"  {bottleneck_line(picture)}" if picture.bottleneck is not None else ""
        return [format_line(picture) + slow + (f"  {_end(picture)}" if ended else "")]

    def tell(self, picture: Picture, now_s: float, *, is_over: bool) -> list[str]:
        """The next line if it is time for one, and at the end its last words."""
        lines: list[str] = []
        about = _About(picture.iteration, state(picture).text[:1], len(alerts(picture)))
        wait_s = (
            self._interval_s if about != self._said_of else max(QUIET_INTERVAL_S, self._interval_s)
        )
        if is_over or now_s - self._said_s >= wait_s:
            text = format_line(picture, self._alerts)
            if text != self._said and (picture.iteration is not None or not picture.ended):
                lines.append(text)
                told = [one.text for one in alerts(picture)]
                self._alerts = frozenset(map(gist, (*told, refused(picture))))
            self._said, self._said_of, self._said_s = text, about, now_s
        rule = picture.bottleneck.rule if picture.bottleneck is not None else None
        if rule != self._told and not is_over:
            lines.append(bottleneck_line(picture))
            self._told = rule
        if is_over and picture.ended is not None:
            lines.append(
                "  ".join([_end(picture), *end_figures(picture), *_of_no_iteration(picture)])
            )
        return lines


def run_plain(
    feed: Feed,
    write: Callable[[str], None],
    *,
    once: bool = False,
    wait: bool = False,
    stays: bool = False,
    is_past: bool = False,
    teller: Teller | None = None,
    interval_s: float = INTERVAL_S,
    clock_s: Callable[[], float] = time.monotonic,
    stopped: Callable[[], bool] = lambda: False,
) -> Failure | None:
    """Writes lines until the run has ended or nobody is at work on it, or those of one moment with
    ``once``. ``wait``: a run that was cut off may go on. ``stays``: so may one that has ended: its
    end is told, and its next attempt awaited. ``is_past``: it is played from its files,
    so that nothing is awaited and it is over where they end. ``teller``: what the lines say, by
    default one for people every ``interval_s``.

    The feed runs in another thread. Returns why the feed had to give up, or that the aggregator
    does not let us in any more (unless ``wait`` is given: the key may come back), else ``None``;
    after a run that was cut off, the exit code without a text, because the lines have said it.
    """
    run = PrintedRun(feed, is_past=is_past)
    teller = teller or LineTeller(interval_s)
    began_s, end = clock_s(), ToldEnd()
    while not stopped():
        batches = feed.wait(_TAKE_S)
        if stopped():
            break
        if (failure := run.take(batches)) is not None:
            picture = run.picture(clock_s()) if once and run.is_untold else None
            for line in teller.once(picture) if picture is not None else ():
                write(line)
            return failure
        if not batches or (picture := run.picture(clock_s())) is None:
            continue
        is_cut_off = picture.ended is None and picture.gone is not None
        gives_up = is_cut_off and not wait
        if picture.refusal and not wait:
            return Failure(picture.refusal, ExitCode.REFUSED)
        if once:
            is_early = picture.iteration is None and picture.ended is None
            if (is_early or run.is_untold) and not gives_up and not is_past:
                continue
            for line in teller.once(picture):
                write(line)
            return _CUT_OFF if gives_up else None
        is_unheard = math.isinf(picture.silent_s) and picture.ended is None and not is_past
        is_unheard = is_unheard and picture.gone is None
        if is_unheard and clock_s() - began_s < HEARD_WITHIN_S:
            continue
        # What is still in the history comes before the end is announced.
        is_all = not any(batch.records for batch in batches)
        if gives_up and not is_all:
            continue
        is_played = is_past and not picture.connected
        has_ended = picture.ended is not None and (is_past or end.is_whole(picture, clock_s()))
        over = (has_ended or gives_up or is_played) and is_all
        if end.was_told(picture):
            continue
        for line in teller.tell(picture, clock_s(), is_over=over):
            write(line)
        if over and stays:
            end.told(picture)
        if over and not stays:
            return _CUT_OFF if gives_up else None
    return None


def where(run_dir: str, working_dir: str) -> str:
    """Where the run lies, as seen from ``working_dir``. Pure."""
    inside = run_dir.removeprefix(working_dir.rstrip("/") + "/")
    return f"run directory: {clean(inside)}"


def bottleneck_line(picture: Picture) -> str:
    """What holds the training up, with the numbers that say so and where to look first. Pure."""
    found = picture.bottleneck
    return f"bottleneck: {found.text if found is not None else 'nothing stands out any more'}"


class _About(NamedTuple):
    """What a line is about; ages alone make it no other one."""

    iteration: int | None
    mark: str
    alerts: int


_CUT_OFF = Failure("", ExitCode.NO_LIVE_RUN)


def _end(picture: Picture) -> str:
    is_told = bool(picture.ended_text) and not stopped_by(picture)
    why = f" ({clean(picture.ended_text)})" if is_told else ""
    return f"run ended: {how_ended(picture)}{why}"


def _of_no_iteration(picture: Picture) -> list[str]:
    """What no other line has said of a run that has ended without any."""
    if picture.iteration is not None:
        return []
    told = [one.line() for one in alerts(picture) if one.text != clean(picture.ended_text)]
    return [*told, *_refusals(picture)]


def _refusals(picture: Picture) -> list[str]:
    """Why, in the words of those who could not log something."""
    texts = [clean(note.text) for note in picture.notes if note.refused]
    more = len(texts) - _REFUSED
    return [*texts[:_REFUSED], *([f"and {more:,} refusals more"] if more > 0 else [])]


def _before_training(picture: Picture) -> str:
    fields = [words(picture)]
    if picture.progress is not None:
        text = clean(picture.progress.text)
        fields.append(text or formatting.percent(100 * picture.progress.fraction))
    fields += [alert.line() for alert in alerts(picture)]
    return "  ".join([*fields, *_refusals(picture)])


def _reading(name: str, reading: Reading | None, form: Callable[[float], str]) -> list[str]:
    return [] if reading is None else [f"{name} {form(reading.value)}"]


def _learning(picture: Picture) -> list[str]:
    if picture.learner is None:
        return []
    learning = next((r.ms for r in picture.learner.rows if r.label == "Learning"), None)
    if learning is None:
        return []
    wall = picture.learner.wall_ms
    return [f"learning {formatting.milliseconds(learning)} of {formatting.milliseconds(wall)} ms"]


def _troubles(picture: Picture, said: Collection[str]) -> list[str]:
    """Whatever the screen says of the run's state, of what is wrong and of what is counted."""
    troubles: list[str] = []
    if picture.ended is None and (standing := words(picture)) != "training":
        troubles.append(standing)
    troubles += [
        alert.line(_SAID_CELLS if gist(alert.text) in said else None)
        for alert in alerts(picture)
        if alert.text != clean(picture.ended_text) and not is_counted(alert, picture)
    ]
    if picture.learner is not None and picture.learner.over_accounted:
        share = picture.learner.accounted_percent
        troubles += [] if share is None else [f"phases account for {formatting.percent(share)}"]
    for count, what in (
        (picture.journal.late_values, "late value"),
        (picture.bus.bad_messages, "bad message"),
    ):
        troubles += [counted(count, what)] if count else []
    if (names := refused_apart(picture)) and gist(names) not in said:
        troubles.append(f"refused {names}")
    if has_contact(picture) and picture.age_s is not None and picture.age_s > INTERVAL_S:
        troubles.append(f"last update {formatting.age(picture.age_s)} ago")
    return troubles
