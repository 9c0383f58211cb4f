"""The launcher: what it starts it ends, what it shows it takes away, and its exit codes."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from pressed_again import interrupt_again

LAUNCHER = """
import subprocess, sys
from pathlib import Path
from unilab_metrics.run.launching.launcher import run_owning_terminal

def start(console):
    return [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=console,
                         stderr=console, start_new_session=True)
        for code in sys.argv[3:]
    ]

sys.exit(run_owning_terminal(start, Path(sys.argv[1]), headless=sys.argv[2] == "headless"))
"""
SLEEPER = "import time; print('started', flush=True); time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('started', flush=True); time.sleep(60)"
)
SLOW_TO_STOP = """
import signal, time
def save(*_):
    time.sleep(0.5); print('saved', flush=True); raise SystemExit
signal.signal(signal.SIGTERM, save)
print('started', flush=True); time.sleep(60)
"""


def command(run_dir: Path, *ranks: str, mode: str = "headless") -> list[str]:
    return [sys.executable, "-c", LAUNCHER, str(run_dir), mode, *ranks]


def run(run_dir: Path, *ranks: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(run_dir, *ranks), capture_output=True, text=True, timeout=60, check=False
    )


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(0.02)


def test_output_of_every_rank_is_in_console_log_and_not_on_the_terminal(run_dir: Path) -> None:
    done = run(run_dir, "print('one')", "print('two')")
    assert done.returncode == 0, done.stderr
    assert set((run_dir / "console.log").read_text().split()) == {"one", "two"}
    assert "one" not in done.stdout.split()
    assert "Run directory" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_failed_rank_is_shown_with_its_last_lines_and_its_code(run_dir: Path) -> None:
    done = run(run_dir, "import sys; print('\\x1b[31mout of memory\\x1b[0m'); sys.exit(3)")
    assert done.returncode == 3
    assert "Rank 0 ended with 3. The last lines of console.log:\nout of memory\n" in done.stdout
    assert "Look again" not in done.stdout, "it has written nothing"
    assert "\x1b" not in done.stdout


def test_a_killed_rank_has_the_shells_code(run_dir: Path) -> None:
    done = run(run_dir, "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 137
    assert "Rank 0 was killed by SIGKILL" in done.stdout


FOLLOWER = "import sys, time; time.sleep(1); sys.exit('connection closed by peer')"


def test_the_rank_that_failed_first_is_named(run_dir: Path) -> None:
    done = run(run_dir, FOLLOWER, "import os; os.kill(os.getpid(), 9)", FOLLOWER)
    assert done.returncode == 137
    assert "Rank 1 was killed by SIGKILL" in done.stdout
    assert "console.log:\nconnection closed by peer\n" in done.stdout
    assert "Rank 0" not in done.stdout


def test_sigint_stops_the_ranks_and_only_then_us(run_dir: Path) -> None:
    with subprocess.Popen(
        command(run_dir, SLEEPER, SLEEPER), stdout=subprocess.PIPE, text=True
    ) as launcher:
        until(lambda: console(run_dir).count("started") == 2)
        launcher.send_signal(signal.SIGINT)
        output, _ = launcher.communicate(timeout=20)
    assert launcher.returncode == 130
    assert "stopping the training" in output
    assert "Rank" not in output, "a stop on request is no failure"


def test_a_second_sigint_kills_what_ignores_the_first(run_dir: Path) -> None:
    with subprocess.Popen(command(run_dir, STUBBORN), stdout=subprocess.PIPE) as launcher:
        until(lambda: "started" in console(run_dir))
        began_s = time.monotonic()
        launcher.send_signal(signal.SIGINT)
        assert launcher.stdout is not None
        assert any(b"stopping the training" in line for line in iter(launcher.stdout.readline, b""))
        interrupt_again(launcher)
        launcher.communicate(timeout=20)
    assert launcher.returncode == 130
    assert time.monotonic() - began_s < 7


def test_sigint_to_the_process_and_to_its_group_at_once_is_one_request(run_dir: Path) -> None:
    """As of `timeout -s INT`."""
    with subprocess.Popen(
        command(run_dir, SLOW_TO_STOP), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as launcher:
        until(lambda: "started" in console(run_dir))
        os.kill(launcher.pid, signal.SIGINT)
        os.killpg(launcher.pid, signal.SIGINT)
        output, _ = launcher.communicate(timeout=20)
    assert launcher.returncode == 130
    assert "Rank" not in output
    assert "saved" in console(run_dir)


def test_sigterm_ends_everything(run_dir: Path) -> None:
    with subprocess.Popen(command(run_dir, SLEEPER), stdout=subprocess.PIPE) as launcher:
        until(lambda: "started" in console(run_dir))
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate(timeout=20)
    assert launcher.returncode == 128 + signal.SIGTERM


def test_a_closed_pipe_does_not_end_the_training(run_dir: Path) -> None:
    marker = run_dir / "done"
    code = f"import time, pathlib; time.sleep(1); pathlib.Path({str(marker)!r}).touch()"
    with subprocess.Popen(
        command(run_dir, code), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.close()
        assert launcher.wait(timeout=30) == 0
        assert launcher.stderr is not None
        assert launcher.stderr.read() == b""
    assert marker.exists()


class Terminal:
    """A pseudo-terminal with the launcher in it."""

    def __init__(self, arguments: list[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", LINES="40", COLUMNS="120")
            os.execv(arguments[0], arguments)
        self.output = ""
        self.before = termios.tcgetattr(self.fd)
        self.status: int | None = None

    def read(self) -> str:
        while select.select([self.fd], [], [], 0.02)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # nobody holds the other end any more
                break
            if not data:
                break
            self.output += data.decode(errors="replace")
        return self.output

    def expect(self, pattern: str, timeout_s: float = 30.0) -> None:
        until(lambda: re.search(pattern, self.read()) is not None, timeout_s)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def wait(self) -> int:
        def ended() -> bool:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            return bool(pid)

        if self.status is None:
            until(ended, 40.0)
        self.read()
        assert self.status is not None
        return self.status

    def close(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGTERM)
            self.wait()
        os.close(self.fd)

    def children(self) -> list[tuple[int, str]]:
        return [
            (child.pid, " ".join(child.cmdline())) for child in psutil.Process(self.pid).children()
        ]


@pytest.fixture
def terminal(run_dir: Path) -> Iterator[Terminal]:
    opened = Terminal(command(run_dir, SLEEPER, mode="terminal"))
    yield opened
    opened.close()


SHOWN = r"\x1b\[\?1049h"
OURS = r"(?<!the )training goes on; Ctrl\+C (again )?stops it"


def test_ctrl_c_in_the_sidecar_closes_it_and_the_next_one_stops_the_training(
    terminal: Terminal, run_dir: Path
) -> None:
    terminal.expect(SHOWN)
    until(lambda: "started" in console(run_dir))
    until(lambda: termios.tcgetattr(terminal.fd) != terminal.before)
    terminal.type(b"\x03")
    terminal.expect(OURS)
    assert any(SLEEPER in line for _, line in terminal.children()), "the training goes on"
    terminal.type(b"\x03")
    assert terminal.wait() == 130
    after = terminal.output.rpartition("\x1b[?1049l")[2]
    assert "training goes on" in after
    assert "Run directory" in after
    assert terminal.output.count("\x1b[?1049l") == terminal.output.count("\x1b[?1049h")


def test_a_killed_sidecar_leaves_a_usable_terminal_and_a_live_training(
    terminal: Terminal,
) -> None:
    terminal.expect(SHOWN)
    until(lambda: termios.tcgetattr(terminal.fd) != terminal.before)
    pid = next(pid for pid, line in terminal.children() if "unilab_sidecar" in line)
    os.kill(pid, signal.SIGKILL)
    terminal.expect(OURS)
    assert termios.tcgetattr(terminal.fd) == terminal.before
    restored = terminal.output[terminal.output.rindex("\x1b[?1049l") :]
    for mode in ("?25h", "?1000l", "?1003l", "?1006l", "?1004l", "?2004l", "?7h", "<u"):
        assert f"\x1b[{mode}" in restored
    assert any(SLEEPER in line for _, line in terminal.children())


def console(run_dir: Path) -> str:
    path = run_dir / "console.log"
    return path.read_text() if path.exists() else ""
