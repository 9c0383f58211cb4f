"""Which attempt a process belongs to when the wal that knew it is lost. Pure.

The history tells when rank 0 of its last attempt was started, and ``RunData.told`` which processes
were known when the last sync had succeeded.
"""

from __future__ import annotations

from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_schema.identity import LEARNER, Identity


def is_stranger(state: AggregatorState, identity: Identity) -> bool:
    """Whether a wal was lost that would have told of the process, as others are known by."""
    data = state.data
    is_after_loss = data.absorbed_attempt == data.attempt
    return is_after_loss and bool(data.told) and identity.incarnation.hex() not in data.told


def is_another_start(state: AggregatorState, identity: Identity) -> bool:
    """Whether a rank 0 is not the one of an attempt of which only the history tells."""
    data = state.data
    if identity.key.role != LEARNER or identity.key.rank != 0:
        return False
    is_after_loss = data.absorbed_attempt == data.attempt and data.opened
    is_known = identity.incarnation.hex() in data.told
    return is_after_loss and not is_known and identity.started_unix_ns != data.opened_unix_ns
