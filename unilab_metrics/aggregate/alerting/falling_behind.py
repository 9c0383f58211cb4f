"""Which ranks are so far behind that iterations are sealed without them. Pure.

A rank that is slower than the others for good is waited for as long as a straggler is. From then
on its values come when their iterations have their updates, which never change: they are in the
journal, and in no backend. One late value is none: a second call for an iteration, say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from unilab_metrics.aggregate.alerting.change import Change
from unilab_metrics.wording import counted

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.sources import SourceState

RULE = "late"
LEAST_LOOKS = 2
"""How often in a row values must have come late, while the rank was behind."""


class FallingBehind:
    """Owned by the aggregator's main thread."""

    def __init__(self) -> None:
        self._late: dict[int, int] = {}
        self._looks: dict[int, int] = {}

    def look(
        self, sources: Iterable[SourceState], sealed: int | None, opened: frozenset[str]
    ) -> list[Change]:
        """What has changed. ``sources``: learners that are at work. ``sealed``: the last iteration
        that has its update. ``opened``: subjects whose alert is open."""
        changes: list[Change] = []
        alive: set[str] = set()
        for source in sources:
            alive.add(source.name)
            known = self._late.get(source.index, source.late_values)
            self._late[source.index] = source.late_values
            behind = (sealed or 0) - (source.last_iteration or 0)
            if behind <= 0:
                self._looks[source.index] = 0
                if source.name in opened:
                    text = f"{source.identity.key.place} keeps up again"
                    changes.append(Change(RULE, source.name, text, began=False))
            elif source.late_values > known:
                self._looks[source.index] = self._looks.get(source.index, 0) + 1
                is_long = self._looks[source.index] >= LEAST_LOOKS
                if is_long and source.name not in opened:
                    changes.append(_begun(source, behind))
        gone = sorted(opened - alive)
        return changes + [Change(RULE, s, f"{s} is not waited for any more", False) for s in gone]


def _begun(source: SourceState, behind: int) -> Change:
    far = counted(behind, "iteration")
    text = (
        f"{source.identity.key.place} is {far} behind: its values come late, and are in the "
        "journal only"
    )
    facts = {"severity": "warn", "rank": source.rank, "behind": behind}
    return Change(RULE, source.name, text, True, facts)
