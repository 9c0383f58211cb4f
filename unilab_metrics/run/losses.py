"""Who of a run that has ended was lost on the way, as its summary tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from unilab_metrics.outcome import STOPPED, TOLD_TO_END
from unilab_metrics.run.summary import ended_in
from unilab_metrics.wording import lost_how

_MOST_LOST = 8


def lost_texts(summary: Mapping[str, Any]) -> list[str]:
    """``learner of rank 1: was killed by SIGKILL at iteration 7``: of each process of the attempt
    that ended without a goodbye, unless the run was stopped and it was told to end."""
    lost = _lost(summary)
    more = len(lost) - _MOST_LOST
    texts = [_text(source) for source in lost[:_MOST_LOST]]
    return [*texts, f"{more:,} more"] if more > 0 else texts


def count_lost(summary: Mapping[str, Any]) -> int:
    """How many :func:`lost_texts` is about."""
    return len(_lost(summary))


def _lost(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    bus = cast("dict[str, Any]", summary.get("bus") or {})
    sources = cast("list[dict[str, Any]]", bus.get("sources") or [])
    lost = [source for source in sources if source.get("state") == "lost"]
    lost.sort(key=lambda source: str(source.get("rank")).zfill(8))
    if ended_in(summary) == STOPPED:
        lost = [source for source in lost if str(source.get("ending")) not in TOLD_TO_END]
    return [source for source in lost if not source.get("ended")]


def _text(source: Mapping[str, Any]) -> str:
    how, last = lost_how(str(source.get("ending") or "")), source.get("last_iteration")
    # Anybody may have put the file there.
    at = f" at iteration {last:,}" if isinstance(last, int) else ""
    return f"{source.get('role')} of rank {source.get('rank')}: {how}{at}"
