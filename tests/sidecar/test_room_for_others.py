"""Metrics outside the table take the rows that a screen has to spare, and the rest is counted."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from series_records import SAC, head, update

from unilab_sidecar.drawing.layout import FRAME_ROWS
from unilab_sidecar.drawing.text import plain
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.panels.metrics import USUAL_OTHERS
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series
from unilab_sidecar.views.overview import layout

SIZES = [(70, 24), (80, 24), (80, 60), (100, 30), (120, 40), (160, 48), (300, 100)]


def picture(names: Iterable[str], *, reward: bool = False) -> Picture:
    series = Series("run")
    values = {name: place / 7 for place, name in enumerate(names)}
    for iteration in range(1, 4):
        of_one = values | ({"Train/mean_reward": 3.0 + iteration} if reward else {})
        series.add(Batch((update(iteration, of_one),), head(1.0, run=SAC), connected=True))
    return series.picture()


def lines(made: Picture, columns: int, rows: int) -> list[str]:
    return [plain(parts) for parts in layout(made, columns, rows).lines]


def listed(shown: list[str]) -> int:
    return sum(len(re.findall(r"my/\S*\d", one)) for one in shown)


def counted(shown: list[str]) -> int:
    (found,) = [re.findall(r"and ([\d,]+) more", one) for one in shown if "more; /" in one] or [[]]
    return int(found[0].replace(",", "")) if found else 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [25, 60, 12_345])
@pytest.mark.parametrize("reward", [True, False])
def test_all_are_listed_or_counted_and_the_screen_is_not_overfull(
    size: tuple[int, int], count: int, *, reward: bool
) -> None:
    made = picture((f"my/tag_{place}" for place in range(count)), reward=reward)
    shown = lines(made, *size)
    assert listed(shown) + counted(shown) == count
    assert listed(shown) >= min(USUAL_OTHERS, count)
    if len(lines(made, size[0], 0)) <= size[1] - FRAME_ROWS:
        assert len(shown) <= size[1] - FRAME_ROWS


def test_without_a_reward_the_screen_is_full_but_for_events_to_come() -> None:
    shown = lines(picture(f"my/tag_{place}" for place in range(12_345)), 120, 40)
    assert listed(shown) > 3 * USUAL_OTHERS
    assert len(shown) >= 40 - FRAME_ROWS - 6


def test_longer_names_among_them_do_not_push_anything_off() -> None:
    names = [
        *(f"my/a_{place:02}" for place in range(24)),
        *(f"my/{'long_' * 5}{n}" for n in range(99)),
    ]
    shown = lines(picture(names), 120, 40)
    assert len(shown) <= 40 - FRAME_ROWS
    assert listed(shown) + counted(shown) == len(names)
