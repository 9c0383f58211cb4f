"""The letters of several curves in one chart stand where these end."""

from __future__ import annotations

import numpy as np
import pytest

from unilab_sidecar.charting.canvas import Canvas
from unilab_sidecar.charting.ends import Lettered, with_ends
from unilab_sidecar.drawing.text import Segment, plain

NAN = float("nan")


def course(
    end: int, height: float, count: int = 40
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of as many columns of dots, as far as ``end``."""
    made = np.full(count, height)
    made[end:] = NAN
    return made


def lettered(name: str, end: int, height: float) -> Lettered:
    return Lettered(Segment(name, "series1"), course(end, height))


def drawn(*curves: Lettered, body: str = " " * 20) -> tuple[list[str], dict[int, str]]:
    canvas = Canvas(20, 4)
    shown, ends = with_ends([(Segment(body, "dim"),)] * 4, curves, canvas)
    for parts in shown:
        assert len(plain(parts)) == 20
    return [plain(parts) for parts in shown], {row: mark.text for row, mark in ends.items()}


def test_a_short_course_has_its_letter_behind_its_last_point() -> None:
    shown, ends = drawn(lettered("a", 20, 1.0), lettered("b", 10, 0.0))
    assert shown[0] == "a".rjust(12) + " " * 8
    assert shown[3] == "b".rjust(7) + " " * 13
    assert ends == {}


def test_a_course_to_the_edge_has_it_behind_the_edge() -> None:
    assert drawn(lettered("a", 40, 1.0), lettered("b", 40, 1.0)) == (
        [" " * 20] * 4,
        {0: "a", 1: "b"},
    )


def test_two_that_end_together_stand_below_each_other() -> None:
    shown, _ends = drawn(lettered("a", 20, 1.0), lettered("b", 20, 1.0))
    assert [one.strip() for one in shown] == ["a", "b", "", ""]


def test_nothing_that_is_drawn_is_written_over() -> None:
    assert drawn(lettered("a", 20, 1.0), body="x" * 20) == (["x" * 20] * 4, {0: "a"})


@pytest.mark.parametrize("values", [[], [NAN, NAN]])
def test_where_there_is_no_course_there_is_no_letter(values: list[float]) -> None:
    canvas = Canvas(20, 4)
    body = [(Segment(" " * 20, "dim"),)] * 4
    assert with_ends(body, [Lettered(Segment("a"), np.array(values))], canvas) == (body, {})
