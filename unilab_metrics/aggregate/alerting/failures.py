"""Which sources have failed while others go on. Pure.

One that said goodbye with a failure is finished, and nothing is missing of it; but a training that
goes on without it is not what its user wants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from unilab_metrics.aggregate.alerting.change import Change
from unilab_metrics.outcome import FAILURES

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.sources import SourceState

RULE = "failed"


def look(sources: Iterable[SourceState], attempt: int, opened: frozenset[str]) -> list[Change]:
    """What has changed. ``sources``: all of the run; the newest of each place counts. ``opened``:
    subjects whose alert is open. Of a run on which nobody is at work its end says it."""
    newest = {
        (s.identity.key.rank, s.identity.key.role, s.identity.key.instance): s
        for s in sources
        if s.attempt == attempt and not s.is_double
    }
    failed = {s.name: s for s in newest.values() if s.ended in FAILURES}
    changes = [
        Change(RULE, subject, f"{subject} is not failed any more: another has its place", False)
        for subject in sorted(opened - failed.keys())
    ]
    if not any(s.status == "live" and s.ended is None for s in newest.values()):
        return changes
    return changes + [
        Change(RULE, name, _words(one), True, {"severity": "bad", "rank": one.rank})
        for name, one in failed.items()
        if name not in opened
    ]


def _words(source: SourceState) -> str:
    cause = f": {source.failure}" if source.failure else ""
    return f"{source.identity.key.place} failed{cause}"
