"""The alert of a reward that has collapsed, as part of the fold: of which tag, and when. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.alert_books import AlertBooks
from unilab_metrics.aggregate.folding.alert_tracking import GONE_NS, GONE_UPDATES
from unilab_metrics.aggregate.folding.alert_values import value_of
from unilab_metrics.aggregate.folding.alert_words import collapse_words, gone_words
from unilab_metrics.aggregate.folding.reduction import Reduced
from unilab_schema.known_names import MEAN_REWARD
from unilab_schema.reward_collapse import CollapseState, take_reward

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.state import Publication

COLLAPSE = "reward_collapse"


class RewardAlerting(AlertBooks):
    """Of one state. The rule itself is in ``unilab_schema.reward_collapse``."""

    def take_reward(self, reduced: Reduced, mono_ns: int, unix_ns: int) -> list[Publication]:
        """What a sealed iteration changes."""
        tag = self._reward_tag()
        if tag != self._data.reward_tag:
            published = self._another_reward(tag, mono_ns, unix_ns)
            return published + self.take_reward(reduced, mono_ns, unix_ns)
        reward = value_of(reduced, self._state.columns.known(tag))
        data, number = self._data, self._state.data.iterations_sealed
        if reward is None:
            seen_ns, seen = data.reward_seen
            data.reward_seen = (min(seen_ns, mono_ns), seen)
            is_gone = mono_ns - seen_ns >= GONE_NS and number - seen >= GONE_UPDATES
            if data.collapse_alert not in data.open or not is_gone:
                return []
            alert, data.collapse_alert, data.collapse = data.collapse_alert, 0, CollapseState()
            return [self._end(alert, gone_words(data.open[alert]), mono_ns, unix_ns)]
        data.reward_seen = (mono_ns, number)
        changed = take_reward(data.collapse, reward, mono_ns)
        if changed is None:
            return []
        text, facts = collapse_words(changed, tag)
        if changed.began:
            begun = self._begin(COLLAPSE, tag, text, mono_ns, unix_ns, facts)
            data.collapse_alert = begun.sequence
            return [begun]
        alert, data.collapse_alert = data.collapse_alert, 0
        return [self._end(alert, text, mono_ns, unix_ns)] if alert in data.open else []

    def _reward_tag(self) -> str:
        """The run's own name for it, else the first of those that the journal names and that has
        come."""
        own, known = self._state.data.run.reward_tag, self._state.columns.known
        if own:
            return own
        names = (*self._data.rewards, MEAN_REWARD)
        return next((tag for tag in names if known(tag) is not None), self._data.reward_tag)

    def _another_reward(self, tag: str, mono_ns: int, unix_ns: int) -> list[Publication]:
        """Two tags are two courses: what was known of one says nothing of the other."""
        data = self._data
        alert, data.collapse_alert = data.collapse_alert, 0
        data.collapse, data.reward_tag = CollapseState(), tag
        text = f"the reward is {tag} from here on"
        return [self._end(alert, text, mono_ns, unix_ns)] if alert in data.open else []
