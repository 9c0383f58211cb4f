"""``attach HOST:RUN_DIR`` through a real sshd: values, errors, lost connections, sudden ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback_sshd import LoopbackSshd
from pty_terminals import PtyTerminal
from real_runs import start, until
from runs_over_ssh import (
    PATIENCE_S,
    TRAINING,
    attach,
    carriers,
    kill_children,
    places,
    ssh_children,
    watched_run,
)

from unilab_metrics.errors import SshError
from unilab_metrics.run.summary import read_summary
from unilab_metrics.subscribe.ssh.run_over_ssh import RunOverSsh
from unilab_metrics.subscribe.ssh.target import parse_target
from unilab_metrics.subscribe.subscriber import Subscriber

# Each `attach` is a start of Python and one of ssh, and each training three more.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


run_dir = watched_run


def test_one_look_shows_the_run_by_its_path_by_a_jump_and_as_the_newest(
    sshd: LoopbackSshd, run_dir: Path
) -> None:
    for target in (f"box:{run_dir}", f"behind:{run_dir}", f"ssh://box:{sshd.port}{run_dir}"):
        shown = json.loads(attach(target, "--once", "--json"))
        assert shown["run"]["directory"] == str(run_dir)
        assert "42" in json.dumps(shown["metrics"])
    assert "Loss/value 42" in attach("box:", "--once", "--plain")
    until(lambda: places(sshd) == [])


def test_what_does_not_work_is_said_with_an_exit_code(sshd: LoopbackSshd, run_dir: Path) -> None:
    once = f"box:{run_dir}", "--once"
    assert "no such directory" in attach(f"box:{run_dir}x", "--once", status=3)
    sshd.write_config(key="other_key")
    assert "does not let you in" in attach(*once, status=5)
    sshd.write_config("StrictHostKeyChecking yes", known="other_key")
    assert "host key" in attach(*once, status=5)
    sshd.stop()
    sshd.write_config()
    assert "no sshd listens" in attach(*once, status=4)
    os.environ["UNILAB_METRICS_SSH"] = "no-such-ssh"
    assert "no-such-ssh is not installed" in attach(*once, status=1)
    until(lambda: places(sshd) == [])


def test_an_sshd_that_forwards_no_sockets_is_named(sshd: LoopbackSshd, run_dir: Path) -> None:
    sshd.stop()
    with (sshd.folder / "sshd_config").open("a") as file:
        file.write("\nAllowStreamLocalForwarding no\n")
    sshd.start()
    said = attach(f"box:{run_dir}", "--once", status=5)
    assert "AllowStreamLocalForwarding yes" in said


def test_a_run_that_is_over_is_said_to_be(sshd: LoopbackSshd, short_path: Path) -> None:
    (short_path / "stop").touch()
    run_dir = short_path / "over"
    start(TRAINING, str(run_dir), str(short_path / "stop")).communicate(timeout=PATIENCE_S)
    until(lambda: read_summary(run_dir) and not (run_dir / "bus" / "bus.json").exists())
    assert "replay" in attach(f"box:{run_dir}", "--once", status=4)


@pytest.mark.parametrize("fault", ["kill", "stop", "kill sshd", "aggregator"])
def test_a_lost_connection_comes_back_without_a_gap(
    sshd: LoopbackSshd, run_dir: Path, fault: str
) -> None:
    where = RunOverSsh.open(parse_target(f"box:{run_dir}"))
    with Subscriber(where) as subscriber:
        sequences: list[int] = []

        def poll() -> None:
            sequences.extend(record.sequence for record in subscriber.poll(50))

        def follow(until_true: Callable[[], object]) -> None:
            until(lambda: poll() or until_true())

        follow(lambda: len(sequences) > 20)
        (ssh,) = carriers(os.getpid())
        if fault == "kill sshd":
            assert sshd.process is not None
            kill_children(sshd.process.pid)
        elif fault == "aggregator":
            os.kill(json.loads((run_dir / "bus" / "bus.json").read_text())["pid"], signal.SIGKILL)
        else:
            ssh.send_signal(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
        follow(lambda: not subscriber.connected)
        last = sequences[-1]
        follow(lambda: subscriber.connected and sequences[-1] > last + 20)
        assert sequences == list(range(sequences[0], sequences[-1] + 1))
    until(lambda: places(sshd) == [])


def test_a_refused_key_is_said_in_a_running_view(sshd: LoopbackSshd, run_dir: Path) -> None:
    where = RunOverSsh.open(parse_target(f"box:{run_dir}"))
    with Subscriber(where) as subscriber:
        until(lambda: subscriber.poll(50))
        (sshd.folder / "authorized").write_text("")
        (ssh,) = carriers(os.getpid())
        ssh.kill()

        def refused() -> object:
            subscriber.poll(50)
            return subscriber.refusal

        until(refused)
        assert isinstance(subscriber.refusal, SshError)
        assert f"`unilab-metrics attach box:{run_dir}` anew" in str(subscriber.refusal)


def test_nothing_is_left_of_a_screen_that_was_killed(sshd: LoopbackSshd, run_dir: Path) -> None:
    view = PtyTerminal(sys.executable, "-m", "unilab_metrics", "attach", f"box:{run_dir}")
    try:
        # What is shown before there is a connection names the run, with a path of any digits.
        view.until(lambda: view.screen.is_alternate and "iter " in view.screen.text)
        children = ssh_children(view.process.pid)
        assert children
        assert places(sshd)
        view.process.kill()
        view.process.wait()
        until(lambda: not any(one.is_running() for one in children))
        until(lambda: places(sshd) == [])
    finally:
        view.close()
