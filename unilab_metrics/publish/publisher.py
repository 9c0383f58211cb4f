"""What a training calls: ``log()`` and its relatives.

No method waits, raises or prints, except for a training's own mistakes in strict mode (always
a ``ValueError``) and :meth:`Publisher.close`, which waits as long as it is told to. What could
not be logged is counted in :attr:`Publisher.dropped`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any, final

from unilab_metrics.publish import exiting, losses, unsent
from unilab_metrics.publish.closing import Closing, deliver_and_close
from unilab_metrics.publish.exiting import failure
from unilab_metrics.publish.frame_writer import FrameWriter
from unilab_metrics.publish.guard import guarded
from unilab_metrics.publish.loop_measures import LoopMeasures
from unilab_metrics.publish.own_figures import OwnFigures
from unilab_metrics.publish.runless import LacksRun, has_run
from unilab_metrics.publish.shipper import Shipper
from unilab_metrics.publish.signal_handlers import is_of_signal_handler
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.strict import StrictModeError
from unilab_schema.codec import MAX_STEP
from unilab_schema.identity import LEARNER, Identity

CLOSE_TIMEOUT_S = 30.0


@final
class Publisher(LoopMeasures):
    """One source of a run. Made by ``init()`` and ``connect()``.

    ``log()``, phases, episodes and gauges are for the thread that runs the loop; every other
    method is for any thread. In a forked child it counts, warns once and does nothing else.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        spool: Spool,
        shipper: Shipper | None,
        strict: bool = False,
        algorithm: str = "",
        lacks_run: LacksRun = has_run,
        figures: OwnFigures | None = None,
    ) -> None:
        super().__init__(spool, role=identity.key.role, algorithm=algorithm, strict=strict)
        self.identity = identity
        self._shipper = shipper
        self._is_learner = identity.key.role == LEARNER
        self._frames = FrameWriter(spool, self._rules, self._refuse, strict=strict)
        self._lacks_run = lacks_run
        self._figures = OwnFigures() if figures is None else figures
        self._closing = Closing()
        self._is_exiting = False
        if shipper is not None:
            shipper.prospects.turn.close = self.close
        exiting.call_at_exit(self._at_exit)

    @property
    def rank(self) -> int:
        """The global rank."""
        return self.identity.key.rank

    @property
    def role(self) -> str:
        """``learner``, ``collector``, or what the user called it."""
        return self.identity.key.role

    @property
    def is_closing(self) -> bool:
        """Whether ``close()`` has been called, by anybody."""
        return self._closing.delivered is not None

    @property
    def unsent(self) -> int:
        """Records that are not in the aggregator's journal yet."""
        return self._spool.last if self._shipper is None else self._shipper.unsent

    def log(
        self,
        values: Mapping[str, Any],
        *,
        iteration: Any = None,
        env_steps: Any = None,
        more: bool = False,
        already_reduced: bool = False,
    ) -> None:
        """A learner's values of an iteration, or another role's report.

        Values: numbers of Python and NumPy, tensors and arrays with one element, ``Mean``.
        Others are left out, counted, and named once in a ``warning`` event.
        ``iteration``: an integral number of any type, not negative. Without it the values
        join the newest iteration that was logged; a training that never numbers its iterations
        gets 0, 1, 2, …. ``env_steps``: this rank's own counter, cumulative over the run.
        ``more``: the iteration is not complete yet. ``already_reduced``: a library has reduced
        the values over ranks itself; they count from rank 0 only.

        Raises ``ValueError`` in strict mode for a tag that is not registered, is the logger's, or
        was given twice for this iteration; for an ``iteration`` or ``env_steps`` that is no such
        number, or lower than the last one; for an iteration that is complete; and for ``values``
        that are no mapping. In open mode these are counted and named in a ``warning`` event; what
        comes for an iteration that is over adds the tags that it lacks.
        """
        if self._spool.inactive:
            self._spool.refuse()
            return
        began_ns = monotonic_ns()
        try:
            if not self._is_learner:
                self._log_report(values, iteration, env_steps)
                return
            if iteration is not None and not (
                type(iteration) is int and 0 <= iteration <= MAX_STEP
            ):
                iteration = self._counter(iteration, "iteration")
                if iteration is None:
                    self._frames.refused_calls += 1
                    return
            if env_steps is not None and not (
                type(env_steps) is int and 0 <= env_steps <= MAX_STEP
            ):
                env_steps = self._counter(env_steps, "env_steps")
            frames, iterations = self._frames, self._iterations
            tags = tuple(values)
            parts = frames.seen.get(tags)
            if parts is None:
                values, tags, parts = frames.admit(values)
            if self._strict:
                iterations.refuse_mistakes(iteration, env_steps, tags)
            if env_steps is not None:
                iterations.env_steps = env_steps
            iteration, completes = iterations.advance(iteration, more)
            if completes and (iterations.started or self._phases.used or self.episodes.known):
                own = self._own_of_iteration()
                if already_reduced:
                    frames.write(own, tuple(own), None, iteration, env_steps, more=True)
                else:
                    values = {**own, **values}
                    tags, parts = tuple(values), None
            frames.write(values, tags, parts, iteration, env_steps, more, already_reduced)
        except StrictModeError:
            raise
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            self._frames.refused_calls += 1
            self._failed(error, values)
        finally:
            figures = self._figures
            figures.log_calls += 1
            figures.log_ns += monotonic_ns() - began_ns

    def _own_of_iteration(self) -> dict[str, float]:
        now = monotonic_ns()
        return {
            **self._phases.collect(now),
            **self.episodes.collect(),
            **self._iterations.collect(now),
        }

    def _log_report(self, values: Mapping[str, Any], iteration: Any, env_steps: Any) -> None:
        if iteration is not None:
            text = f"a {self.role} reports on its own clock, without an iteration"
            self._refuse_call("iteration", text)
        steps = None if env_steps is None else self._counter(env_steps, "env_steps")
        if self._strict:
            self._iterations.refuse_fewer_steps(steps)
        tags = tuple(values)
        parts = self._frames.seen.get(tags)
        if parts is None:
            values, tags, parts = self._frames.admit(values)
        own = self._phases.collect(monotonic_ns())
        own.update(self.episodes.collect())
        own.update(self._gauges.values())
        if own:
            values = {**own, **values}
            tags, parts = tuple(values), None
        if steps is not None:
            self._iterations.env_steps = steps
        elif not tags:
            return
        if self._frames.write(values, tags, parts, None, steps):
            self._gauges.accepted()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S, status: str = "completed") -> bool:
        """Deliver what there is and end; later calls are counted as ``closed``.

        ``status``: as in ``run_summary.json``, or ``stopped``. True when everything is durable in
        the run's journal (on rank 0: and in every backend). Otherwise, after ``timeout_s``, what is
        left stays in the spool for the aggregator or the next attempt, which one
        ``RuntimeWarning`` says (at the exit a line of the error output). Idempotent; a second
        thread waits for what comes of it, and is warned if its own ``timeout_s`` is over before. On
        a terminal, rank 0 says after two seconds in one line what it waits for; Ctrl+C ends the
        wait.
        Publishers of this process that had the same place of the run before are closed first; one
        that is closed before a later one does not wait for its backends.

        The end of a ``with`` block or of the process does it too, and sees an exception and (only
        ``with``) ``sys.exit(n)`` as ``failed``, Ctrl+C and the exit codes that a shell has for it
        and for SIGTERM (130, 143) as ``stopped``. In a ``finally`` clause say it.
        """
        closing = self._closing
        if self._shipper is not None and not self.is_closing and not self._spool.is_mute:
            # Before this one begins: whoever interrupts that can still close it, also the exit.
            timeout_s = self._shipper.prospects.turn.end_earlier(timeout_s)
        if closing.begin():
            try:
                exiting.forget_exit(self._at_exit)
                if not self._spool.is_mute:
                    closing.delivered = deliver_and_close(
                        self._spool,
                        self._shipper,
                        self._lacks_run,
                        timeout_s=timeout_s,
                        status=status,
                        is_exiting=self._is_exiting,
                    )
                    if self._frames.refused_calls >= self._figures.log_calls:
                        self._say_refused(is_exiting=self._is_exiting)
            finally:
                closing.end(is_exiting=self._is_exiting)
        # In a forked child the thread that closes is not there.
        elif self._spool.inactive != losses.FORKED and not closing.wait(timeout_s):
            unsent.say(unsent.still_closing(self.unsent), is_exiting=self._is_exiting)
        return bool(closing.delivered)

    def when_closed(self, call: Callable[[], None]) -> None:
        """Call it at the end of :meth:`close`, in the thread that closes."""
        self._closing.afterwards.append(call)

    def _at_exit(self) -> None:
        seen = self._shipper is not None and self._shipper.bus_seen
        self._is_exiting = True
        self._leave(failure(), exiting.exit_wait_s(CLOSE_TIMEOUT_S, bus_seen=seen), "")

    def _leave(self, error: BaseException | None, timeout_s: float, status: str) -> None:
        if error is not None and not self.is_closing and not self._spool.is_mute:
            status = exiting.status_of(error)
            timeout_s = min(timeout_s, exiting.FAILED_TIMEOUT_S)
            self._tell_failure(error)
        self.close(timeout_s, status)

    @guarded
    def _tell_failure(self, error: BaseException) -> None:
        name, text = exiting.describe(error)
        cause = name if text == name else f"{name}: {text}"
        how = exiting.status_of(error)
        self._event("status", f"{self.role} of rank {self.rank} {how}: {cause}", None, {})
        if self._is_learner:
            self._event("summary", "", None, {"error_type": name, "error": text})

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._leave(error and failure(error), CLOSE_TIMEOUT_S, "completed")
