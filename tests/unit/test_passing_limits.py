"""When exactly a viewer that is behind passes over, and where it goes on."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from unilab_metrics.subscribe.passing_over import PassingOver
from unilab_metrics.subscribe.position import Position
from unilab_schema.control import Epoch, Head
from unilab_schema.identity import RunInfo
from unilab_schema.updates import Update

EPOCH = Epoch(b"j" * 16, 1)
NOW_S = 1000.0


class Course(NamedTuple):
    """What a viewer shows is ``lags_s`` old at two looks, ``took_s`` apart."""

    lags_s: tuple[float, float] = (50.0, 50.0)
    took_s: float = 3.0
    cursors: tuple[int, int] = (820, 1000)
    made: int = 6000
    attempts: tuple[int, int] = (1, 1)
    pass_until: int = 0
    late_s: float = 0.0

    def passed_until(self) -> int | None:
        """Up to where it passes over then."""
        position, passing = Position(self.cursors[0], None), PassingOver()
        found = False
        for at, lag_s, cursor, attempt in zip(
            (NOW_S, NOW_S + self.took_s), self.lags_s, self.cursors, self.attempts, strict=True
        ):
            mono_ns = round(at * 1e9)
            sealed_ns = mono_ns - round(lag_s * 1e9)
            head = Head(EPOCH, self.made, 0, 1, RunInfo(), "/r", (), (), mono_ns, 0)
            position.heed(head)
            position.cursor = cursor
            newest = Update(attempt, cursor, None, 0, sealed_ns, 0.0, 1, 1, 0, b"")
            found = passing.look(position, newest, at, self.late_s)
            position.pass_until = position.pass_until or self.pass_until
        return position.pass_until if found else None


def test_it_goes_on_two_and_a_half_seconds_of_its_own_pace_before_the_end() -> None:
    # A hundred entries a second are made, and sixty are read.
    assert Course().passed_until() == 6000 - 150
    # Of a run that makes fewer than are read, by what it makes.
    assert Course(cursors=(0, 1000)).passed_until() == 6000 - 250
    # The newest two at least.
    assert Course(cursors=(999, 1000)).passed_until() == 6000 - 2


@pytest.mark.parametrize(
    ("course", "passes"),
    [
        (Course(lags_s=(9.9, 9.9)), False),
        (Course(lags_s=(10.0, 10.0)), True),
        (Course(lags_s=(5.0, 5.0), late_s=4.9), False),
        (Course(lags_s=(5.0, 5.0), late_s=5.0), True),
        # Long enough to see how fast it catches up.
        (Course(took_s=2.9), False),
        # It will be there within ten seconds, or will not.
        (Course(lags_s=(100.0, 76.9)), False),
        (Course(lags_s=(100.0, 77.0)), True),
        # So little lies between that it is as well read.
        (Course(cursors=(5988, 5990), made=6000), True),
        (Course(cursors=(5989, 5991), made=6000), False),
        # It shows an earlier attempt, which it has to leave by itself.
        (Course(attempts=(2, 2)), False),
        (Course(pass_until=1001), False),
        (Course(cursors=(6000, 6000)), False),
    ],
)
def test_a_viewer_passes_over_what_it_is_too_late_for(course: Course, passes: bool) -> None:
    assert (course.passed_until() is not None) is passes
