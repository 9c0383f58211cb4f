"""The run's writers as the aggregator sees them: where each one is, and that each one lives."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.entries import Notice
from unilab_metrics.aggregate.options import BackendProcess
from unilab_metrics.aggregate.process_log import say
from unilab_metrics.helper_life import Heard
from unilab_schema.control import BackendStatus
from unilab_schema.frames import Scalar

RESTARTING = "restarting"
FAILED = "failed"


class Writers:
    """Owned by the aggregator's main thread."""

    def __init__(self, core: Core, processes: Mapping[str, BackendProcess]) -> None:
        self._core = core
        self._processes = processes
        self._statuses = {name: BackendStatus(name, "starting", 0) for name in processes}
        self._heard_s: dict[str, float] = {}

    def take(self, status: BackendStatus) -> None:
        """What a writer says of itself; an unknown backend's word changes nothing."""
        if status.name in self._statuses:
            self._statuses[status.name] = status
            self._heard_s[status.name] = time.monotonic()

    def statuses(self) -> tuple[BackendStatus, ...]:
        """As subscribers are told."""
        now_s = time.monotonic()
        return tuple(
            msgspec.structs.replace(status, age_s=self._age_s(name, now_s))
            for name, status in self._statuses.items()
        )

    def updates(self) -> dict[str, int]:
        """The last update sequence that each backend says it holds."""
        return {name: status.update for name, status in self._statuses.items()}

    def is_complete(self, last: int, *, gives_up: bool) -> bool:
        """Whether every backend holds that update, or nobody will bring it there any more.
        ``gives_up``: one that refuses data now had its time."""
        return all(
            status.update >= last
            or self._processes[name].is_finished
            or (gives_up and status.state == FAILED)
            for name, status in self._statuses.items()
        )

    def behind(self, last: int) -> list[str]:
        """For messages: the backends that lack updates up to ``last``, and what they have."""
        return [
            f"{name} is at update {status.update:,} of {last:,}{self._why(status)}"
            for name, status in self._statuses.items()
            if status.update < last and not self._processes[name].is_finished
        ]

    def troubles(self, last: int) -> list[str]:
        """Of those that lack updates up to ``last``: what is wrong with their writers."""
        return [
            f"the writer of {name} {status.text}"
            for name, status in self._statuses.items()
            if status.update < last and status.state in {RESTARTING, FAILED} and status.text
        ]

    @staticmethod
    def _why(status: BackendStatus) -> str:
        is_told = status.state in {RESTARTING, FAILED} and status.text
        return f", its writer {status.text}" if is_told else ""

    def look_after(self, *, hurry: bool) -> None:
        """Start those that are not there; kill those that have said nothing for too long. What
        happened to one becomes an event, unless the run has ended: nothing follows its end."""
        for name, process in self._processes.items():
            process(hurry=hurry, heard=self._heard(name))
            for trouble in process.take_troubles():
                text = f"the writer of {name} {trouble.reason}; {trouble.consequence}"
                say(text)
                self._statuses[name] = msgspec.structs.replace(
                    self._statuses[name], state=RESTARTING, pid=0, text=trouble.reason
                )
                if self._core.state.data.ended is None:
                    self._tell(name, text, trouble.reason)

    def _tell(self, name: str, text: str, reason: str) -> None:
        facts: dict[str, Scalar] = {
            "helper": f"writer {name}",
            "by": "the aggregator",
            "reason": reason,
        }
        self._core.fold(Notice("warning", text, time.monotonic_ns(), time.time_ns(), facts))

    def _heard(self, name: str) -> Heard | None:
        heard_s = self._heard_s.get(name)
        status = self._statuses[name]
        return None if heard_s is None or not status.pid else Heard(status.pid, heard_s)

    def _age_s(self, name: str, now_s: float) -> float | None:
        heard_s = self._heard_s.get(name)
        return None if heard_s is None else max(now_s - heard_s, 0.0)
