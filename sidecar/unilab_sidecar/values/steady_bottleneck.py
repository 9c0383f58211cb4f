"""A bottleneck that does not come and go between two pictures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unilab_schema.bottleneck import Bottleneck, Rule, bottleneck


class SteadyBottleneck:
    """Remembers what the screen says. One owner, no locks.

    A bottleneck is shown once the last two seconds and the two before them say the same, which
    have no update in common: one slow iteration is none. It stays as long as the last two
    seconds say so by the lower thresholds, and goes at once when they do not, so that what is
    shown is always true of the numbers beside it.
    """

    def __init__(self) -> None:
        self._shown: Rule | None = None

    def clear(self) -> None:
        """Another attempt: nothing is known yet."""
        self._shown = None

    def now(
        self,
        means: Mapping[str, float],
        earlier_means: Callable[[], Mapping[str, float]],
        algorithm: str,
    ) -> Bottleneck | None:
        """What to show of a window. ``earlier_means``: of the window before, asked only if the
        answer decides."""
        found = bottleneck(means, algorithm, shown=self._shown)
        if found is not None and found.rule != self._shown:
            before = bottleneck(earlier_means(), algorithm)
            if before is None or before.rule != found.rule:
                found = None
        self._shown = found.rule if found is not None else None
        return found
