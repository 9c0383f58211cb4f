"""The metrics of one group: labels that are worked out once, readings that are looked up. Pure.

A picture is made twice a second, its tags hardly ever change: what depends on their names alone is
kept with them.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from unilab_sidecar.drawing.text import clean, width_of
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.groups.worked_out import WorkedOut
from unilab_sidecar.picture import Metric, Reading


class Label(NamedTuple):
    """A tag, its short name and its unit."""

    tag: str
    label: str
    unit: str = ""


class Labels:
    """Labels in their order. Immutable, equal only to itself."""

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        self.all = tuple(labels)

    @cached_property
    def tags(self) -> frozenset[str]:
        """Of all of them."""
        return frozenset(one.tag for one in self.all)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What a filter is applied to."""
        return tuple(
            one.tag if one.label == one.tag else f"{one.tag} {one.label}" for one in self.all
        )

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """The width of each as it is shown."""
        return tuple(width_of(clean(one.label)) for one in self.all)

    @cached_property
    def has_milliseconds(self) -> bool:
        """Whether one has a unit that is shown."""
        return any(one.unit == "ms" for one in self.all)


class Readings(Mapping[str, Reading]):
    """Of every tag of a picture: the window's mean, or what is told of it otherwise."""

    def __init__(self, means: Mapping[str, float], others: Mapping[str, Reading]) -> None:
        """``others``: count before the mean."""
        self._means, self._others = means, others
        self._beyond = [tag for tag in others if tag not in means]

    def __getitem__(self, tag: str) -> Reading:
        other = self._others.get(tag)
        return Reading(self._means[tag]) if other is None else other

    def __iter__(self) -> Iterator[str]:
        return chain(self._means, self._beyond)

    def __len__(self) -> int:
        return len(self._means) + len(self._beyond)

    def items(self) -> ItemsView[str, Reading]:
        """All at once, for who looks at each."""
        every = {tag: Reading(mean) for tag, mean in self._means.items()}
        return (every | dict(self._others)).items()

    def __contains__(self, tag: object) -> bool:
        return tag in self._means or tag in self._others

    def are_fresh(self, tags: frozenset[str]) -> bool:
        """Whether none of these has an age, or has had one."""
        those = (self._others[tag] for tag in self._others.keys() & tags)
        return all(one.stale_s is None and not one.is_rare for one in those)


class MetricGroup(WorkedOut[Metric]):
    """``labels`` with their readings."""

    def __init__(
        self, labels: Labels, reading: Callable[[int], Reading], are_fresh: Callable[[], bool]
    ) -> None:
        """``reading``: of the label at a place; ``are_fresh``: whether none of them has an age."""
        self.labels = labels
        self._reading = reading
        self.are_fresh = are_fresh

    def __len__(self) -> int:
        return len(self.labels.all)

    def one(self, place: int) -> Metric:
        """With its reading of now."""
        tag, label, unit = self.labels.all[place]
        return Metric(label, tag, self._reading(place), unit)

    def __repr__(self) -> str:
        return f"MetricGroup({len(self)} metrics)"

    def first(self, most: int) -> MetricGroup:
        """As many of them at most, from the beginning."""
        if len(self) <= most:
            return self
        return MetricGroup(_first(self.labels, most), self._reading, self.are_fresh)

    def passing(self, wanted: str) -> MetricGroup:
        """Those whose tag or label passes the filter ``wanted``."""
        labels, places = _passing(self.labels, wanted)
        if labels is self.labels:
            return self
        reading = self._reading
        return MetricGroup(labels, lambda nth: reading(places[nth]), self.are_fresh)


def of_readings(labels: Labels, readings: Readings) -> MetricGroup:
    """What there is under these labels."""

    def reading(place: int) -> Reading:
        return readings[labels.all[place].tag]

    return MetricGroup(labels, reading, lambda: readings.are_fresh(labels.tags))


def group_of(metrics: Sequence[Metric]) -> MetricGroup:
    """The same metrics as a group."""
    if isinstance(metrics, MetricGroup):
        return metrics
    labels = Labels(Label(one.tag, one.label, one.unit) for one in metrics)

    def are_fresh() -> bool:
        those = (one.reading for one in metrics)
        return all(one.stale_s is None and not one.is_rare for one in those)

    return MetricGroup(labels, lambda place: metrics[place].reading, are_fresh)


@lru_cache(maxsize=16)
def _first(labels: Labels, most: int) -> Labels:
    return Labels(labels.all[:most])


@lru_cache(maxsize=32)
def _passing(labels: Labels, wanted: str) -> tuple[Labels, Sequence[int]]:
    """The same question again, which comes twice a second about thousands of tags, is cheap."""
    places = parse_filter(wanted).places(labels.names)
    if len(places) == len(labels.all):
        return labels, places
    return Labels(labels.all[place] for place in places), places
