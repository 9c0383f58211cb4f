"""What a training's loop has measured of itself: iterations, phases, episodes, gauges."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import monotonic_ns
from typing import Any

from unilab_metrics.publish.emitter import Emitter
from unilab_metrics.publish.episodes import EpisodeStatistics
from unilab_metrics.publish.gauges import InferenceGauges
from unilab_metrics.publish.guard import guarded
from unilab_metrics.publish.iterations import IterationClock
from unilab_metrics.publish.phases import Phase, PhaseClock
from unilab_metrics.publish.spool import Spool


class LoopMeasures(Emitter):
    """Base of :class:`~unilab_metrics.publish.publisher.Publisher`. For the thread that runs the
    loop; ``log()`` puts what was measured into the next frame."""

    def __init__(self, spool: Spool, *, role: str, algorithm: str, strict: bool) -> None:
        super().__init__(spool, strict=strict)
        self.episodes = EpisodeStatistics(refuse=partial(self._refuse_call, "episodes"))
        """``episodes.step(rewards, dones, timeouts)`` after each vector step; the statistics
        of the last 100 finished episodes join the next report."""
        self._iterations = IterationClock()
        self._phases = PhaseClock(role, algorithm, tell=partial(self._refuse, ""))
        self._gauges = InferenceGauges()

    @guarded
    def start_training(self, env_steps: Any = 0) -> None:
        """The end of warm-up: elapsed time and throughput count from here."""
        steps = self._counter(env_steps, "env_steps") or 0
        self._iterations.start_training(steps)
        self._phases.collect(monotonic_ns())
        self._event("training_started", "", None, {"env_steps": steps})

    @guarded
    def start_iteration(self) -> None:
        """The top of the learner's loop: the completing ``log()`` then adds
        ``Perf/iteration_time`` and, with ``env_steps``, ``Perf/total_fps``. Of several iterations
        since the last ``log()`` these and the phases are means per iteration, and the throughput
        that of all."""
        self._iterations.start_iteration(monotonic_ns())
        self._phases.start_iteration()

    def phase(self, name: str) -> Phase:
        """``with publisher.phase("replay_sample"):`` measures a phase of the loop.

        Exclusive phases nest by pausing the outer one. A learner reports the sum over the
        iteration, other roles the mean per :meth:`tick`. Raises ``ValueError`` in strict mode
        for a name that this role and algorithm do not have.
        """
        return self._phases.phase(name, strict=self._strict)

    @guarded
    def add_phase_ns(self, name: str, duration_ns: int) -> None:
        """A phase that was measured elsewhere, in another thread or on a device."""
        duration = self._nanoseconds(duration_ns, name)
        if duration is not None:
            self._phases.add_ns(name, duration, strict=self._strict)

    def tick(self) -> None:
        """A collector's vector step is done; phases are reported as means per tick."""
        self._phases.tick()

    @guarded
    def gauges(self, *, inference: Mapping[str, Any]) -> None:
        """A collector's ``queue_depth``, ``action_backlog``, ``in_flight`` and
        ``publication_lag``; with the last three's maxima since the last report they join the
        next one. Raises ``ValueError`` in strict mode for another name."""
        if self._is_mapping(inference):
            self._gauges.read(inference, self._refuse, strict=self._strict)
