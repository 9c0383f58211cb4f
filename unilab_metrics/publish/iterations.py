"""Which iteration a learner's call belongs to, and how long the iteration took. Pure."""

from __future__ import annotations

from unilab_metrics.publish.strict import ArgumentError, DuplicateTagError

ITERATION_TIME = "Perf/iteration_time"
TOTAL_FPS = "Perf/total_fps"


class IterationClock:
    """The iterations of one learner; owned by the thread that logs.

    A call without a number joins the newest iteration that was logged, open or complete. A
    training that never numbers its iterations gets 0, 1, 2, …, one per completing call.
    """

    def __init__(self) -> None:
        self._newest: int | None = None
        self._newest_complete = False
        self._numbered = False
        self._tagged_iteration: int | None = None
        self._tags: list[tuple[str, ...]] = []
        self._started_ns = 0
        self.started = 0
        """How many iterations have started since the last one that was completed."""
        self.env_steps: int | None = None
        """This rank's own cumulative counter, newest value."""
        self._baseline_steps: int | None = None

    def start_training(self, env_steps: int) -> None:
        """The end of warm-up: throughput counts from here."""
        self._baseline_steps = self.env_steps = env_steps
        self.started = 0

    def start_iteration(self, now_ns: int) -> None:
        """The top of the loop: the iteration's wall begins, or goes on after one that was not
        logged, whose steps the next log counts too."""
        if not self.started:
            self._started_ns = now_ns
        self.started += 1

    def joined(self, number: int | None) -> int:
        """The iteration that a call belongs to."""
        if number is not None:
            return number
        if self._newest is None:
            return 0
        if self._numbered or not self._newest_complete:
            return self._newest
        return self._newest + 1

    def advance(self, number: int | None, more: bool) -> tuple[int, bool]:
        """Count a call: the iteration that it belongs to, and whether it completes it, which
        late values do not."""
        if number is None:
            number = self.joined(None)
        else:
            self._numbered = True
        newest = self._newest
        completes = not more
        if newest is None or number > newest:
            self._newest = number
            self._newest_complete = completes
        elif number == newest and not self._newest_complete:
            self._newest_complete = completes
        else:
            return number, False
        if completes and not self.started:
            self._baseline_steps = self.env_steps
        return number, completes

    def refuse_mistakes(
        self, number: int | None, env_steps: int | None, tags: tuple[str, ...]
    ) -> None:
        """Strict mode, before a call counts. Raises :class:`ArgumentError` for an iteration that
        is over and for a counter that falls, and as :meth:`refuse_duplicates` does."""
        newest = self._newest
        if number is not None and newest is not None and number <= newest:
            if number < newest:
                raise ArgumentError(f"iteration {number} comes after {newest}")
            if self._newest_complete:
                text = f"iteration {number} is complete; more=True keeps one open for further calls"
                raise ArgumentError(text)
        self.refuse_fewer_steps(env_steps)
        self.refuse_duplicates(self.joined(number), tags)

    def refuse_fewer_steps(self, env_steps: int | None) -> None:
        """Strict mode. Raises :class:`ArgumentError` for a counter that falls."""
        known = self.env_steps
        if env_steps is not None and known is not None and env_steps < known:
            raise ArgumentError(
                f"env_steps {env_steps} comes after {known}: the counter never falls"
            )

    def refuse_duplicates(self, iteration: int, tags: tuple[str, ...]) -> None:
        """Strict mode: remember ``tags``. Raises :class:`DuplicateTagError` for one that an
        earlier call gave for the same iteration, the newest one."""
        if iteration == self._tagged_iteration:
            seen = {tag for earlier in self._tags for tag in earlier}
            twice = sorted(seen.intersection(tags))
            if twice:
                raise DuplicateTagError(f"{twice[0]!r} was logged twice for iteration {iteration}")
        elif self._tagged_iteration is None or iteration > self._tagged_iteration:
            self._tagged_iteration = iteration
            self._tags.clear()
        else:
            return
        self._tags.append(tags)

    def collect(self, now_ns: int) -> dict[str, float]:
        """Wall and throughput of the iteration that completes at ``now_ns``; with the ones before
        it that started and were not logged, their mean wall and the throughput of all.

        Empty unless a start was measured; no throughput without two counters of environment
        steps or with a wall of zero.
        """
        if not self.started:
            return {}
        wall_s = (now_ns - self._started_ns) / 1e9
        values = {ITERATION_TIME: wall_s / self.started}
        self.started = 0
        steps, baseline = self.env_steps, self._baseline_steps
        self._baseline_steps = steps
        if steps is not None and baseline is not None and wall_s > 0.0:
            values[TOTAL_FPS] = (steps - baseline) / wall_s
        return values
