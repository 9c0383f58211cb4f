"""The overview's panels: which there are, how one is marked, and what a filter leaves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unilab_sidecar.drawing.text import Line, Segment
from unilab_sidecar.groups.metric_group import group_of
from unilab_sidecar.picture import Metric, Picture

_HEADINGS = {
    "Losses and policy": "metrics",
    "Training": "metrics",
    "Rewards": "rewards",
    "Timing": "timing",
    "Learner": "timing",
    "Learner (Iter Wall)": "timing",
    "Collector": "timing",
    "Collector (own clock)": "timing",
    "System": "timing",
    "Other metrics": "others",
    "Sources": "sources",
    "Writers": "writers",
    "Events": "events",
}


def panels(picture: Picture) -> tuple[str, ...]:
    """The panels that have something to show, in their order."""
    there = {
        "metrics": bool(picture.losses or picture.policy or picture.diagnostics or picture.ingress),
        "rewards": picture.rewards.mean is not None or bool(picture.rewards.terms),
        "timing": picture.learner is not None
        or bool(picture.collector is not None and picture.collector.rows),
        "others": bool(picture.others),
        "sources": bool(picture.sources),
        "writers": bool(picture.backends) or picture.journal.update > 0,
        "events": bool(picture.notes),
    }
    return tuple(name for name, is_there in there.items() if is_there)


def marked(parts: Line, panel: str) -> Line:
    """A line in which the headings of ``panel`` say that it is meant."""
    if not panel or not any(part.style == "heading" for part in parts):
        return parts
    made = list(parts)
    for place, part in enumerate(parts):
        if part.style != "heading" or _HEADINGS.get(part.text.strip(" ")) != panel:
            continue
        made[place] = Segment(part.text, "focus")
        rule = parts[place + 1] if place + 1 < len(parts) else Segment("")
        if rule.text.startswith(" ──"):
            # The rule gives the mark its cells.
            made[place] = Segment(f"▸ {part.text}", "focus")
            made[place + 1] = Segment(" " + rule.text[3:], rule.style)
    return tuple(made)


def filtered(picture: Picture, text: str) -> Picture:
    """The picture with only those metrics whose tag or label passes."""
    if not text.strip():
        return picture

    def kept(metrics: Sequence[Metric]) -> Sequence[Metric]:
        return group_of(metrics).passing(text)

    return replace(
        picture,
        losses=kept(picture.losses),
        policy=kept(picture.policy),
        diagnostics=kept(picture.diagnostics),
        ingress=kept(picture.ingress),
        others=kept(picture.others),
        rewards=replace(picture.rewards, terms=kept(picture.rewards.terms)),
    )


def counted(picture: Picture) -> int:
    """How many metrics a filter may hide."""
    groups = (picture.losses, picture.policy, picture.diagnostics, picture.ingress)
    return sum(map(len, (*groups, picture.others, picture.rewards.terms)))
