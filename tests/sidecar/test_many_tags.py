"""Thousands of tags: only what is on the screen is drawn, and it is what all of it would be."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_run import whole_run
from series_records import SAC, head, update
from still_sidecar import drive, screen_text
from textual.pilot import Pilot

from unilab_sidecar.app import SidecarApp
from unilab_sidecar.drawing.lines_on_demand import LinesOnDemand, beside, each, joined
from unilab_sidecar.drawing.text import Line, Segment, clip, line_width, plain
from unilab_sidecar.drawing.text import beside as eagerly_beside
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.groups import pattern
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.groups.metric_group import Label, Labels, Readings, group_of, of_readings
from unilab_sidecar.looking import showing
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.looking.watching import Watching
from unilab_sidecar.panels import metric_grid, metrics, rewards
from unilab_sidecar.panels.parts import metric_cell
from unilab_sidecar.picture import Metric, Picture, Reading, Rewards
from unilab_sidecar.series import Series
from unilab_sidecar.values.window import Window
from unilab_sidecar.views.overview import layout

MANY = 12_345
FORMS = {
    "losses": ("Loss/head_{}",),
    "terms": ("reward/term_{}",),
    "mixed": ("Loss/head_{}", "Policy/part_{}", "reward/term_{}", "my/tag_{}"),
}


def values(kind: str) -> dict[str, float]:
    forms = FORMS[kind]
    return {forms[n % len(forms)].format(n): n / 7 for n in range(MANY)} | {
        "Train/mean_reward": 3.0
    }


@pytest.fixture(scope="module", params=[*FORMS])
def watching(request: pytest.FixtureRequest) -> Watching:
    made = Watching("run")
    record = update(1, values(request.param))
    made.take(Batch((record,), head(1.0, run=SAC), connected=True), is_paused=False)
    made.looked_at()
    return made


def screen_of(watching: Watching, state: ViewState, size: tuple[int, int]) -> showing.Screen:
    seen = watching.seen(state)
    return showing.screen(showing.Shown(seen.picture, seen.charts, seen.table), state, *size)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Metric]:
    """The metrics that were made ready to be drawn."""
    those: list[Metric] = []

    def counted(metric: Metric) -> Any:
        those.append(metric)
        return metric_cell(metric)

    monkeypatch.setattr(metric_grid, "metric_cell", counted)
    monkeypatch.setattr(metrics, "metric_cell", counted)
    return those


@pytest.mark.parametrize("wanted", ["", "/[3-7]$/"])
def test_only_what_is_seen_is_drawn(watching: Watching, drawn: list[Metric], wanted: str):
    state = ViewState().filtered_by(wanted)
    for size in ((80, 24), (300, 100)):
        for panel in ("", "metrics", "rewards", "others"):
            drawn.clear()
            shown = replace(state, focus=panel, zoomed=bool(panel))
            lines = screen_of(watching, shown, size).lines
            for top in (0, len(lines) // 2, max(len(lines) - size[1], 0)):
                assert [lines[at] for at in range(top, min(top + size[1], len(lines)))]
            # Three screens of two panels of at most eight columns.
            assert len(drawn) < 16 * 3 * size[1], (size, panel)


def test_the_last_tag_is_there_when_somebody_scrolls_to_it(watching: Watching):
    state = ViewState().filtered_by(str(MANY - 1))
    text = "\n".join(map(plain, screen_of(watching, state, (120, 40)).lines))
    assert f"{(MANY - 1) / 7:,.0f}" in text
    assert text.count("\n") < 50


GROUPS = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=14),
        st.floats(-1e90, 1e90).filter(lambda number: abs(number) > 1e-90) | st.just(math.nan),
    ),
    max_size=40,
    unique_by=lambda one: one[0],
)


def metrics_of(named: Sequence[tuple[str, float]], prefix: str) -> tuple[Metric, ...]:
    return tuple(
        Metric(f"{name}", f"{prefix}/{number}", Reading(value))
        for number, (name, value) in enumerate(named)
    )


@settings(max_examples=40, deadline=None)
@given(
    GROUPS, GROUPS, GROUPS, GROUPS, GROUPS,
    st.integers(60, 220), st.integers(1, 70), st.integers(0, 200), st.booleans(),
)  # fmt: skip
def test_lines_drawn_one_by_one_are_those_of_a_whole_drawing(
    losses: Any, policy: Any, diagnostics: Any, terms: Any, others: Any,
    columns: int, rows: int, top: int, is_searched: bool,
):  # fmt: skip
    picture = Picture(
        losses=metrics_of(losses, "Loss"), policy=metrics_of(policy, "Policy"),
        diagnostics=metrics_of(diagnostics, "Train"), others=metrics_of(others, "my"),
        rewards=Rewards(Reading(1.0), terms=metrics_of(terms, "reward")),
    )  # fmt: skip

    def made() -> Any:
        return layout(picture, columns, rows, most_others=500, is_searched=is_searched)

    with pytest.MonkeyPatch.context() as patched:
        # Only what is measured may have narrower columns.
        patched.setattr(rewards, "TERM_CELLS", metric_grid.VALUE_CELLS)
        whole = made().lines
        patched.setattr(metric_grid, "MOST_MEASURED", -1)
        lazy = made().lines
    assert isinstance(whole, list)
    assert len(lazy) == len(whole)
    place = min(top, max(len(whole) - rows, 0))
    seen = [plain(lazy[at]) for at in range(place, min(place + rows, len(lazy)))]
    assert seen == [plain(parts) for parts in whole[place : place + rows]]
    assert list(lazy) == whole


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(), min_size=1, max_size=30), st.lists(st.sampled_from([None, 0.0, 61.0])),
    st.sampled_from(["", "ms"]), st.integers(1, 90),
)  # fmt: skip
def test_a_number_is_whole_wherever_it_has_the_cells(
    numbers: list[float], ages: list[float | None], unit: str, width: int
):
    ages += [None] * len(numbers)
    shown = [
        Metric("a long label", f"t/{n}", Reading(number, age), unit)
        for n, (number, age) in enumerate(zip(numbers, ages, strict=False))
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metric_grid, "MOST_MEASURED", -1)
        lines = list(metric_grid.metric_grid(shown, width))
    assert all(line_width(parts) <= width for parts in lines)
    text = "\n".join(map(plain, lines))
    for metric in shown:
        words = metric_cell(metric).text
        if len(words) < min(width, 22):
            assert words in text


def numbered(count: int) -> tuple[LinesOnDemand, list[Line]]:
    eager: list[Line] = [(Segment(f"line {place}"),) for place in range(count)]
    return LinesOnDemand(count, lambda place: (Segment(f"line {place}"),)), eager


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=5),
    st.integers(-12, 12), st.slices(12), st.integers(1, 9),
)  # fmt: skip
def test_lines_on_demand_are_like_a_list(
    blocks: list[tuple[int, bool]], place: int, cut: slice, width: int
):
    parts = [(lazy if is_lazy else eager, eager) for (lazy, eager), is_lazy in
             ((numbered(count), is_lazy) for count, is_lazy in blocks)]  # fmt: skip
    whole = [one for _, eager in parts for one in eager]
    lines = joined(*(mixed for mixed, _ in parts))
    assert lines == whole
    assert whole == lines
    assert len(lines) == len(whole)
    assert list(lines[cut]) == whole[cut]
    if -len(whole) <= place < len(whole):
        assert lines[place] == whole[place]
    else:
        with pytest.raises(IndexError):
            lines[place]
    assert each(lines, lambda one: clip(one, 3)) == [clip(one, 3) for one in whole]
    widths = [width] * len(parts)
    assert beside([mixed for mixed, _ in parts], widths, 2) == eagerly_beside(
        [eager for _, eager in parts], widths, 2
    )


def test_readings_are_a_mapping_of_means_and_what_is_told_otherwise():
    means = {"a": 1.0, "b": 2.0}
    old, told = Reading(3.0, 9.0), Reading(4.0)
    made = Readings(means, {"c": old, "b": told})
    assert made == {"a": Reading(1.0), "b": told, "c": old}
    assert dict(made.items()) == dict(made)
    assert len(made) == 3
    assert "c" in made
    assert "d" not in made
    assert made.are_fresh(frozenset("ab"))
    assert not made.are_fresh(frozenset("abc"))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("ab/ 1", min_size=1), unique=True, max_size=20), st.text("ab!/ 1"))
def test_a_group_that_is_filtered_has_what_passes(tags: list[str], wanted: str):
    labels = Labels(Label(tag, tag.upper()) for tag in tags)
    group = of_readings(labels, Readings({tag: float(n) for n, tag in enumerate(tags)}, {}))
    passes = parse_filter(wanted).passes
    names = {tag: tag if tag == tag.upper() else f"{tag} {tag.upper()}" for tag in tags}
    kept = tuple(one for one in group if passes(names[one.tag]))
    assert group.passing(wanted) == kept
    assert group_of(tuple(group)).passing(wanted) == kept
    assert group.first(2) == tuple(group)[:2]


def test_a_pattern_that_is_a_little_slow_for_each_of_many_names_is_left_out():
    names = tuple(f"{'a' * 20}!{number}" for number in range(MANY))
    # Each is answered long before its own limit; all of them would take a minute and more.
    text = "/(a|aa)+$/"
    parse_filter.cache_clear()
    began_s = time.thread_time()
    assert parse_filter(text).select(names) == names
    assert parse_filter(text).problem == "the pattern takes too long"
    assert time.thread_time() - began_s < 2.0


def test_a_pattern_may_be_asked_for_ever_as_long_as_it_is_quick():
    quick = pattern.Pattern("metric_1.*3$")
    for _ in range(30):
        assert sum(quick.found_in([f"metric_{n}" for n in range(1000)])) == 11
    assert not quick.is_too_slow


def test_the_order_of_the_tags_does_not_turn_with_the_updates_of_the_window():
    orders: list[list[str]] = []
    for first in (0, 1):
        window = Window()
        for number in range(first, first + 7):
            # Every other update has one more, which the run has met before the last one.
            tags = ("b", "x", "a") if number % 2 else ("b", "a")
            window.add(1, number, number, tags, np.ones(len(tags)))
        orders.append(list(window.means()))
    assert orders == [["b", "x", "a"], ["b", "x", "a"]]


def test_updates_of_several_key_sets_turn_by_turn_are_means_of_each_tag():
    sets = [{"a": 1.0, "b": 2.0, "r": 5.0}, {"b": 4.0}, {"c": 7.0, "b": 6.0}]
    series = Series()
    records = [update(n + 1, sets[n % 3], sealed_s=1 + n / 10) for n in range(12)]
    # The same tuple each time, as a subscriber gives them.
    records = [record._replace(tags=records[n % 3].tags) for n, record in enumerate(records)]
    series.add(Batch(tuple(records), head(3.0), connected=True))
    shown = series.picture().readings
    assert {tag: shown[tag].value for tag in shown} == {"a": 1.0, "b": 4.0, "c": 7.0, "r": 5.0}
    later = update(13, {"b": 1.0}, sealed_s=9.0)
    series.add(Batch((later,), head(10.0), connected=True))
    shown = series.picture().readings
    assert shown["b"] == Reading(1.0)
    assert shown["c"] == Reading(7.0, pytest.approx(7.9))  # type: ignore[arg-type]
    assert set(shown) == {"a", "b", "c", "r"}


def test_a_sheet_looks_only_at_the_lines_that_are_seen():
    looked: list[int] = []

    def lines(word: str) -> LinesOnDemand:
        def draw(place: int) -> Line:
            looked.append(place)
            return (Segment(f"{word} {place}"),)

        return LinesOnDemand(MANY, draw)

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        sheet = app._sheet
        sheet.show(lines("old"))
        await pilot.pause()
        sheet.scroll_to(y=5000, animate=False)
        await pilot.pause()
        assert "old 5000" in screen_text(app)
        looked.clear()
        assert sheet.show(lines("new")) == sheet.size.height
        await pilot.pause()
        assert "new 5000" in screen_text(app)
        assert set(looked) == set(range(5000, 5000 + sheet.size.height))

    drive(whole_run(5)[1], look)
