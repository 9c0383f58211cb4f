"""The screen of a run of another machine: lost connections, secrets, several views, the console."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from headless_browser import browsing, chromium
from loopback_sshd import LoopbackSshd
from pty_terminals import PtyTerminal
from real_runs import until
from runs_over_ssh import attach, carriers, cut, places, training_below, watched_run

pytestmark = pytest.mark.slow

SAYING = """
import sys, time
from pathlib import Path
import unilab_metrics as um

stop = Path(sys.argv[2])
with um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1]) as publisher:
    Path(sys.argv[1], "console.log").write_text("said by the training\\n")
    for iteration in range(40):
        publisher.log({"Loss/value": 1.0 + iteration, "Loss/policy": -0.125}, iteration=iteration)
    while not stop.exists():
        time.sleep(0.05)
"""
SECRET = "open sesame"


run_dir = watched_run


def view(target: object) -> PtyTerminal:
    return PtyTerminal(sys.executable, "-m", "unilab_metrics", "attach", str(target))


def iteration(terminal: PtyTerminal) -> int:
    found = re.search(r"iter ([\d,]+)", terminal.screen.text)
    return int(found[1].replace(",", "")) if found else -1


def test_a_screen_says_that_the_connection_is_lost_and_goes_on_by_itself(
    sshd: LoopbackSshd, run_dir: Path
) -> None:
    with training_screen(f"box:{run_dir}") as terminal:
        before = iteration(terminal)
        sshd.stop()
        cut(terminal.process.pid)
        terminal.until(lambda: re.search(r"no connection to box for \d", terminal.screen.text))
        ages: set[str] = set()

        def is_older() -> bool:
            found = re.search(r"to box for ([\d.]+) s, next try in \d+ s", terminal.screen.text)
            ages.update([found[1]] if found else [])
            return len(ages) > 2

        terminal.until(is_older)
        assert "● " not in terminal.screen.lines[1][:6]
        sshd.start()
        terminal.until_shown("● training")
        terminal.until(lambda: iteration(terminal) > before + 20)
    until(lambda: places(sshd) == [])


def training_screen(target: str) -> PtyScreen:
    return PtyScreen(view(target))


class PtyScreen:
    """A view with values on it, which ends with ``q``."""

    def __init__(self, terminal: PtyTerminal) -> None:
        self._terminal = terminal

    def __enter__(self) -> PtyTerminal:
        self._terminal.until(lambda: iteration(self._terminal) >= 0)
        return self._terminal

    def __exit__(self, *exception: object) -> None:
        try:
            if exception[0] is None:
                self._terminal.type("q")
                assert self._terminal.wait() == 0
        finally:
            self._terminal.close()


def test_a_passphrase_is_asked_for_once_and_a_reconnect_that_needs_it_says_so(
    sshd: LoopbackSshd, run_dir: Path
) -> None:
    encrypt(sshd.folder / "user_key")
    terminal = view(f"box:{run_dir}")
    try:
        terminal.until_shown("Enter passphrase")
        assert not terminal.screen.is_alternate
        terminal.type(f"{SECRET}\r")
        terminal.until(lambda: iteration(terminal) >= 0)
        assert SECRET not in terminal.screen.text
        cut(terminal.process.pid)
        terminal.until_shown("box asks for a password, code or key")
        terminal.until(
            lambda: re.search(r"tried again in\s+\d+ s", terminal.screen.text.replace("│", " "))
        )
        terminal.type("q")
        assert terminal.wait() == 0
    finally:
        terminal.close()


def test_what_the_host_says_is_shown_before_the_screen(sshd: LoopbackSshd, run_dir: Path) -> None:
    sshd.stop()
    (sshd.folder / "banner").write_text("Only for those who train.\n")
    with (sshd.folder / "sshd_config").open("a") as file:
        file.write(f"\nBanner {sshd.folder}/banner\n")
    sshd.start()
    with training_screen(f"box:{run_dir}") as terminal:
        before, _, _ = terminal.screen.written.partition(b"\x1b[?1049h")
        assert b"Only for those who train." in before


def test_several_views_show_what_a_local_one_shows(sshd: LoopbackSshd, short_path: Path) -> None:
    with training_below(short_path, SAYING) as run_dir:
        near = view(run_dir)
        far = [view(f"box:{run_dir}") for _ in range(2)]
        try:
            for one in (near, *far):
                one.until_shown("iter 39")
                one.until_shown("-0.125")

            def figures(terminal: PtyTerminal) -> list[str]:
                terminal.read()
                return re.findall(r"(?:Value|Policy)\s+-?[\d.]+", terminal.screen.text)

            near.until(lambda: all(figures(one) == figures(near) != [] for one in far))
            for one in far:
                one.type("4")
                one.until_shown("said by the training")
                one.type("q")
                assert one.wait() == 0
            near.type("q")
            assert near.wait() == 0
        finally:
            for one in (near, *far):
                one.close()
        options = ("--once", "--plain")
        lines = [
            [line.split()[:2] for line in attach(where, *options).splitlines()]
            for where in (str(run_dir), f"box:{run_dir}")
        ]
        assert (
            [one for one in lines[0] if one[0].startswith("Loss/")]
            == [one for one in lines[1] if one[0].startswith("Loss/")]
            != []
        )
    until(lambda: places(sshd) == [])


def test_lines_come_over_ssh_until_nobody_reads_them(sshd: LoopbackSshd, run_dir: Path) -> None:
    command = [sys.executable, "-m", "unilab_metrics", "attach", f"box:{run_dir}"]
    lines = subprocess.Popen(
        [*command, "--lines", "--interval", "0.2"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert lines.stdout is not None
    assert lines.stderr is not None
    with lines.stdout, lines.stderr:
        iterations: list[int] = []
        # Of a training that had no time to go on there may be two lines of one iteration.
        while len(set(iterations)) < 3:
            iterations.append(int(lines.stdout.readline().split()[1]))
        assert iterations == sorted(iterations)
        lines.stdout.close()
        assert lines.wait(60) == 0
    until(lambda: places(sshd) == [])


def test_tabs_of_a_browser_share_one_connection_that_was_let_in_on_the_terminal(
    sshd: LoopbackSshd, run_dir: Path, tmp_path: Path
) -> None:
    chromium()
    key = sshd.folder / "user_key"
    encrypt(key)
    terminal = PtyTerminal(
        sys.executable, "-m", "unilab_metrics", "serve", f"box:{run_dir}", columns=200
    )
    try:
        terminal.until_shown("Enter passphrase")
        terminal.type(f"{SECRET}\r")
        terminal.until_shown("token=")
        (url,) = re.findall(r"http://\S+", terminal.screen.text)
        encrypt(key, undo=True)
        with browsing(tmp_path / "profile") as browser:
            pages = [browser.page() for _ in range(2)]
            for page in pages:
                page.open(url)
                page.until_shown("42")
            connections = carriers(terminal.process.pid)
            assert len(connections) == 1
            sshd.stop()
            connections[0].kill()
            for page in pages:
                page.until_shown("no connection to box")
            sshd.start()
            for page in pages:
                page.until_shown("● training")
            left = psutil.Process(terminal.process.pid).children(recursive=True)
            assert len(left) > 2
            terminal.type("\x03")
            assert terminal.wait() == 130
            until(lambda: not any(one.is_running() for one in left))
    finally:
        terminal.close()
    until(lambda: places(sshd) == [])


def encrypt(key: Path, *, undo: bool = False) -> None:
    old, new = (SECRET, "") if undo else ("", SECRET)
    command = ["ssh-keygen", "-q", "-p", "-P", old, "-N", new, "-f", str(key)]
    subprocess.run(command, check=True, timeout=20, stdout=subprocess.DEVNULL)
