"""Episode statistics of a vector of environments: return, length and timeouts. Pure.

Owned by the thread that steps the environments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW_EPISODES = 100

MEAN_REWARD = "Train/mean_reward"
MEAN_LENGTH = "Train/mean_episode_length"
TIMEOUT_RATE = "Episode/timeout_rate"


class EpisodeStatistics:
    """Means over the last 100 finished episodes of all environments of this process.

    Everything is absent before the first finished episode. The timeout rate is timeouts over
    finished episodes since the last report that had one, and stays until the next such report.
    """

    def __init__(
        self,
        window: int = WINDOW_EPISODES,
        *,
        refuse: Callable[[Exception], None] | None = None,
    ) -> None:
        """``refuse`` is told of a bad step instead of its being raised."""
        self._refuse = refuse
        self._returns: deque[float] = deque(maxlen=window)
        self._lengths: deque[int] = deque(maxlen=window)
        self._running_returns: NDArray[np.float64] | None = None
        self._running_lengths: NDArray[np.int64] | None = None
        self._finished = 0
        self._timeouts = 0
        self._timeout_rate: float | None = None
        self.known = False
        """Whether any episode has finished: before that there is nothing to report."""
        self.total_finished = 0
        """Episodes that ended since the process started."""

    def step(self, rewards: Any, dones: Any, timeouts: Any = None) -> None:
        """One vector step. ``rewards`` (any real dtype), ``dones`` and ``timeouts`` (truth
        values, a timeout is also done) have one element per environment.

        Raises ``ValueError`` if their sizes differ from each other or from earlier steps.
        """
        try:
            self._step(rewards, dones, timeouts)
        except Exception as error:
            if self._refuse is None:
                raise
            self._refuse(error)

    def _step(self, rewards: Any, dones: Any, timeouts: Any) -> None:
        reward = _vector(rewards).astype(np.float64, copy=False)
        done = _vector(dones) != 0
        timeout = None if timeouts is None else _vector(timeouts) != 0
        if self._running_returns is None or self._running_lengths is None:
            self._running_returns = np.zeros(reward.size)
            self._running_lengths = np.zeros(reward.size, np.int64)
        sizes = {reward.size, done.size, self._running_returns.size}
        if timeout is not None:
            sizes.add(timeout.size)
        if len(sizes) != 1:
            raise ValueError(f"episode step with vectors of {sorted(sizes)} environments")
        if timeout is not None:
            done = done | timeout
        self._running_returns += reward
        self._running_lengths += 1
        ended = np.flatnonzero(done)
        if ended.size:
            self._returns.extend(self._running_returns[ended].tolist())
            self._lengths.extend(self._running_lengths[ended].tolist())
            self._running_returns[ended] = 0.0
            self._running_lengths[ended] = 0
            self._finished += ended.size
            self.total_finished += int(ended.size)
            self.known = True
            if timeout is not None:
                self._timeouts += int(timeout[ended].sum())

    def finish(self, episode_return: float, length: int, *, timeout: bool = False) -> None:
        """An episode whose return and length the caller counted itself."""
        self._returns.append(float(episode_return))
        self._lengths.append(int(length))
        self._finished += 1
        self._timeouts += bool(timeout)
        self.total_finished += 1
        self.known = True

    def collect(self) -> dict[str, float]:
        """The three tags of a report, and a new start for the timeout rate."""
        if self._finished:
            self._timeout_rate = self._timeouts / self._finished
            self._finished = self._timeouts = 0
        if self._timeout_rate is None:
            return {}
        return {
            MEAN_REWARD: sum(self._returns) / len(self._returns),
            MEAN_LENGTH: sum(self._lengths) / len(self._lengths),
            TIMEOUT_RATE: self._timeout_rate,
        }


def _vector(values: Any) -> NDArray[Any]:
    if hasattr(values, "detach"):
        # NumPy has no bfloat16, and some devices no float64: first to the host, then widen.
        values = values.detach().cpu().double()
    array: NDArray[Any] = np.asarray(values)
    return array.ravel()
