"""In which order the spools of dead processes are taken in: attempt by attempt. Pure.

Several attempts of one launch may have died without ever meeting an aggregator. A new
incarnation of learner rank 0 opens an attempt, so each other process belongs between the two
of rank 0 around its start. Stamps of one boot are compared by its monotonic clock, which no
wall clock can reorder; the boots of a node follow each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from unilab_metrics.aggregate.leaving.leftovers import Orphan
from unilab_schema.identity import LEARNER, Identity

_Place = tuple[int, int, bool, int, int]


def is_rank_zero(identity: Identity) -> bool:
    """Whether a new incarnation of it opens an attempt."""
    return identity.key.role == LEARNER and identity.key.rank == 0


def in_launch_order(orphans: Sequence[Orphan]) -> list[Orphan]:
    """Each attempt's rank 0 first, then the other learners by rank, then the rest.

    A process that was started shortly before its rank 0 comes with the attempt before; who
    admits them tells it from that one's by its stamps, and tries it again after each rank 0.
    """
    identities = [orphan.identity for orphan in orphans]
    boots: dict[str, int] = {}
    for identity in sorted(identities, key=lambda one: one.started_unix_ns):
        boots.setdefault(identity.boot_id, len(boots))
    zeros: dict[str, list[int]] = {boot: [] for boot in boots}
    for identity in identities:
        if is_rank_zero(identity):
            zeros[identity.boot_id].append(identity.started_mono_ns)
    for starts in zeros.values():
        starts.sort()

    def place(orphan: Orphan) -> _Place:
        identity = orphan.identity
        started = identity.started_mono_ns
        attempt = bisect_right(zeros[identity.boot_id], started)
        return (
            boots[identity.boot_id],
            attempt,
            identity.key.role != LEARNER,
            identity.key.rank,
            started,
        )

    return sorted(orphans, key=place)
