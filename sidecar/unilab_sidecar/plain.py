"""A run as lines of text: for pipes, logs and terminals that cannot show a screen.

No escape codes, no carriage returns, at most one line per update and interval.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from unilab_sidecar import formatting
from unilab_sidecar.batch import Failure
from unilab_sidecar.feed import Feed
from unilab_sidecar.panels.header import has_contact, state
from unilab_sidecar.picture import Picture, Reading
from unilab_sidecar.series import Series
from unilab_sidecar.text import clean

INTERVAL_S = 5.0
QUIET_INTERVAL_S = 10.0
"""Between two lines about the same iteration."""
_TAKE_S = 0.2


def format_line(picture: Picture) -> str:
    """The run in one line, for people: the figures of the screen's header. Pure."""
    if picture.iteration is None:
        return _before_training(picture)
    maximum = picture.run.max_iterations
    fields = [f"iter {picture.iteration}" + (f"/{maximum}" if maximum is not None else "")]
    rewards = picture.rewards
    if rewards.mean is not None:
        text = f"reward {formatting.fixed(rewards.mean.value, 2)}"
        if rewards.peak is not None:
            text += f" (peak {formatting.fixed(rewards.peak, 2)})"
        fields.append(text)
    fields += _reading("len", picture.episode_length, lambda v: formatting.fixed(v, 1))
    fields += _reading("steps/s", picture.steps_per_s, formatting.rate)
    fields += _reading("rows/s", picture.rows_per_s, formatting.rate)
    fields += _learning(picture)
    fields.append(f"elapsed {formatting.duration(picture.elapsed_s)}")
    if picture.ended is None:
        fields.append(f"eta {formatting.duration(picture.eta_s)}")
    if picture.dropped is not None:
        fields.append(f"dropped {picture.dropped}")
    fields += _troubles(picture)
    return "  ".join(fields)


def run_plain(
    feed: Feed,
    write: Callable[[str], None],
    *,
    once: bool = False,
    interval_s: float = INTERVAL_S,
    clock_s: Callable[[], float] = time.monotonic,
    stopped: Callable[[], bool] = lambda: False,
) -> Failure | None:
    """Writes lines until the run has ended, or one line with ``once``.

    The feed runs in another thread. Returns why the feed had to give up, else ``None``.
    """
    series = Series()
    said, said_iteration, said_s = "", None, -math.inf
    while not stopped():
        batches = feed.wait(_TAKE_S)
        for batch in batches:
            if batch.failure is not None:
                return batch.failure
            series.add(batch)
        if not batches:
            continue
        if series.behind:
            continue
        picture = series.picture()
        if once and picture.iteration is None and picture.ended is None:
            continue
        # What is still in the history comes before the end is announced.
        over = picture.ended is not None and not any(batch.records for batch in batches)
        wait_s = interval_s if picture.iteration != said_iteration else QUIET_INTERVAL_S
        if once:
            ended = picture.ended is not None and picture.iteration is not None
            write(format_line(picture) + (f"  {_end(picture)}" if ended else ""))
            return None
        if over or clock_s() - said_s >= wait_s:
            text = format_line(picture)
            if text != said and (picture.iteration is not None or not over):
                write(text)
            said, said_iteration, said_s = text, picture.iteration, clock_s()
        if over:
            write(_end(picture))
            return None
    return None


def _end(picture: Picture) -> str:
    return f"run ended: {clean(picture.ended or '')}"


def _before_training(picture: Picture) -> str:
    words = state(picture).text.split(" ", 1)[1]
    if picture.progress is not None:
        text = clean(picture.progress.text)
        return f"{words}  {text or formatting.percent(100 * picture.progress.fraction)}"
    return words


def _reading(name: str, reading: Reading | None, form: Callable[[float], str]) -> list[str]:
    return [] if reading is None else [f"{name} {form(reading.value)}"]


def _learning(picture: Picture) -> list[str]:
    if picture.learner is None:
        return []
    learning = next((r.ms for r in picture.learner.rows if r.label == "Learning"), None)
    if learning is None:
        return []
    wall = picture.learner.wall_ms
    return [f"learning {formatting.milliseconds(learning)}/{formatting.milliseconds(wall)} ms"]


def _troubles(picture: Picture) -> list[str]:
    if not has_contact(picture):
        # What the sources do is not known then.
        return [state(picture).text.split(" ", 1)[1]]
    troubles = [
        f"{clean(source.key.role)} {source.key.rank} {clean(source.state)}"
        for source in picture.sources
        if source.state in ("silent", "lost")
    ]
    if picture.age_s is not None and picture.age_s > INTERVAL_S:
        troubles.append(f"last update {formatting.age(picture.age_s)} ago")
    return troubles
