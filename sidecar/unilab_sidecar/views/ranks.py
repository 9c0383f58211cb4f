"""The ranks: how each one stands, what takes its time, who is slowest, who is lost. Pure.

The app asks the feed for a :class:`~unilab_sidecar.feeding.questions.RanksQuestion` with :func:`wanted`
while this view is open, gives the answers to a :class:`~unilab_sidecar.ranks.table.RankStore`, and
keys to ``ranks.state.press`` with the :func:`context` from here.
"""

from __future__ import annotations

from typing import NamedTuple

from unilab_metrics.wording import counted
from unilab_schema.known_names import EPISODE_LENGTH, MEAN_REWARD, tag_of
from unilab_sidecar.charting.picker import picker_lines
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.flow import flowed
from unilab_sidecar.drawing.layout import FRAME_CELLS, FRAME_ROWS, Screen
from unilab_sidecar.drawing.text import Block, Line, Segment, Style, clip, fit, line, line_width
from unilab_sidecar.feeding.questions import RanksQuestion
from unilab_sidecar.looking.key_help import edge_hint
from unilab_sidecar.panels.parts import heading
from unilab_sidecar.picture import Picture
from unilab_sidecar.progress.standing import has_contact
from unilab_sidecar.ranks.columns import GONE, SLOWEST, STATES, percent, row, titles
from unilab_sidecar.ranks.columns import columns as columns_of
from unilab_sidecar.ranks.spreads import spreads, who
from unilab_sidecar.ranks.state import KEYS, MAX_TAGS, RanksContext, RanksState, first_row
from unilab_sidecar.ranks.table import RankLine, RankTable, asked_tags, at_work

__all__ = ["context", "ranks", "wanted", "window"]

_USUAL = (
    "Loss/critic",
    "Loss/actor",
    "Loss/value",
    "Loss/value_function",
    "Loss/surrogate",
    "Policy/mean_std",
    "Policy/mean_noise_std",
)
_LEAST_ROWS = 5
"""Of the table, before the lines around it give way."""
_ORDERS = {"rank": "by rank", "slowest": "slowest first", "age": "oldest first"}
_NAMED = 6
_AIRY_FROM = 30
"""Lines of a screen that has room for blank ones."""
_SHOWN = ("live", "failed", "silent", "lost", "gone")


def wanted(picture: Picture, state: RanksState) -> RanksQuestion:
    """What to ask for, twice a second while this view is open."""
    chosen = state.tags or _usual(picture)
    return RanksQuestion(asked_tags(picture.run.algorithm, chosen, picture.readings))


def window(table: RankTable) -> str:
    """Over what the values of this view are means, for the title; empty without any."""
    if not table.has_answer:
        return ""
    return f"Avg 2s (n={table.samples})" if table.samples else "newest values"


def context(
    table: RankTable, picture: Picture, state: RanksState, columns: int, rows: int
) -> RanksContext:
    """What ``press`` needs to know about this screen."""
    page = _page(table, picture, state, columns, rows)
    return RanksContext(table.known, len(page.lines), page.space)


def ranks(table: RankTable, picture: Picture, state: RanksState, columns: int, rows: int) -> Screen:
    """The ranks on a terminal of ``columns`` by ``rows``. Never raises, whatever the size."""
    width, room = max(columns - FRAME_CELLS, 1), max(rows - FRAME_ROWS, 1)
    if state.picker is not None:
        shown = picker_lines(state.picker, table.known, width, room, MAX_TAGS, shows="their values")
        return Screen(fit("Ranks", max(width - 2, 0)), "", shown[:room])
    page = _page(table, picture, state, columns, rows)
    first = first_row(state, len(page.lines), page.space)
    visible = page.lines[first : first + page.space]
    tags, are_chosen = _tags(table, picture, state)
    drawn = columns_of(table, page.lines, tags, width, are_chosen=are_chosen)
    body: Block = [*page.above, titles(drawn)] if page.lines else [*page.above]
    body += [row(one, drawn) for one in visible]
    if page.below and page.below[0] and len(visible) < page.space:
        body.append(())
    body += page.below
    title = "Ranks"
    if len(visible) < len(page.lines):
        title = f"Ranks · rows {first + 1:,}-{first + len(visible):,} of {len(page.lines):,}"
    return Screen(
        fit(title, max(width - 2, 0)),
        edge_hint(KEYS, width),
        [clip(parts, width) for parts in body[:room]],
    )


