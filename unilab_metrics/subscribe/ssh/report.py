"""What the other machine answers to the questions of ``script``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

MAX_REPORT_BYTES = 16 * 1024 * 1024
"""Of what has been said without an end; more is no answer of ours."""


class Holder(NamedTuple):
    """A lease's. ``lock``: ``held``, ``free``, ``unknown`` where that cannot be seen, empty where
    there is no lease. ``running``: what the system says of a process with the pid that it
    names, ``None`` if there is none."""

    lock: str = ""
    running: str | None = None


class Spool(NamedTuple):
    """One of the run's processes there: the lease, and how its frames begin."""

    holder: Holder = Holder()
    identity: bytes = b""


class Report(NamedTuple):
    """``boot_id`` and ``host`` of the other machine. ``is_directory``, ``is_file``: what lies at
    the path. ``has_bus``: it holds a run. ``is_denied``: some of it may not be read.
    ``is_odd``: the connection file is a pipe, a device or the like.
    ``connection``, ``summary``, ``settings``: contents of the files, ``None`` where there are none.
    ``aggregator``: of its lease. ``histories``: how each segment of the history begins, if nobody holds
    that and there are few: name and bytes. ``live``: the user's entries of live runs. ``is_alive``: what
    ``script.ask_alive`` asked for.

    ``is_work``: whether ``script.ask_work`` was answered, with ``spools``, ``has_journal``, ``pids``,
    which names the pid namespace, and ``clock``: seconds since 1970, since the start of the
    machine."""

    boot_id: str = ""
    host: str = ""
    is_directory: bool = False
    is_file: bool = False
    has_bus: bool = False
    is_denied: bool = False
    is_odd: bool = False
    connection: bytes | None = None
    summary: bytes | None = None
    settings: bytes | None = None
    aggregator: Holder = Holder()
    histories: tuple[tuple[str, bytes], ...] = ()
    live: tuple[bytes, ...] = ()
    is_alive: bool | None = None
    is_work: bool = False
    spools: tuple[Spool, ...] = ()
    has_journal: bool = False
    pids: str = ""
    clock: str = ""


class Listener:
    """Takes what the other machine writes; whatever its login says before is passed over."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._heard = b""
        self.is_in = False
        """Whether the shell there has begun to read, so that nobody is asked for passwords any
        more."""

    @property
    def is_flooded(self) -> bool:
        """Whether what comes has no end."""
        return len(self._heard) > MAX_REPORT_BYTES

    def take(self, data: bytes) -> list[Report]:
        """The reports that have come whole."""
        self._heard += data
        self.is_in = self.is_in or b"\n" + self._mark + b" in\n" in self._heard
        reports: list[Report] = []
        end = b"\n" + self._mark + b" end\n"
        while True:
            said, found, rest = self._heard.partition(end)
            if not found:
                return reports
            self._heard = rest
            reports.append(_parse(said, self._mark))


def _parse(said: bytes, mark: bytes) -> Report:
    report = Report()
    _, _, said = said.rpartition(b"\n" + mark + b" begin\n")
    for section in (b"\n" + said).split(b"\n" + mark + b" ")[1:]:
        name, _, body = section.partition(b"\n")
        take = _SECTIONS.get(name)
        report = report if take is None else take(report, body)
    return report


def _text(body: bytes) -> str:
    return body.strip().decode(errors="replace")


def _locked(lock: str) -> dict[bytes, Callable[[Report, bytes], Report]]:
    def aggregator(report: Report, _body: bytes) -> Report:
        return report._replace(aggregator=Holder(lock))

    def lease(report: Report, _body: bytes) -> Report:
        return _of_spool(report, lambda spool: spool._replace(holder=Holder(lock)))

    return {b"aggregator " + lock.encode(): aggregator, b"lease " + lock.encode(): lease}


def _of_spool(report: Report, change: Callable[[Spool], Spool]) -> Report:
    """What follows a spool is about the last one."""
    last = report.spools[-1:] or (Spool(),)
    return report._replace(spools=(*report.spools[:-1], change(last[0])))


def _history(report: Report, body: bytes) -> Report:
    name, _, beginning = body.partition(b"\n")
    return report._replace(histories=(*report.histories, (_text(name), beginning)))


def _runs(report: Report, body: bytes) -> Report:
    running = _text(body)
    return _of_spool(
        report, lambda spool: spool._replace(holder=spool.holder._replace(running=running))
    )


_SECTIONS: Mapping[bytes, Callable[[Report, bytes], Report]] = {
    b"boot": lambda report, body: report._replace(boot_id=_text(body)),
    b"host": lambda report, body: report._replace(host=_text(body)),
    b"directory": lambda report, _: report._replace(is_directory=True),
    b"file": lambda report, _: report._replace(is_file=True),
    b"bus": lambda report, _: report._replace(has_bus=True),
    b"denied": lambda report, _: report._replace(is_denied=True),
    b"odd connection": lambda report, _: report._replace(is_odd=True),
    b"connection": lambda report, body: report._replace(connection=body),
    b"summary": lambda report, body: report._replace(summary=body),
    b"settings": lambda report, body: report._replace(settings=body),
    b"history": _history,
    b"alive": lambda report, _: report._replace(is_alive=True),
    b"dead": lambda report, _: report._replace(is_alive=False),
    b"live": lambda report, body: report._replace(live=(*report.live, body)),
    b"work": lambda report, _: report._replace(is_work=True),
    b"pids": lambda report, body: report._replace(pids=_text(body)),
    b"clock": lambda report, body: report._replace(clock=_text(body)),
    b"journal": lambda report, _: report._replace(has_journal=True),
    b"spool": lambda report, _: report._replace(spools=(*report.spools, Spool())),
    b"identity": lambda report, body: _of_spool(report, lambda one: one._replace(identity=body)),
    b"running aggregator": lambda report, body: report._replace(
        aggregator=report.aggregator._replace(running=_text(body))
    ),
    b"running lease": _runs,
    **_locked("held"),
    **_locked("free"),
    **_locked("unknown"),
}
