"""Sources that stall and writers that lag: what is patient, and what is told."""

from __future__ import annotations

from unilab_metrics.aggregate.alerting.lagging import Lagging
from unilab_metrics.aggregate.alerting.stalls import Seen, Stalls
from unilab_schema.control import BackendStatus

NOBODY: frozenset[str] = frozenset()


class Training:
    """One source, looked at once a second."""

    def __init__(self) -> None:
        self.stalls, self.now_s, self.frames = Stalls(), 0.0, 0

    def go(
        self, seconds: int, every_s: int = 0, heard_age_s: float = 0.1
    ) -> list[tuple[bool, float]]:
        told: list[tuple[bool, float]] = []
        for _ in range(seconds):
            self.now_s += 1
            if every_s and self.now_s % every_s == 0:
                self.frames += 1
            seen = Seen("learner 0", self.frames, heard_age_s, 7)
            told += [(c.began, self.now_s) for c in self.stalls.look(self.now_s, [seen], NOBODY)]
        return told


def test_a_stall_is_told_once_after_two_minutes_and_ends_with_the_next_frame():
    training = Training()
    assert training.go(60, every_s=1) == []
    assert training.go(400) == [(True, 180.0)]
    assert training.go(5, every_s=1) == [(False, 461.0)]


def test_long_iterations_and_pauses_that_were_there_before_are_no_stall():
    slow = Training()
    assert slow.go(30 * 20, every_s=30) == []
    assert slow.go(580) == []
    assert len(slow.go(60)) == 1
    evaluating = Training()
    assert evaluating.go(60, every_s=1) + evaluating.go(110) + evaluating.go(60, every_s=1) == []
    assert evaluating.go(320) == []
    assert len(evaluating.go(60)) == 1


def test_warm_up_silence_and_our_own_pause_are_none():
    assert Training().go(3000) == []
    paused = Training()
    paused.go(60, every_s=1)
    paused.now_s += 1000
    paused.stalls.resumed(1000)
    assert paused.go(100) == []


def test_a_process_that_says_nothing_at_all_is_told_of_as_such():
    stalls = Stalls()
    for n in range(60):
        assert stalls.look(n, [Seen("learner 0", n, 0.1, 7)], NOBODY) == []
    for n in range(60, 179):
        assert stalls.look(n, [Seen("learner 0", 59, n - 59.0, 7)], NOBODY) == []
    (change,) = stalls.look(179.0, [Seen("learner 0", 59, 120.0, 7)], NOBODY)
    assert change.text.startswith("learner 0 says nothing at all for 120 s, last at iteration 7")
    assert change.facts["is_heard"] is False


def test_an_alert_from_before_the_aggregator_ends_when_its_source_logs_or_is_gone():
    stalls, opened = Stalls(), frozenset({"learner 0", "learner 1"})
    (gone,) = stalls.look(0.0, [Seen("learner 0", 5, 0.0, 1)], opened)
    assert (gone.subject, gone.began) == ("learner 1", False)
    (again,) = stalls.look(1.0, [Seen("learner 0", 6, 0.0, 1)], frozenset({"learner 0"}))
    assert (again.subject, again.began) == ("learner 0", False)


def _lag(lagging: Lagging, now_s: float, committed: int, held: int, *opened: str) -> list[bool]:
    backend = BackendStatus("tensorboard", "running", held)
    changes = lagging.look(now_s, committed, [backend], frozenset(opened))
    return [change.began for change in changes]


def test_a_writer_is_behind_by_updates_and_by_time():
    lagging = Lagging()
    assert not any(_lag(lagging, now, 1000 + now * 10, 900) for now in range(60))
    assert _lag(lagging, 60, 1600, 900) == [True]
    assert _lag(lagging, 61, 1610, 1200, "writer of tensorboard") == []
    assert _lag(lagging, 70, 1700, 1690, "writer of tensorboard") == [False]
    few = Lagging()
    assert not any(_lag(few, now, 999, 900) for now in range(200))
    following = Lagging()
    assert not any(_lag(following, now, 500 * now, 500 * max(now - 30, 0)) for now in range(300))
