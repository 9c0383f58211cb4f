"""One loss of contact has one name, until somebody is heard again. Pure.

A connection that was lost stands again before the aggregator speaks over it: until then it is not the
aggregator that is silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unilab_sidecar.feeding.left_alone import HEARD_WITHIN_S
from unilab_sidecar.progress.standing import SILENT_AFTER_S

if TYPE_CHECKING:
    from unilab_metrics.subscribe.ssh.outage import Outage
    from unilab_sidecar.feeding.batch import Batch


class OneLoss:
    """Follows the batches. One owner, no locks."""

    def __init__(self) -> None:
        self._outage: Outage | None = None
        self._until_age_s = 0.0

    def heed(self, batch: Batch) -> Outage | None:
        """What keeps from hearing the run's machine, also while it is there again and says nothing
        yet: at most for :data:`HEARD_WITHIN_S`."""
        age_s = batch.head_age_s
        if batch.outage is not None:
            self._outage, self._until_age_s = batch.outage, age_s + HEARD_WITHIN_S
        elif age_s <= SILENT_AFTER_S or age_s > self._until_age_s:
            self._outage = None
        elif self._outage is not None:
            self._outage = self._outage._replace(next_s=None)
        return self._outage