class _Page(NamedTuple):
    """``above`` and ``below`` the table stay where they are, ``lines`` scroll in ``space``."""

    above: Block
    lines: list[RankLine]
    space: int
    below: Block


def _page(table: RankTable, picture: Picture, state: RanksState, columns: int, rows: int) -> _Page:
    width, room = max(columns - FRAME_CELLS, 1), max(rows - FRAME_ROWS, 1)
    lines = _ordered(table, state)
    tags, _ = _tags(table, picture, state)
    airy = [()] if room >= _AIRY_FROM else []
    above = [*_above(table, picture, state, width), *airy]
    free = room - len(above) - len(lines) - 4
    happened = [row.tag for row in picture.learner.rows] if picture.learner is not None else []
    below = spreads(table, tags, width, max(room // 4, free, 1), happened)
    if below:
        below = [*airy, heading(_over(table), width), *below]
    least = min(len(lines), _LEAST_ROWS)
    while below and room - len(above) - 1 - len(below) < least:
        below = below[:-1] if len(below) > 2 + len(airy) else []
    while above and room - len(above) - 1 < min(least, 3):
        above = above[:-1]
    space = max(room - len(above) - bool(lines) - len(below), 1)
    return _Page(above, lines, space, below)


def _usual(picture: Picture) -> tuple[str, ...]:
    reward = tag_of("reward", picture.readings, picture.run.reward_tag) or MEAN_REWARD
    length = tag_of("episode_length", picture.readings) or EPISODE_LENGTH
    return (reward, *_USUAL, length)


def _tags(table: RankTable, picture: Picture, state: RanksState) -> tuple[tuple[str, ...], bool]:
    if state.tags:
        return state.tags, True
    there = (tag for tag in _usual(picture) if tag in table.spreads)
    return tuple(tag for tag in there if table.spreads[tag].count), False


def _ordered(table: RankTable, state: RanksState) -> list[RankLine]:
    """Ranks in the chosen order, each with its collectors below it."""
    groups: dict[int, list[RankLine]] = {}
    for one in table.lines:
        groups.setdefault(one.key.rank, []).append(one)
    ordered = list(groups.values())
    if state.order == "slowest":
        ordered.sort(key=lambda group: -max((one.work_ms or 0.0) for one in group))
    elif state.order == "age":
        ordered.sort(key=lambda group: -max((one.age_s or 0.0) for one in group))
    return [
        one
        for group in ordered
        for one in group
        if state.collectors or one is group[0] or one.state not in ("live", "finished")
    ]


def _above(table: RankTable, picture: Picture, state: RanksState, width: int) -> Block:
    # A rank that stands still comes before one that is slow: the others wait for it.
    lines: Block = [_counts(table, picture, state, width), *_in_trouble(table, width)]
    if text := _as_of(table):
        lines += flowed(None, [Segment(f"! {text}", "warn")], width)
    if table.problem and not table.has_answer:
        lines += flowed(
            None, [Segment(f"! No values of single ranks: {table.problem}", "warn")], width
        )
    elif not table.has_answer:
        lines.append(line(Segment("Asking the aggregator for every rank's values.", "label")))
    elif (slowest := _slowest(table)) is not None:
        lines.append(slowest)
    if table.left_out[0]:
        text = f"! {counted(table.left_out[0], 'tag')} left out: the answer has no room for them"
        lines.append(line(Segment(text, "warn")))
    if table.left_out[1]:
        text = f"! {counted(table.left_out[1], 'row')} left out: the answer has no room for them"
        lines.append(line(Segment(text, "warn")))
    return lines


def _as_of(table: RankTable) -> str:
    """Of when the values are, and the states, where the rest of the screen is of another time."""
    at = table.as_of_iteration
    if table.is_of_another_moment:
        at = table.iteration if at is None else at
        if at is None or not table.has_answer:
            return "not of this moment: states are those that are known last"
        return f"not of this moment: single ranks are known as of iteration {at:,}"
    if at is None:
        return ""
    return f"values as of iteration {at:,}{f': {table.problem}' if table.problem else ''}"


def _counts(table: RankTable, picture: Picture, state: RanksState, width: int) -> Line:
    learners = [one for one in table.lines if one.is_learner]
    counts = {one.state: 0 for one in learners}
    for one in learners:
        counts[one.state] += 1
    heard = len({one.key.rank for one in learners or table.lines})
    expected = max(table.expected, heard)
    parts = [Segment(counted(expected, "rank"), "heading")]
    parts += [Segment(f"{counts.pop(s):,} {s}", STATES[s][2]) for s in _SHOWN if s in counts]
    parts += [Segment(f"{count:,} {name}", "dim") for name, count in counts.items()]
    if absent := expected - heard:
        parts.append(Segment(f"{absent:,} not heard yet", "warn"))
    parts.append(Segment(_ORDERS[state.order], "label"))
    if said := _iterations(table):
        parts.append(Segment(said, "value"))
    if not has_contact(picture):
        parts.append(Segment(f"as of {formatting.age(picture.silent_s)} ago", "warn"))
    shown: list[Segment] = []
    for part in parts:
        more = [Segment(" · ", "dim"), part] if shown else [part]
        if shown and line_width([*shown, *more]) > width:
            break
        shown += more
    return line(*shown)


def _iterations(table: RankTable) -> str:
    """How far the first and the last are of those that count; the title says how far all are as of
    the newest update, which of a single rank is the same."""
    there = at_work(table) or table.lines
    known = [one.iteration for one in there if one.is_learner and one.iteration is not None]
    if len(known) < 2:
        return ""
    last, first = min(known), max(known)
    if last == first:
        return f"all at iteration {first:,}"
    return f"iterations {last:,} to {first:,}"


def _over(table: RankTable) -> str:
    """Whose values are compared and added up, if not everybody's."""
    ranks_there = {one.key.rank for one in table.lines if one.is_learner}
    if len({one.key.rank for one in table.lines}) == 1:
        return "Values"
    counting = {one.key.rank for one in at_work(table) if one.is_learner}
    if not counting or counting == ranks_there:
        return "Over the ranks"
    return f"Over the ranks at work: {len(counting):,} of {len(ranks_there):,}"


def _slowest(table: RankTable) -> Line | None:
    learners = [one for one in at_work(table) if one.work_ms is not None]
    if len(learners) < 2 or table.mean_work_ms is None:
        return None
    one = next((one for one in learners if one.key == table.slowest), None)
    if one is None or one.over is None:
        mean = f"{formatting.milliseconds(table.mean_work_ms)} ms"
        said = "No rank is more than 1 % over the mean"
        if table.without_sync:
            said = "No rank's Work is more than 1 % over the mean"
        return line(Segment(said, "good"), Segment(f" of {mean}", "label"))
    work = formatting.milliseconds(one.work_ms or 0.0)
    over = f", {percent(one.over)} over the mean"
    if table.without_sync:
        over = f", Work {percent(one.over)} over the mean"
    return line(
        Segment(f"{SLOWEST}: {who(one.key)}", "warn"),
        Segment(over, "value"),
        Segment(f" ({work} of {formatting.milliseconds(table.mean_work_ms)} ms)", "label"),
    )


def _in_trouble(table: RankTable, width: int) -> Block:
    """Who is lost or silent, wherever the table is scrolled to."""
    parts: list[Segment] = []
    troubles: tuple[tuple[str, frozenset[str], Style], ...] = (
        ("X failed", frozenset({"failed"}), "bad"),
        ("L lost", GONE, "bad"),
        ("s silent", frozenset({"silent"}), "warn"),
    )
    for letter, states, style in troubles:
        found = [one for one in table.lines if one.state in states]
        ranks_found = {one.key.rank for one in found if one.is_learner}
        found = [one for one in found if one.is_learner or one.key.rank not in ranks_found]
        if not found:
            continue
        named = [f"{who(one.key)} ({formatting.age(one.age_s)})" for one in found[:_NAMED]]
        more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
        parts.append(Segment(f"{letter}: {', '.join(named)}{more}", style))
    return flowed(None, parts, width)[:2] if parts else []
