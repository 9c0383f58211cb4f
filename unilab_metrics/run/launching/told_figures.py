"""What a summary tells of rewards, of numbers that were none, and of alerts, in short lines. Pure.

Anybody may have put the summary there: what is not as we write it is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from unilab_metrics.wording import counted

_MOST = 1e15
"""Of a figure of a summary: beyond it is no number of a run."""
_NOT_FINITE = ("NaN in ", "infinity in ", "-infinity in ")
_MOST_CHARS = 160


def figure_in(summary: Mapping[str, Any], name: str) -> float | None:
    """A number of the summary; ``None`` for what is none, or cannot be one of a run."""
    value = summary.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < _MOST else None


def reward_text(summary: Mapping[str, Any]) -> str:
    """``412.1, best 420.5``: the last mean reward and the best one; empty without any."""
    last, best = figure_in(summary, "final_mean_reward"), figure_in(summary, "best_mean_reward")
    told = [] if last is None else [f"{last:.4g}"]
    if best is not None:
        told.append("the best one" if best == last else f"best {best:.4g}")
    return ", ".join(told)


def nonfinite_text(bus: Mapping[str, Any]) -> str:
    """``Loss/value first at iteration 42 (rank 1), and 2 more tags``: the tag that was the first not
    to be finite, and how many others were not; empty for none."""
    found: list[tuple[int, str, object]] = []
    for tag, where in _fields(bus.get("first_nonfinite")).items():
        iteration = _fields(where).get("iteration")
        if isinstance(iteration, int):
            found.append((iteration, tag, _fields(where).get("rank")))
    if not found:
        return ""
    iteration, tag, rank = min(found, key=lambda one: one[0])
    is_of_many = bus.get("world_size") not in (None, 1)
    whose = f" (rank {rank})" if isinstance(rank, int) and is_of_many else ""
    more = len(found) - 1
    rest = f", and {counted(more, 'more tag')}" if more else ""
    return f"{_shown(tag)} first at iteration {iteration:,}{whose}{rest}"


def alerts_text(bus: Mapping[str, Any]) -> str:
    """``3, 1 still open: reward collapse: …``: how many were told of, and the newest that holds to
    the end; empty for none. What :func:`nonfinite_text` says is not said again."""
    alerts = _fields(bus.get("alerts"))
    raised, is_open = alerts.get("raised"), alerts.get("open")
    if not isinstance(raised, int) or raised <= 0:
        return ""
    if not isinstance(is_open, int) or is_open <= 0:
        return f"{raised:,}, none open at the end"
    texts = alerts.get("open_texts")
    listed = cast("list[object]", texts) if isinstance(texts, list) else []
    said = bool(nonfinite_text(bus))
    shown = [
        text
        for text in listed
        if isinstance(text, str) and not (said and text.startswith(_NOT_FINITE))
    ]
    newest = f": {_shown(shown[-1])}" if shown else ""
    return f"{raised:,}, {is_open:,} still open{newest}"


def _fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _shown(text: str) -> str:
    """A tag may hold what a terminal obeys."""
    kept = "".join(c if c.isprintable() else "�" for c in text)
    return kept if len(kept) <= _MOST_CHARS else f"{kept[:_MOST_CHARS]}…"
