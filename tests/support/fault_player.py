"""Plays a schedule of faults on a real training and brings the run to its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fault_ledgers import read_ledgers
from fault_oracle import Outcome, compare
from fault_schedule import PHASES, SPANS_S, Ending, Fault, Phase, Plan
from fault_training import FaultTraining

_NEXT_ATTEMPT_S = 1.0
_PATIENCE_S = 60.0


def play(plan: Plan, training: FaultTraining) -> Outcome:
    """One run from its start to the comparison. Raises ``AssertionError`` if it hangs."""
    training.start_attempt()
    player = _Player(training)
    for phase in PHASES:
        player.begin(phase, plan.ending)
        for fault in plan.faults:
            if fault.phase == phase:
                player.wait_until(fault.at_s)
                player.inject(fault)
        if phase == "steady":
            player.wait_until(SPANS_S[phase])
    player.resume_all()
    finish(training, with_attempt=plan.ending == "attempt")
    return compare(training)


def finish(training: FaultTraining, *, with_attempt: bool = False) -> None:
    """Bring a run to its end in which anybody may be dead.

    Where every ``close()`` has said so, the run is complete then; another one is completed as a
    user would do it, by the next attempt or by the command for it.
    """
    if with_attempt:
        training.go_on(_NEXT_ATTEMPT_S)
    training.finish()
    if not is_complete(training.ledgers):
        # An aggregator that is being started holds no lease yet, and then all of its own time.
        status = training.command("recover", "--wait", "90", timeout_s=150.0)
        assert status == 0, f"recover ended with {status}"
    training.ended_mono_ns = time.monotonic_ns()


def is_complete(ledgers: Path) -> bool:
    """Whether the last rank 0 was told that everything is in every backend, and nobody that
    something of its own is left."""
    found = read_ledgers(ledgers)
    if any(ledger.delivered is False for ledger in found):
        return False
    zeros = [ledger for ledger in found if ledger.place == "learner-0"]
    newest = max(zeros, key=lambda ledger: int(ledger.name.rsplit("-", 1)[1]), default=None)
    return newest is not None and newest.delivered is True


class _Player:
    def __init__(self, training: FaultTraining) -> None:
        self._training = training
        self._began_s = 0.0
        self._paused: list[tuple[float, int]] = []

    def begin(self, phase: Phase, ending: Ending) -> None:
        """Wait until the training is so far: a busy machine starts slowly."""
        training = self._training
        if phase == "handshake":
            self._wait_for(training.has_begun)
        elif phase == "steady":
            self._wait_for(lambda: training.pid("writer"))
        elif phase == "close":
            if ending == "close":
                training.begin_end()
            training.is_finishing = ending != "attempt"
        self._began_s = time.monotonic()

    def _wait_for(self, condition: Callable[[], Any]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, "the training does not come so far"
            self._training.turn()
            self._resume_due()

    def wait_until(self, at_s: float) -> None:
        while time.monotonic() - self._began_s < at_s:
            self._training.turn()
            self._resume_due()

    def inject(self, fault: Fault) -> None:
        if fault.action == "kill":
            self._training.kill(*fault.victims)
            return
        until_s = time.monotonic() + fault.pause_s
        pids = self._training.send(signal.SIGSTOP, *fault.victims)
        self._paused += [(until_s, pid) for pid in pids]

    def _resume_due(self) -> None:
        now_s = time.monotonic()
        for until_s, pid in list(self._paused):
            if now_s >= until_s:
                self._paused.remove((until_s, pid))
                _continue(pid)

    def resume_all(self) -> None:
        while self._paused:
            self._training.turn()
            self._resume_due()


def _continue(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
