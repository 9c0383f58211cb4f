"""One connection of ssh: a child process, its shell at the other end, and its sockets here.

The connection lives as long as this process: its input is a pipe of ours, and a small shell
that waits at another pipe ends it and removes its sockets, also after a SIGKILL of us.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from unilab_metrics.errors import ExitCode, SshError
from unilab_metrics.subscribe.ssh import command_lines, said, script
from unilab_metrics.subscribe.ssh.command_lines import Forward
from unilab_metrics.subscribe.ssh.report import Listener, Report
from unilab_metrics.subscribe.ssh.target import SshTarget

_MAX_SAID_BYTES = 16 * 1024
MAX_WORDS_BYTES = 1024 * 1024
"""On the error stream, between two reports; more are no words for anybody."""
_READ_BYTES = 64 * 1024
_END_S = 1.0
# Which of them there are is known by name, so nothing else is ever removed.
_JANITOR = """\
while read -r pid; do child=$pid; done
if [ -n "$child" ]; then kill -TERM "$child"; kill -CONT "$child"; sleep 0.2; kill -KILL "$child"; fi
rm -f -- "$1"/ctl "$1"/ctl.* "$1"/*.out "$1"/*.ask
rmdir -- "$1"
"""


def make_place() -> Path:
    """A new private directory for a connection's sockets. Raises ``OSError``."""
    candidates = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")  # noqa: S108 - mkdtemp
    for parent in candidates:
        if parent and command_lines.fits(f"{parent}/um-ssh-12345678"):
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="um-ssh-", dir=parent))
    raise OSError(f"no short directory for ssh's sockets: {', '.join(filter(None, candidates))}")


class Tunnel:
    """Owned by one thread. Nothing here waits but :meth:`close`, for at most a second or two."""

    def __init__(self, target: SshTarget, *, asks: bool) -> None:
        """``asks``: ssh may ask people on the terminal. Raises :class:`SshError`."""
        self.target = target
        self._program = command_lines.ssh_program(os.environ)
        if shutil.which(self._program[0]) is None:
            where = f"{self._program[0]} is not installed here, or not on PATH"
            raise SshError(target.destination, f"{where}; install OpenSSH's client", 1)
        self.place = make_place()
        self._mark = f"um-{secrets.token_hex(12)}"
        self._listener = Listener(self._mark)
        self._said = b""
        self._words_bytes = 0
        self._questions = 0
        """Asked, and not answered yet."""
        self._forwarding: subprocess.Popen[bytes] | None = None
        self._janitor = subprocess.Popen(
            ["/bin/sh", "-c", _JANITOR, "sh", os.fspath(self.place)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd="/", start_new_session=True,
        )  # fmt: skip
        command = command_lines.session_command(
            self._program, target, os.fspath(self.place), asks=asks
        )
        try:
            # Whoever is asked for a password must be in the terminal's foreground; later on
            # nobody may be.
            self._session = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=not asks,
            )  # fmt: skip
        except OSError as error:
            self._dismiss()
            reason = f"{self._program[0]} cannot be started: {error.strerror or error}"
            raise SshError(target.destination, reason, ExitCode.UNEXPECTED) from error
        _tell(self._janitor, f"{self._session.pid}\n".encode())
        for stream in (self._session.stdin, self._session.stdout, self._session.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
        self._ask(script.preamble(self._mark))

    @property
    def exit_status(self) -> int | None:
        """Of ssh; ``None`` while it runs."""
        return self._session.poll()

    @property
    def is_in(self) -> bool:
        """Whether the other machine has let us in, and its shell reads."""
        return self._listener.is_in

    @property
    def said(self) -> str:
        """The newest of what ssh has written to its error stream."""
        return self._said.decode(errors="replace")

    def ask(self, question: bytes) -> None:
        """Have the shell at the other end report, once."""
        self._questions += 1
        self._ask(question)

    def take(self) -> tuple[list[Report], str]:
        """What has come: reports, and new words of ssh. Raises :class:`SshError` if it does not
        end, or answers more than it was asked."""
        new = self._read(self._session.stderr)
        self._said = (self._said + new)[-_MAX_SAID_BYTES:]
        reports = self._listener.take(self._read(self._session.stdout))
        self._words_bytes = len(new) if reports else self._words_bytes + len(new)
        self._questions -= len(reports)
        reason = ""
        if self._listener.is_flooded:
            reason = "the shell there writes without an end"
        elif self._words_bytes > MAX_WORDS_BYTES:
            reason = "the host writes without an end on the error stream"
        elif self._questions < 0:
            reason = "the shell there answers what it was not asked"
        if reason:
            raise SshError(self.target.destination, reason, ExitCode.REFUSED)
        return reports, new.decode(errors="replace")

    def forward(self, forwards: Sequence[Forward]) -> None:
        """Begin to forward more sockets; see :attr:`forwarding`. Raises :class:`SshError`."""
        command = command_lines.forward_command(self._program, os.fspath(self.place), forwards)
        self._end_forwarding()
        try:
            self._forwarding = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            reason = f"its sockets cannot be forwarded: {error}"
            raise SshError(self.target.destination, reason, ExitCode.UNEXPECTED) from error

    def forwarding(self) -> str | None:
        """``None`` while it is being arranged, empty when it stands, else why not."""
        if self._forwarding is None or self._forwarding.poll() is None:
            return None
        if self._forwarding.returncode == 0:
            return ""
        words = self._forwarding.stderr.read() if self._forwarding.stderr else b""
        return said.last_line(words.decode(errors="replace")) or "ssh forwards no sockets"

    def close(self) -> None:
        """End ssh, its shell and its sockets; idempotent."""
        self._end_forwarding()
        _close(self._session.stdin)
        if not _has_ended(self._session, 0.1):
            self._session.terminate()
            # One that was stopped hears nothing else.
            with contextlib.suppress(OSError):
                self._session.send_signal(signal.SIGCONT)
            if not _has_ended(self._session, _END_S):
                self._session.kill()
                self._session.wait()
        _close(self._session.stdout)
        _close(self._session.stderr)
        _tell(self._janitor, b"\n")
        self._dismiss()

    def _dismiss(self) -> None:
        _close(self._janitor.stdin)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._janitor.wait(timeout=2 * _END_S)

    def _end_forwarding(self) -> None:
        if self._forwarding is not None:
            if self._forwarding.poll() is None:
                self._forwarding.kill()
            self._forwarding.wait()
            _close(self._forwarding.stderr)
            self._forwarding = None

    def _ask(self, question: bytes) -> None:
        # What does not fit into the pipe of a connection that stands still is not missed.
        with contextlib.suppress(OSError):
            if self._session.stdin is not None and not self._session.stdin.closed:
                os.write(self._session.stdin.fileno(), question)

    @staticmethod
    def _read(stream: object) -> bytes:
        fd = getattr(stream, "fileno", lambda: -1)()
        with contextlib.suppress(OSError):
            return os.read(fd, _READ_BYTES)
        return b""


def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):
        if process.stdin is not None:
            os.write(process.stdin.fileno(), line)


def _close(stream: object) -> None:
    with contextlib.suppress(OSError):
        close = getattr(stream, "close", None)
        if close is not None:
            close()


def _has_ended(process: subprocess.Popen[bytes], within_s: float) -> bool:
    deadline_s = time.monotonic() + within_s
    while process.poll() is None:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.005)
    return True
