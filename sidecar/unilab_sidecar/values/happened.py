"""Which phases of the learner's profile have ever happened. Pure.

A learner that measures its iteration reports every phase of its profile, 0.0 for one that did
not happen: a sum over phases and Other must be the wall. On a screen, a phase that never happened
is no row: an integration of ten lines has most of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unilab_schema.phases import all_learner_slices
from unilab_schema.timing import LearnerTimeline
from unilab_sidecar.values.of_tags import OfTags
from unilab_sidecar.values.window import Values

_PHASES = frozenset(phase.tag for phase in all_learner_slices())


class HappenedPhases:
    """Of all that this viewer has seen of the run. One owner, no locks."""

    def __init__(self) -> None:
        self._never = set(_PHASES)
        self._places = OfTags(self._places_of)

    def add(self, tags: tuple[str, ...], values: Values) -> None:
        """Takes the values of an update, a supplement or a snapshot."""
        if not self._never:
            return
        places = self._places.of(tags)
        # A NaN is not 0 either: something was measured.
        if places and np.any(values[places] != 0.0):
            self._never -= {tags[place] for place in places if values[place] != 0.0}
            self._places.forget()

    def _places_of(self, tags: tuple[str, ...]) -> list[int]:
        return [place for place, tag in enumerate(tags) if tag in self._never]

    def only(self, timeline: LearnerTimeline | None) -> LearnerTimeline | None:
        """The timeline without the rows of what never happened; its sums stay as they are."""
        if timeline is None:
            return None
        return timeline._replace(rows=tuple(r for r in timeline.rows if r.tag not in self._never))

    def add_newest(self, tags: Iterable[str], values: Iterable[float]) -> None:
        """Takes the newest value of each tag, from before this viewer joined."""
        self._never -= {tag for tag, value in zip(tags, values, strict=True) if value != 0.0}
        self._places.forget()
