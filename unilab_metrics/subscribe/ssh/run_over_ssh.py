"""A run of another machine as whereabouts: its sockets are forwarded here, over one connection
of ssh that is made anew when it has gone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from unilab_metrics.errors import (
    ConnectionFileError,
    DamagedFileError,
    ExitCode,
    NoLiveRunError,
    SshError,
    UnilabMetricsError,
)
from unilab_metrics.subscribe.ssh import judging, said, script, work
from unilab_metrics.subscribe.ssh.forwarded_sockets import ForwardedSockets
from unilab_metrics.subscribe.ssh.judging import RemoteBus
from unilab_metrics.subscribe.ssh.outage import Outage
from unilab_metrics.subscribe.ssh.report import Report
from unilab_metrics.subscribe.ssh.target import SshTarget
from unilab_metrics.subscribe.ssh.tunnel import Tunnel
from unilab_metrics.subscribe.whereabouts import Contact

if TYPE_CHECKING:
    from typing_extensions import Self

ANSWER_S = 8.0
"""A connection that has answered once and does not for so long is given up."""
CONNECT_S = 40.0
"""So long may a connection take that nobody is asked about."""
FIRST_ANSWER_S = 20.0
"""A shell that has begun to read, and does not answer for so long, hangs: at a disk, say."""
CONTACT_S = 60.0
"""So long may a host that answers take until the run is reached there, before anything is shown."""
_LATE_S = 1.0
_AGAIN_S = 2.0
_UNTOLD_S = 5.0
"""A training that is at work has started an aggregator again by then."""
_GONE_AGAIN_S = 5.0
_STEP_S = 0.02


class RunOverSsh:
    """Owned by one thread, after :meth:`open`. ``problem``: why the connection cannot come back
    without a person; ``None`` while it stands or may come back by itself."""

    bus_dir: Path | None = None
    key_file = Path()

    def __init__(self, target: SshTarget) -> None:
        """Starts nothing; see :meth:`open`."""
        self.target = target
        self.problem: SshError | None = None
        self.summary: bytes | None = None
        """Content of the run's summary as of the last report, if there is one."""
        self.gone: tuple[str, ...] | None = None
        """Who is gone, by name, since nobody there is at work on the run any more."""
        self._named = target
        self._words = said.Words()
        self._tunnel: Tunnel | None = None
        self._bus: RemoteBus | None = None
        self._contact: Contact | None = None
        self._sockets = ForwardedSockets()
        self._has_answered = self._is_in = self._asks = False
        self._asked_s: float | None = None
        self._next_s = 0.0
        self._failures = 0
        self._known_life: tuple[int, int] | None = None
        self._places: tuple[str, ...] | None = ()
        """Of the run's spools; ``None``: nobody knows, and so not who is at work either."""
        self._absence: UnilabMetricsError | None = None
        self._untried: list[str] = []
        self._tried: list[str] = []

    @classmethod
    def open(
        cls, target: SshTarget, *, waits: bool = False, say: Callable[[str], None] = lambda _: None
    ) -> Self:
        """Connect; ssh may ask for passwords and the like on the terminal meanwhile, as long as it
        takes. ``say``: hears what the other side tells people. ``waits``: for the run, if there
        is none yet. Raises :class:`SshError`, and what ``judging.judge`` does."""
        made = cls(target)
        made._asks = True
        until_s = math.inf
        absent: UnilabMetricsError | None = None
        absent_s = 0.0
        try:
            while made._contact is None:
                if made._has_answered and time.monotonic() > until_s:
                    reason = "it answers, and the run cannot be reached through it"
                    raise SshError(target.destination, reason, NoLiveRunError.exit_code)
                until_s = until_s if made._has_answered else time.monotonic() + CONTACT_S
                try:
                    say(made._step())
                except judging.NobodyAnswersError as error:
                    if waits:
                        break
                    # Of a training that is at work the aggregator is started again.
                    absent, absent_s = error, absent_s or time.monotonic()
                    made._miss()
                except (NoLiveRunError, DamagedFileError):
                    if not waits:
                        raise
                    break
                if absent is not None and made.gone is not None:
                    raise absent
                if absent_s and made._places is None and time.monotonic() - absent_s > _UNTOLD_S:
                    raise judging.unread_settings(made._named)
                time.sleep(_STEP_S)
        except BaseException:
            made.close()
            raise
        made._asks = False
        return made

    def look(self, *, asks: bool = True) -> Contact | None:
        """Where the run's sockets are here; asked whenever nothing is heard. Does not wait for
        the other machine. ``asks``: it, whether they are still the same."""
        if asks and self._contact is not None and self._asked_s is None:
            self._ask()
        try:
            self._step()
        except UnilabMetricsError as error:
            if isinstance(error, SshError) and error is not self._absence:
                self._fail(error)
            else:
                self._miss()
        return self._contact

    def outage(self) -> Outage | None:
        """Why nothing can be heard now; ``None`` while the host answers."""
        host, now_s = self.target.destination, time.monotonic()
        if self._tunnel is None:
            return Outage(host, max(self._next_s - now_s, 0.0))
        if not self._has_answered:
            return Outage(host)
        is_late = self._asked_s is not None and now_s - self._asked_s > _LATE_S
        return Outage(host, is_open=True) if is_late else None

    def was_silent(self, contact: Contact) -> None:
        """What :meth:`look` asks for tells more."""

    def close(self) -> None:
        """End the connection and remove its sockets; idempotent."""
        self._sockets.close()
        tunnel, self._tunnel = self._tunnel, None
        self._contact = self._bus = None
        if tunnel is not None:
            tunnel.close()

    def _miss(self) -> None:
        """The machine answers, and no aggregator of the run is on it, for now."""
        self._sockets.close()
        self._contact = self._bus = None
        pause_s = _AGAIN_S if self.gone is None else _GONE_AGAIN_S
        self._next_s = time.monotonic() + pause_s
        if self._tunnel is not None and self._named.path:
            self._tunnel.ask(script.ask_work(self._named.path, self._places or ()))
            self._asked_s = time.monotonic()

    def _step(self) -> str:
        """One step on the way to a contact; what ssh has said to people."""
        now_s = time.monotonic()
        if self._tunnel is None:
            if now_s >= self._next_s:
                self._connect()
            return ""
        reports, words = self._tunnel.take()
        for one in reports:
            self._asked_s, self._has_answered, self.problem = None, True, None
            self._take(one)
        if self._tunnel.is_in and not self._is_in:
            # Until now people may have been asked for a password, as long as it took them.
            self._is_in = True
            self._asked_s = None if self._asked_s is None else now_s
        self._check(self._tunnel, now_s)
        if self._sockets.is_open and self._bus is not None:
            self._look_at_sockets(self._tunnel, self._bus, now_s)
        elif self._contact is None and self._asked_s is None and now_s >= self._next_s:
            self._ask()
        return self._words.take(words)

    def _connect(self) -> None:
        self._has_answered = self._is_in = False
        try:
            self._tunnel = Tunnel(self.target, asks=self._asks)
        except OSError as error:
            raise self._no_connection(error) from error
        self._ask()

    def _ask(self) -> None:
        if self._tunnel is None:
            return
        path = self._named.path
        self._tunnel.ask(script.ask_run(path) if path else script.ask_live())
        self._asked_s = time.monotonic()

    def _check(self, tunnel: Tunnel, now_s: float) -> None:
        """Raises :class:`SshError` if the connection is of no use any more."""
        host = self.target.destination
        if tunnel.exit_status is not None:
            # Its last words may have come after the first look.
            tunnel.take()
            understood = said.understand(tunnel.said, tunnel.exit_status)
            again = str(self.target) if understood.asks and not self._asks else ""
            error = said.error(host, understood, again=again)
            self.problem = error if again else None
            raise error
        waited_s = 0.0 if self._asked_s is None else now_s - self._asked_s
        text, within_s = "no connection", math.inf if self._asks else CONNECT_S
        if self._has_answered:
            text, within_s = "the host does not answer any more", ANSWER_S
        elif self._is_in:
            text, within_s = "it lets you in, and its shell does not answer", FIRST_ANSWER_S
        if waited_s > within_s:
            raise SshError(host, text, NoLiveRunError.exit_code)

    def _take(self, answer: Report) -> None:
        """As :meth:`_heed`, whatever another machine writes."""
        try:
            self._heed(answer)
        except UnilabMetricsError:
            raise
        except OSError as error:
            raise self._no_connection(error) from error
        except Exception as error:
            text = f"what the host tells cannot be used: {error}"
            raise ConnectionFileError(str(self._named), text, ExitCode.DAMAGED) from error

    def _no_connection(self, error: OSError) -> SshError:
        reason = f"no connection: {error.strerror or error}"
        return SshError(self.target.destination, reason, ExitCode.UNEXPECTED)

    def _heed(self, answer: Report) -> None:
        """Raises as ``judging.judge`` does."""
        if answer.is_work:
            self.summary = answer.summary
            is_over = self._contact is None and self._bus is None and self._places is not None
            self.gone = work.who_is_gone(answer, self._known_life) if is_over else None
            return
        if answer.is_alive is not None:
            if answer.is_alive and self._contact is not None:
                return
            self._bus = None
            if answer.is_alive:
                raise said.error(self.target.destination, said.NO_FORWARDING)
            if not self._try_next():
                raise judging.nobody_answers(self._named)
            return
        if not self._named.path:
            self._untried = judging.live_paths(answer)
            self._try_next()
            return
        self.summary, self._places = answer.summary, work.places(answer.settings)
        try:
            bus = judging.judge(self._named, answer)
        except UnilabMetricsError as error:
            if self._try_next():
                return
            self._absence = error
            raise
        if bus != self._bus:
            self._bus, self._contact = bus, None
            self._arrange()
        elif self._contact is not None and self._tunnel is not None:
            # The file of one that was killed stays as it is.
            if answer.aggregator.lock == "free":
                raise judging.nobody_answers(self._named)
            if answer.aggregator.lock != "held":
                self._tunnel.ask(script.ask_alive(bus.life[0], bus.fetch))
                self._asked_s = time.monotonic()

    def _try_next(self) -> bool:
        """Whether there is another one of the live runs to look at. Raises :class:`NoLiveRunError`
        when none of them is left."""
        if self.target.path or self._contact is not None:
            return False
        if self._named.path:
            self._tried.append(self._named.path)
        if self._untried:
            self._named = self.target._replace(path=self._untried.pop(0))
            self._ask()
            return True
        tried, self._tried, self._named = self._tried, [], self.target
        raise judging.no_live_run(self.target, tried)

    def _arrange(self) -> None:
        if self._tunnel is not None and self._bus is not None:
            self._sockets.begin(self._tunnel, self._bus)

    def _look_at_sockets(self, tunnel: Tunnel, bus: RemoteBus, now_s: float) -> None:
        try:
            route = self._sockets.step(tunnel)
        except OSError as error:
            raise self._no_connection(error) from error
        if route is not None:
            self._contact = Contact(route, bus.life)
            self._known_life, self.gone = bus.life, None
            self._failures = 0
        elif self._sockets.is_refused:
            # ssh says the same of a socket that is dead and of one that it may not reach.
            tunnel.ask(script.ask_alive(bus.life[0], bus.fetch))
            self._asked_s = now_s

    def _fail(self, error: SshError) -> None:
        self.close()
        self._asked_s = None
        self._failures += 1
        pause_s = said.LONGEST_PAUSE_S if self.problem is error else said.pause_s(self._failures)
        self._next_s = time.monotonic() + pause_s
