"""What a real training prints, in a viewer at its address and on the launcher's own screen."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from case_runs import aggregator_pid, ended, finish, kill_processes, start
from pty_terminals import PtyTerminal
from real_runs import until

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport import keys, rendezvous
from unilab_metrics.transport.allow_list import WATCH
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.requests import Console, ConsolePiece

pytestmark = pytest.mark.slow

TRAINING = """
import sys
import unilab_metrics as um

publisher = um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1], bind="tcp://127.0.0.1")
publisher.log({"Loss/value": 1.0}, iteration=0)
print("logged", flush=True)
sys.stdin.readline()
assert publisher.close(), publisher.errors
"""

PRINTING = """
import sys, time
from pathlib import Path
import unilab_metrics as um

stop = Path(sys.argv[2])
with um.init(algorithm="ppo", task="Toy", run_dir=sys.argv[1]) as publisher:
    for n in range(300):
        print(f"\\033[32mprinted {n:03d}\\033[0m")
    iteration = 0
    while not stop.exists():
        publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
        print(f"\\rbar {iteration}% |####", end="", flush=True)
        iteration += 1
        time.sleep(0.02)
    print()
"""


def answer(viewer: Subscriber, asked: Console) -> ConsolePiece:
    found: list[ConsolePiece | NoAnswer] = []

    def is_there() -> bool:
        viewer.poll(20)
        reply = viewer.console(asked)
        found.extend([reply] if reply is not None else [])
        return bool(found)

    until(is_there)
    assert isinstance(found[0], ConsolePiece), found
    return found[0]


def test_an_address_tells_the_same_as_the_files(run_dir: Path) -> None:
    training = start(TRAINING, run_dir)
    try:
        assert training.stdout is not None
        assert training.stdout.readline() == "logged\n"
        aggregator_pid(run_dir)
        endpoint = rendezvous.read(bus_directory(run_dir)).tcp_announce
        key_file = keys.key_path(bus_directory(run_dir), WATCH)
        log = run_dir / "console.log"
        with (
            Subscriber.attach_remote(endpoint, key_file) as far,
            Subscriber.attach(run_dir) as near,
        ):
            until(lambda: far.poll(20) is not None and far.connected)
            assert answer(far, Console(0)).file == ""
            log.write_bytes(b"line\n" * 50_000)
            for asked in (Console(0), Console(0, most_bytes=100)):
                told = answer(far, asked)
                assert told.data
                assert (told.file, told.offset, told.data) == _place(answer(near, asked))
            log.rename(run_dir / "console.log.1")
            log.write_bytes(b"newer\n")
            following = Console(0, told.file, told.offset + len(told.data))
            assert answer(far, following).data == b"newer\n"
            back = Console(0, told.file, told.offset, True, 50)
            assert answer(far, back).data == b"line\n" * 10
            log.unlink()
            log.symlink_to(key_file)
            refused = answer(far, Console(0))
            assert refused.data == b""
            assert refused.problem
            log.unlink()
        finish(training, say="\n")
        assert ended(run_dir).dropped_calls == {}
    finally:
        if training.poll() is None:
            training.kill()
        training.communicate()


def _place(piece: ConsolePiece) -> tuple[str, int, bytes]:
    return piece.file, piece.offset, piece.data


def printed(terminal: PtyTerminal) -> list[int]:
    """The numbers of those lines of :data:`PRINTING` that are on the screen."""
    return [int(number) for number in re.findall(r"printed (\d{3})", terminal.screen.text)]


@pytest.fixture
def stop(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "stop"
    kill_processes()


def test_the_launchers_screen_shows_and_scrolls_what_is_printed(tmp_path: Path, stop: Path) -> None:
    launcher = [sys.executable, "-m", "unilab_metrics", "run", "--"]
    training = [sys.executable, "-c", PRINTING, str(tmp_path / "run"), str(stop)]
    terminal = PtyTerminal(*launcher, *training)
    try:
        terminal.until(lambda: terminal.screen.is_alternate and terminal.is_raw())
        terminal.until_shown("iter ")
        terminal.type("4")
        terminal.until_shown("printed 299")
        terminal.until_shown("bar ")
        (bar,) = [one for one in terminal.screen.lines if "bar " in one]
        assert bar.count("bar") == 1
        terminal.until(lambda: bar not in terminal.screen.lines)
        terminal.type("\r")
        terminal.type("\x1b[H")
        # All of the first lines, which may come to the terminal in several pieces.
        terminal.until(lambda: printed(terminal) == list(range(len(printed(terminal)))) != [])
        place = printed(terminal)
        ends_s = time.monotonic() + 1.5
        terminal.until(lambda: time.monotonic() > ends_s)
        assert printed(terminal) == place
        terminal.type("/299")
        terminal.until_shown("printed 299")
        stop.touch()
        terminal.type("\x1bq")
        assert terminal.wait() == 0
    finally:
        stop.touch()
        terminal.close()
