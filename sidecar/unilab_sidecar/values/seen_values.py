"""All that is kept of the values of updates: means, newest ones, and where they have gone. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from unilab_schema.known_names import NAMES, tag_of
from unilab_schema.requests import Snapshot
from unilab_schema.updates import Supplement, Update
from unilab_sidecar.picture import Picture, Reading, Rewards
from unilab_sidecar.values.happened import HappenedPhases
from unilab_sidecar.values.metric_courses import MetricCourses
from unilab_sidecar.values.newest import NewestValues
from unilab_sidecar.values.of_tags import OfTags
from unilab_sidecar.values.rewards import RewardCourse
from unilab_sidecar.values.window import Values, Window


class _Place(NamedTuple):
    """Where a key set has a tag."""

    tag: str
    place: int


class SeenValues:
    """One owner, no locks. Updates and supplements come in the order of their sequences."""

    def __init__(self) -> None:
        self.window = Window()
        self.happened = HappenedPhases()
        self.courses = MetricCourses()
        self._newest = NewestValues()
        self._rare: set[str] = set()
        self._rewards = RewardCourse()
        self._own_reward: str = ""
        self._reward_tag: str = ""
        self._reward_places = OfTags(self._place_of_reward)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Takes what the aggregator knew when this viewer joined."""
        self._newest.add_snapshot(snapshot)
        newest = self._newest.all()
        self.happened.add_newest(newest, (one.value for one in newest.values()))

    def update(self, sequence: int, update: Update, tags: tuple[str, ...], values: Values) -> None:
        """Takes the values of an update."""
        self.window.add(update.attempt, update.iteration, update.sealed_mono_ns, tags, values)
        self.courses.add(update.iteration, update.sealed_mono_ns, tags, values)
        self._add(sequence, update, tags, values)

    def supplement(
        self, sequence: int, late: Supplement, tags: tuple[str, ...], values: Values
    ) -> None:
        """Takes values that came after their iteration was sealed."""
        self.window.supplement(late.attempt, late.iteration, tags, values)
        self.courses.supplement(tags, values)
        self._add(sequence, late, tags, values)

    def _add(
        self, sequence: int, entry: Update | Supplement, tags: tuple[str, ...], values: Values
    ) -> None:
        self._newest.add(sequence, entry.sealed_mono_ns, tags, values)
        self.happened.add(tags, values)
        found = self._reward_places.of(tags)
        if found is not None and self._is_the_reward(found.tag):
            value = float(values[found.place])
            self._rewards.add(value, entry.iteration, entry.attempt)

    def name_reward(self, own: str) -> None:
        """The run's own tag for it, empty for none."""
        if own != self._own_reward:
            self._own_reward, self._reward_tag = own, ""
            self._rewards = RewardCourse()
            self._reward_places.forget()

    def _is_the_reward(self, tag: str) -> bool:
        """Two tags are two courses: the one that counts for more begins anew, the other one's
        reports are none."""
        if tag == self._reward_tag:
            return True
        names = NAMES["reward"]
        if self._reward_tag and names.index(tag) > names.index(self._reward_tag):
            return False
        self._reward_tag, self._rewards = tag, RewardCourse()
        return True

    def _place_of_reward(self, tags: tuple[str, ...]) -> _Place | None:
        tag = tag_of("reward", frozenset(tags), self._own_reward)
        return _Place(tag, tags.index(tag)) if tag is not None and tag in tags else None

    def older(
        self, means: Mapping[str, float], age_of: Callable[[int | None], float | None]
    ) -> dict[str, Reading]:
        """Of the tags that the window's ``means`` lack: the newest value with its age. ``age_of``:
        seconds since something was sealed, if anybody knows. Of those that they have lacked before
        the mean: these come and go."""
        beside = self._newest.beside(means)
        readings = {tag: Reading(means[tag], is_rare=True) for tag in self._rare if tag in means}
        self._rare.update(beside)
        for tag, newest in beside.items():
            age_s = age_of(newest.mono_ns)
            readings[tag] = Reading(newest.value, math.inf if age_s is None else age_s)
        return readings

    def with_courses_until(self, past: Picture) -> Picture:
        """A picture of the past with the courses of what was seen up to then."""
        if past.iteration is None or self.courses.first is None:
            return past
        courses = self.courses.until(past.iteration)
        return replace(past, courses=courses, courses_from=self.courses.first)

    def rewards(self, *, is_whole: bool) -> Rewards:
        """Peak, course, and where it goes at its end. ``is_whole``: these are all reports that there
        will be."""
        course = self._rewards.course()
        direction = self._rewards.direction(is_whole=is_whole)
        return Rewards(
            peak=self._rewards.peak,
            last=self._rewards.last,
            trend=direction.trend if direction else None,
            trend_reports=direction.values if direction else 0,
            history=course.values,
            span=course.span,
            whole_run=is_whole,
        )
