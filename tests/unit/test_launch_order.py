"""Spools of several dead attempts are taken in attempt by attempt."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

from unilab_metrics.aggregate.leaving.launch_order import in_launch_order
from unilab_metrics.aggregate.leaving.leftovers import Orphan
from unilab_schema.identity import Identity, SourceKey


def orphan(name: str, started: int, *, boot: str = "boot", unix: int | None = None) -> Orphan:
    """``name``: role and rank, then anything that tells it from others."""
    role = {"l": "learner", "c": "collector"}[name[0]]
    key = SourceKey(int(name[1]), role)
    wall = started if unix is None else unix
    identity = Identity(key, name.encode().ljust(16), 1, "h", boot, f"/s/{name}", "", started, wall)
    return Orphan(Path(f"/s/{name}"), identity)


def order(*orphans: Orphan) -> list[str]:
    """The order, which must not depend on that of the directory."""
    found = {tuple(o.directory.name for o in in_launch_order(p)) for p in permutations(orphans)}
    assert len(found) == 1
    return list(found.pop())


def test_one_attempt_comes_by_role_and_rank() -> None:
    assert order(orphan("l1", 5), orphan("c0", 3), orphan("l0", 2), orphan("l2", 4)) == [
        "l0",
        "l1",
        "l2",
        "c0",
    ]


def test_attempts_come_one_after_the_other() -> None:
    found = order(
        orphan("l0a", 10),
        orphan("c0a", 11),
        orphan("l1a", 12),
        orphan("l0b", 20),
        orphan("l1b", 22),
        orphan("l0c", 30),
    )
    assert found == ["l0a", "l1a", "c0a", "l0b", "l1b", "l0c"]


def test_no_wall_clock_orders_what_one_boot_has_started() -> None:
    assert order(orphan("l0a", 10, unix=900), orphan("l0b", 20, unix=100)) == ["l0a", "l0b"]


def test_boots_of_a_node_follow_each_other() -> None:
    found = order(
        orphan("l0a", 500, boot="first", unix=1),
        orphan("l1a", 510, boot="first", unix=2),
        orphan("l0b", 30, boot="second", unix=50),
        orphan("l1b", 40, boot="second", unix=51),
    )
    assert found == ["l0a", "l1a", "l0b", "l1b"]


def test_a_node_without_rank_0_has_an_order_too() -> None:
    assert order(orphan("c1", 1), orphan("l1a", 3), orphan("l1b", 5)) == ["l1a", "l1b", "c1"]
