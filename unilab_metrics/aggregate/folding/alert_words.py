"""What alerts say, and their facts. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unilab_metrics.aggregate.folding.alert_data import FINITE_TIMES
from unilab_metrics.wording import counted

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.alert_data import OpenAlert
    from unilab_schema.alert_rules import AlertRule
    from unilab_schema.frames import Scalar
    from unilab_schema.reward_collapse import Collapse

Said = tuple[str, "dict[str, Scalar]"]
_NAMED_RANKS = 8


def nonfinite_words(
    tag: str, value: float, tags: int, ranks: list[int], expected: int, iteration: int | None
) -> Said:
    """``tags``: how many are not finite in this update that were."""
    what = "NaN" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    where = f"{tag}{_and_more(tags)}"
    text = f"{what} in {where} at iteration {iteration}"
    facts: dict[str, Scalar] = {"value": what, "tags": tags}
    if ranks:
        text += _on(ranks, expected)
        facts |= {"rank": ranks[0], "ranks": len(ranks), "ranks_expected": expected}
    return text, facts


def _on(ranks: list[int], expected: int) -> str:
    """``, rank 1 of 4``; nothing where there is one rank only."""
    if len(ranks) >= expected:
        return f", all {len(ranks)} ranks" if len(ranks) > 1 else ""
    shown = ", ".join(map(str, ranks[:_NAMED_RANKS])) + ", …" * (len(ranks) > _NAMED_RANKS)
    return f", rank{'s' * (len(ranks) > 1)} {shown} of {expected}"


def rule_words(rule: AlertRule, tag: str, value: float, tags: int, iteration: int | None) -> Said:
    """Of a user's rule; ``tags``: for how many it has begun to hold in this update."""
    text = f"{tag} = {value:.6g}{_and_more(tags)} at iteration {iteration} ({rule.text})"
    facts: dict[str, Scalar] = {"severity": "warn", "name": rule.text, "tags": tags}
    facts["value"] = value if math.isfinite(value) else str(value)
    return text, facts


def collapse_words(changed: Collapse, tag: str) -> Said:
    """Of the mean reward."""
    if not changed.began:
        return f"{tag} is back at {changed.level:.6g}", {}
    text = f"reward collapse: {tag} fell from {changed.peak:.6g} to {changed.level:.6g}"
    return text, {"severity": "warn", "peak": changed.peak, "level": changed.level}


def recovered_words(alert: OpenAlert, iteration: int | None) -> str:
    """Its tags are well again."""
    if not alert.name:
        # Not since when: that would count the iterations of the wait as well.
        return f"finite again {FINITE_TIMES} times in a row: {alert.subject}"
    lasted = ""
    if iteration is not None and alert.iteration is not None and iteration > alert.iteration:
        lasted = f" after {counted(iteration - alert.iteration, 'iteration')}"
    whose = "" if alert.name.startswith(f"{alert.subject} ") else f" ({alert.subject})"
    return f"over{lasted}: {alert.name}{whose}"


def gone_words(alert: OpenAlert) -> str:
    """Nobody logs its tags any more."""
    return f"no longer logged: {alert.subject}" + (f" ({alert.name})" if alert.name else "")


def _and_more(tags: int) -> str:
    return f" and {counted(tags - 1, 'more tag')}" if tags > 1 else ""
