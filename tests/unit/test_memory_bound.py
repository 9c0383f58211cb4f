"""When a process that grows is noticed, and how often."""

from __future__ import annotations

from unilab_metrics.transport.memory_bound import MemoryBound, resident_bytes


def test_each_step_is_noticed_once_and_counted_from_what_is_left() -> None:
    sizes = iter([100, 150, 201, 190, 240, 291, 50, 140, 151])
    bound = MemoryBound(100, measure=lambda: next(sizes))
    noticed = [bound.is_exceeded(10.0 * turn) for turn in range(9)]
    assert noticed == [False, False, True, False, False, True, False, False, True]


def test_between_two_looks_nothing_is_measured() -> None:
    looks: list[int] = []
    bound = MemoryBound(100, measure=lambda: looks.append(1) or 1)
    for turn in range(100):
        bound.is_exceeded(turn / 100)
    assert 4 <= len(looks) <= 6


def test_the_system_tells_our_own_memory() -> None:
    assert resident_bytes() > 1_000_000
