"""How a run went, behind the word that it has ended: its rewards, and what is still wrong. Pure."""

from __future__ import annotations

from unilab_metrics.wording import counted
from unilab_sidecar.drawing import formatting
from unilab_sidecar.drawing.text import clean
from unilab_sidecar.picture import Picture


def end_figures(picture: Picture) -> list[str]:
    """``last reported reward 412.06 (best 420.50)``, ``2 alerts open: NaN in Loss/a at iteration 3``; of the open
    ones the newest of the worst. Nothing of a run without any."""
    found: list[str] = []
    rewards = picture.rewards
    last = rewards.last
    if last is None and rewards.mean is not None:
        last = rewards.mean.value
    if last is not None:
        best = "" if rewards.peak is None else f" (best {formatting.fixed(rewards.peak, 2)})"
        found.append(f"last reported reward {formatting.fixed(last, 2)}{best}")
    newest, count = picture.own_alerts
    newest = tuple(one for one in newest if one.text != picture.ended_text)
    if count and newest:
        worst = [one for one in newest if one.severity != "warn"] or list(newest)
        found.append(f"{counted(count, 'alert')} open: {clean(worst[-1].text)}")
    return found
