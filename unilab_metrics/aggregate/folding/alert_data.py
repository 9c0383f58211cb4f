"""What is remembered of alerts, as much of it as a snapshot holds. Pure."""

from __future__ import annotations

import msgspec

from unilab_schema.known_names import MEAN_REWARD
from unilab_schema.reward_collapse import CollapseState

FINITE_TIMES = 10
"""So many finite values in a row end an alert that a tag was not finite."""


class OpenAlert(msgspec.Struct, frozen=True, array_like=True):
    """One that has not ended. ``rule``: its kind. ``name``: the text of a user's rule, empty for
    the others. ``subject``: the first tag, the source or the backend that it is about. ``tags``:
    how many it had when it opened."""

    rule: str
    name: str
    subject: str
    text: str
    severity: str
    iteration: int | None
    unix_ns: int
    tags: int = 1


class AlertData(msgspec.Struct, array_like=True):
    """``is_active``: whether the journal says that alerts are computed; journals of older versions
    do not, and fold as they did. ``open``: by the update sequence of the event that opened it.
    ``groups``: how many tags of an alert hold it open. ``tracked``: per rule the tags that count
    for something, filled in for a snapshot. ``lately_ns``: per rule when its last alerts opened.
    ``reward_seen``: time and number of the update that last had a mean reward. ``rewards``: the tags
    that may be it, ``reward_tag`` the one that ``collapse`` is about."""

    is_active: bool = False
    rules: list[str] = []
    open: dict[int, OpenAlert] = {}
    raised: int = 0
    groups: dict[int, int] = {}
    tracked: dict[str, list[tuple[int, ...]]] = {}
    lately_ns: dict[str, list[int]] = {}
    collapse: CollapseState = msgspec.field(default_factory=CollapseState)
    collapse_alert: int = 0
    reward_seen: tuple[int, int] = (0, 0)
    rewards: list[str] = []
    reward_tag: str = MEAN_REWARD
