"""Which iteration a learner's call belongs to, and how long the iteration took. Pure."""

from __future__ import annotations

from unilab_metrics.publish.strict import DuplicateTagError

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
        self._started_ns: int | None = None
        self._env_steps: int | None = None
        self._baseline_steps: int | None = None

    def start_training(self, env_steps: int) -> None:
        """The end of warm-up: throughput counts from here."""
        self._baseline_steps = self._env_steps = env_steps
        self._started_ns = None

    def start_iteration(self, now_ns: int) -> None:
        """The top of the loop: the iteration's wall begins."""
        self._started_ns = now_ns

    def place(self, iteration: int | None, more: bool) -> tuple[int, bool]:
        """The iteration that a call belongs to, and whether the call completes it. Changes
        nothing: :meth:`placed` does."""
        if iteration is None:
            if self._newest is None:
                iteration = 0
            elif self._numbered or not self._newest_complete:
                iteration = self._newest
            else:
                iteration = self._newest + 1
        late = self._newest is not None and (
            iteration < self._newest or (iteration == self._newest and self._newest_complete)
        )
        return iteration, not more and not late

    def placed(self, iteration: int, completes: bool, numbered: bool) -> None:
        """The call is in the spool. ``numbered``: the caller gave the number."""
        self._numbered = self._numbered or numbered
        if self._newest is None or iteration > self._newest:
            self._newest = iteration
            self._newest_complete = completes
        elif iteration == self._newest and completes:
            self._newest_complete = True

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

    def count_env_steps(self, env_steps: int) -> None:
        """The rank's own cumulative counter."""
        self._env_steps = env_steps

    def collect(self, now_ns: int) -> dict[str, float] | None:
        """Wall and throughput of the iteration that completes at ``now_ns``.

        ``None`` unless its start was measured; no throughput without two counters of
        environment steps or with a wall of zero.
        """
        steps, baseline = self._env_steps, self._baseline_steps
        self._baseline_steps = steps
        if self._started_ns is None:
            return None
        wall_s = (now_ns - self._started_ns) / 1e9
        self._started_ns = None
        values = {ITERATION_TIME: wall_s}
        if steps is not None and baseline is not None and wall_s > 0.0:
            values[TOTAL_FPS] = (steps - baseline) / wall_s
        return values
