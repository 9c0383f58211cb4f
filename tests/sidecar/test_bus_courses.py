"""Rates, queues and delays of the bus over time, from the announcements."""

from __future__ import annotations

import re

import msgspec
import pytest
from sample_run import SampleRun

from unilab_schema.control import Epoch, Head, SourceFigures
from unilab_sidecar.drawing.layout import FRAME_ROWS
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.series import Series
from unilab_sidecar.values import bus_courses
from unilab_sidecar.values.bus_courses import MOST_POINTS, BusCourse
from unilab_sidecar.views import bus


def announced(second: float, update: int, frames: int, backlog: int = 0) -> Head:
    head = SampleRun().head()
    sources = tuple(
        msgspec.structs.replace(
            source,
            cursor=frames,
            figures=SourceFigures(backlog, frames, frames * 40_000, 3.0 + place),
        )
        for place, source in enumerate(head.sources)
    )
    return msgspec.structs.replace(
        head,
        mono_ns=round(second * 1e9),
        update=update,
        durable=max(update - 3, 0),
        sources=sources,
        backends=(msgspec.structs.replace(head.backends[0], update=max(update - 7, 0)),),
    )


def test_rates_are_differences_and_queues_are_as_they_are():
    course = BusCourse()
    course.heed(announced(10, 100, 50))
    course.heed(announced(12, 140, 70, backlog=2))
    points = course.all().points
    assert points[bus_courses.UPDATES_PER_S] == (20.0,)
    assert points[bus_courses.FRAMES_PER_S] == (40.0,)
    assert points[bus_courses.BACKLOG] == (8.0,)
    assert points[bus_courses.ACK_MS] == (6.0,)
    assert points[bus_courses.LOG_US] == (40.0,)
    assert points[bus_courses.NOT_DURABLE] == (3.0,)
    assert points["behind/tensorboard"] == (7.0,)
    assert course.all().now("behind/tensorboard") == 7.0
    assert course.all().now("behind/wandb") is None


def test_one_announcement_a_second_counts():
    course = BusCourse()
    for tenth in range(101):
        course.heed(announced(tenth / 10, tenth, tenth))
    points = course.all().points[bus_courses.UPDATES_PER_S]
    assert points == pytest.approx([10.0] * 10)
    assert course.all() is course.all()


def test_a_week_takes_no_more_room_than_minutes():
    course = BusCourse()
    for second in range(MOST_POINTS * 5):
        course.heed(announced(second, 20 * second, second))
    found = course.all()
    assert len(found.points[bus_courses.UPDATES_PER_S]) < MOST_POINTS
    assert found.points[bus_courses.UPDATES_PER_S] == pytest.approx(
        [20.0] * len(found.points[bus_courses.UPDATES_PER_S])
    )
    assert found.covered_s(bus_courses.UPDATES_PER_S) == pytest.approx(MOST_POINTS * 5, rel=0.1)


def test_another_aggregator_is_not_compared_with_the_one_before():
    course = BusCourse()
    course.heed(announced(1000, 500, 500))
    course.heed(msgspec.structs.replace(announced(3, 500, 500), epoch=Epoch(b"b" * 16, 2)))
    assert course.all().points == {}
    course.heed(msgspec.structs.replace(announced(4, 510, 500), epoch=Epoch(b"b" * 16, 2)))
    assert course.all().points[bus_courses.UPDATES_PER_S] == (10.0,)


def test_sources_that_come_and_go_make_no_negative_rates():
    course = BusCourse()
    course.heed(announced(0, 100, 50))
    fewer = announced(1, 101, 10)
    course.heed(msgspec.structs.replace(fewer, sources=fewer.sources[:1]))
    assert course.all().points[bus_courses.FRAMES_PER_S] == (0.0,)
    assert bus_courses.LOG_US not in course.all().points
    assert min(map(min, course.all().points.values())) >= 0


def screen(run: SampleRun, columns: int, rows: int) -> str:
    series = Series()
    for _ in range(60):
        series.add(run.batch(run.update()))
    made = bus.view(series.picture(), None, ViewState(view="bus"), columns, rows)
    return "\n".join(plain(row) for row in made.lines)


@pytest.mark.parametrize("size", [(70, 24), (80, 24), (100, 30), (120, 40), (160, 48)])
def test_the_bus_view_shows_rates_and_queues(size: tuple[int, int]):
    text = screen(SampleRun(), *size)
    assert re.search(r"Updates +18\.52 /s", text)
    assert re.search(r"Frames taken +74\.07 /s", text)
    assert re.search(r"Frames that wait +\d+", text)
    assert re.search(r"Acknowledged after +\d+ ms", text)
    assert re.search(r"Inside log\(\) +\d+ µs", text)
    # A source's own figures where there is room for them.
    assert ("acked" in text) == (size[0] >= 120)
    # Charts take what the rest leaves, and no more.
    assert ("Updates per second ─" in text) == (size[1] >= 30)
    assert len(text.splitlines()) <= max(size[1] - FRAME_ROWS, 26)


def test_charts_begin_at_zero():
    lines = screen(SampleRun(), 120, 40).splitlines()
    rule = next(at for at, row in enumerate(lines) if "└" in row)
    assert lines[rule - 1].lstrip().startswith("0 ┤")


def test_no_size_is_too_small_or_too_large():
    run = SampleRun()
    for columns in (1, 2, 10, 40, 111, 300):
        for rows in (1, 3, 24, 100):
            assert screen(run, columns, rows)
