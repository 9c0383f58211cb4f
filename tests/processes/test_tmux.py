"""Trainings and their sidecars in tmux: detached, attached in another size, killed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from case_runs import kill_processes, processes
from pty_terminals import PtyTerminal, command_line
from real_runs import until
from shell_trainings import ShellTraining
from tmux_terminal import Tmux

SHELL = "PS1='READY>' exec bash --norc --noprofile --noediting -i"
MOUSE = b"\x1b[M" + bytes((32, 0xE8, 0x9F))
"""A report of a click in column 200, as the oldest kind of mouse sends it: no valid UTF-8."""
OFF = {"alternate_on": "0", "mouse_any_flag": "0", "cursor_flag": "1", "wrap_flag": "1"}


@pytest.fixture
def training(tmp_path: Path) -> Iterator[ShellTraining]:
    yield ShellTraining(tmp_path / "run")
    kill_processes()


@pytest.fixture
def tmux(short_path: Path) -> Iterator[Tmux]:
    server = Tmux(short_path, SHELL)
    yield server
    server.kill_server()


@pytest.fixture
def window(tmux: Tmux) -> Iterator[Callable[[int, int], PtyTerminal]]:
    opened: list[PtyTerminal] = []

    def attach(columns: int, rows: int) -> PtyTerminal:
        opened.append(tmux.attach(columns, rows))
        return opened[-1]

    yield attach
    for client in opened:
        client.close()


def assert_painted(client: PtyTerminal) -> None:
    """The frame fills what tmux's own line leaves, and is whole."""

    def is_whole() -> bool:
        lines = client.screen.lines[:-1]
        return (
            lines[0].startswith("╭")
            and lines[-1].startswith("╰")
            and all(line[:1] == line[-1:] == "│" for line in lines[1:-1])
            and {len(line) for line in lines} == {client.screen.columns}
        )

    client.until(is_whole)
    client.until_shown("● training")


def modes(tmux: Tmux) -> dict[str, str]:
    return {name: tmux.state(name) for name in OFF}


@pytest.mark.slow
def test_a_training_with_its_sidecar_in_tmux(
    training: ShellTraining, tmux: Tmux, window: Callable[[int, int], PtyTerminal]
) -> None:
    tmux.enter(training.launched)
    tmux.until_shown("● training")
    for columns, rows in ((100, 30), (72, 24), (150, 45)):
        client = window(columns, rows)
        assert_painted(client)
        if columns == 72:
            client.hang_up()
        else:
            tmux.detach()
        until(lambda client=client: client.process.poll() is not None)
        so_far = training.iterations()
        until(lambda so_far=so_far: training.iterations() > so_far)
    tmux.type_bytes(MOUSE)
    client = window(90, 30)
    assert_painted(client)
    (sidecar,) = processes("unilab_sidecar")
    sidecar.kill()
    tmux.until_shown("training goes on; Ctrl+C stops it")
    assert modes(tmux) == OFF
    # The window is gone, and with it the launcher's terminal.
    tmux.kill_pane()
    expect_kept(training)


def expect_kept(training: ShellTraining) -> None:
    until(lambda: not processes("-c"), 60.0)
    training.assert_kept()


@pytest.mark.slow
def test_attach_in_tmux_and_the_end_of_the_server(
    training: ShellTraining, tmux: Tmux, window: Callable[[int, int], PtyTerminal]
) -> None:
    tmux.enter(training.alone + " &")
    until(lambda: training.iterations() > 10, 60.0)
    attach = command_line([sys.executable, "-m", "unilab_metrics", "attach", str(training.run_dir)])
    tmux.enter(attach)
    tmux.until_shown("● training")
    for columns, rows in ((120, 40), (72, 24), (120, 40)):
        client = window(columns, rows)
        assert_painted(client)
        tmux.detach()
        until(lambda client=client: client.process.poll() is not None)
    tmux.type_bytes(MOUSE)
    tmux.type("C-z")
    tmux.until_shown("Stopped")
    assert modes(tmux) == OFF
    tmux.enter("fg")
    tmux.until(lambda: tmux.state("alternate_on") == "1")
    assert_painted(window(100, 30))
    (sidecar,) = processes("unilab_sidecar")
    tmux.kill_server()
    until(lambda: not psutil.pid_exists(sidecar.pid))
    expect_kept(training)
