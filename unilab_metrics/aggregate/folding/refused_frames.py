"""Saying which frames the run could not use, and why: each kind of a source once. Pure.

The texts are no part of the fold: they become notices, which are entries of their own. A refold
gives them again, and who tells them leaves out those that have been told.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from unilab_schema.codec import FrameDecodeError, RecordKind

if TYPE_CHECKING:
    from unilab_metrics.aggregate.folding.sources import SourceState

REFUSED_FRAME = "refused_frame"
"""Frames whose handling failed: damaged, beyond a limit, or without sense."""
_MAX_TEXTS = 32
_MAX_REASON_CHARS = 256


class RefusedFrames:
    """Owned by the aggregator's main thread."""

    def __init__(self) -> None:
        self._known: set[tuple[int, int]] = set()
        self._untold: list[str] = []

    def refused(self, source: SourceState, kind: int, error: Exception) -> None:
        """A frame of ``source`` changes nothing, because handling it raised ``error``."""
        if (source.index, kind) in self._known or len(self._known) >= _MAX_TEXTS:
            return
        self._known.add((source.index, kind))
        reason = str(error)[:_MAX_REASON_CHARS] or type(error).__name__
        if not isinstance(error, FrameDecodeError):
            reason = f"{_name_of(kind)}: {reason}"
        self._untold.append(
            f"a frame of the {source.name} is refused ({reason}); it and further ones of its kind "
            "are counted as quarantined"
        )

    def take(self, told: Container[str]) -> list[str]:
        """What is to be said now, without what is ``told`` already."""
        if not self._untold:
            return []
        texts = [text for text in self._untold if text not in told]
        self._untold.clear()
        return texts


def _name_of(kind: int) -> str:
    try:
        return RecordKind(kind).name.lower()
    except ValueError:
        return f"kind {kind}"


def refused_of(source: SourceState) -> dict[str, int]:
    """What the source is told of it, by reason."""
    if not source.quarantined:
        return source.refused
    return {**source.refused, REFUSED_FRAME: source.quarantined}
