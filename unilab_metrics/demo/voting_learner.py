"""What every learner of the demo has: an optimiser, a vote to stop, and what slows it down."""

from __future__ import annotations

from unilab_metrics.demo.adam import Adam
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.slow import SlowOptions


class VotingLearner:
    """An optimiser's learning rate, and this rank's vote to stop. Owned by the learner's main
    thread, which sends the vote with its gradients over ``sync``."""

    def __init__(self, optimizer: Adam, sync: GradientSync, slow: SlowOptions) -> None:
        """``slow``: whether acting or updating takes longer than it could."""
        self._optimizer = optimizer
        self._sync = sync
        self._act_wait_s = slow.wait_s("inference")
        self._update_wait_s = slow.wait_s("learner")
        self._vote = 0.0
        self.stop_voted = False

    @property
    def learning_rate(self) -> float:
        """What the optimiser uses now."""
        return self._optimizer.learning_rate

    def vote_to_stop(self) -> None:
        """Makes ``stop_voted`` true on all ranks after the next update."""
        self._vote = 1.0
