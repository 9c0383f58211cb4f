"""The highest reward of a run of which only a part was read. Pure.

A moment is made of the entries of a few seconds, and what lines of text say of the end of a long run,
of its last ones. The peak is that of all before it, too, which the history in brief tells.
"""

from __future__ import annotations

from dataclasses import replace

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_sidecar.feeding.past_pieces import PastPeak, PeakQuestion
from unilab_sidecar.picture import Picture, Rewards
from unilab_sidecar.values.headline_figures import highest


class EndPeak:
    """Of one picture after the other. One owner, no locks."""

    def __init__(self) -> None:
        self._asked: PeakQuestion | None = None
        self._wanted: PeakQuestion | None = None
        self._own: float | None = None
        self._earlier: float | None = None
        self._is_known = self._is_refused = False

    def heed(self, picture: Picture, first: int, *, is_whole: bool = True) -> None:
        """Takes a picture of the entries from the update sequence ``first`` on. ``is_whole``: its peak
        is to be that of all before it, too."""
        tag, self._own = picture.rewards.tag, picture.rewards.peak
        is_wanted = is_whole and bool(tag) and self._own is not None and first > 1
        wanted = PeakQuestion(tag, first - 1) if is_wanted else None
        if wanted != self._wanted:
            self._wanted, self._asked, self._earlier = wanted, None, None
            self._is_known = self._is_refused = False

    @property
    def is_awaited(self) -> bool:
        """Whether it is not known yet and may still come."""
        return self._wanted is not None and not self._is_known and not self._is_refused

    def question(self) -> PeakQuestion | None:
        """What is to be asked of the feed now, once."""
        if self._wanted is None or self._asked is not None:
            return None
        self._asked = self._wanted
        return self._asked

    def answer(self, question: PeakQuestion, reply: PastPeak | NoAnswer) -> None:
        """A part of what was asked for is there."""
        if question is not self._asked:
            return
        self._is_refused = isinstance(reply, NoAnswer)
        if isinstance(reply, PastPeak):
            self._earlier = highest(self._earlier, reply.value)
            self._is_known = reply.complete

    def of(self, rewards: Rewards) -> Rewards:
        """With the peak, as soon as it is known."""
        return (
            replace(rewards, peak=highest(self._own, self._earlier)) if self._is_known else rewards
        )
