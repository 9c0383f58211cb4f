from __future__ import annotations

import importlib.util
import socket
from pathlib import Path

import pytest

from unilab_metrics.demo import launch
from unilab_metrics.demo.launch import TorchMissingError, rank_environment, run_demo
from unilab_metrics.demo.overrides import OptionError
from unilab_metrics.errors import ExitCode, StorageError


def test_ranks_agree_on_their_world_and_their_run() -> None:
    environ = {"WORLD_SIZE": "64", "MASTER_PORT": "1", "PATH": "/bin"}
    ranks = rank_environment(environ, 3, Path("/logs/run"), 4711)

    assert ranks["WORLD_SIZE"] == "3"
    assert ranks["LOCAL_WORLD_SIZE"] == "3"
    assert ranks["MASTER_ADDR"] == "127.0.0.1"
    assert ranks["MASTER_PORT"] == "4711"
    assert ranks["UNILAB_METRICS_RUN"] == "/logs/run"
    assert ranks["PATH"] == "/bin"


def test_no_outgoing_connection_gets_the_port_at_which_the_ranks_meet() -> None:
    """Else the one that knocks before rank 0 listens is connected to itself once in a while."""
    ports = [launch.free_port() for _ in range(20)]
    assert max(ports) < 32_768
    with socket.socket() as rank_0:
        rank_0.bind((launch.LOOPBACK, ports[0]))


def test_the_users_own_settings_stay() -> None:
    ranks = rank_environment({"GLOO_SOCKET_IFNAME": "eth7"}, 2, Path("/r"), 1)

    assert ranks["GLOO_SOCKET_IFNAME"] == "eth7"
    assert ranks["OMP_NUM_THREADS"] == "1"


def test_bad_options_are_refused_before_a_run_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="--ranks"):
        run_demo(0, None, True, [])
    with pytest.raises(OptionError, match=r"algo\.sed"):
        run_demo(2, None, True, ["algo.sed=1"])

    assert not list(tmp_path.iterdir())


def test_a_missing_torch_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(TorchMissingError, match=r"unilab-metrics\[demo\]") as caught:
        run_demo(2, None, True, [])

    assert caught.value.exit_code == ExitCode.USAGE
    assert not list(tmp_path.iterdir())


def test_a_chosen_run_directory_is_used_as_it_is(tmp_path: Path) -> None:
    chosen = tmp_path / "a" / "b"
    options = launch.options_of("sac", [f"training.log_dir={chosen}"])

    assert launch._run_directory(options) == chosen
    assert chosen.is_dir()


@pytest.mark.parametrize("option", ["log_root", "log_dir"])
def test_a_place_that_cannot_hold_a_run_is_said_in_one_line(option: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="no run directory can be made: Not a dir") as caught:
        run_demo(1, None, True, [f"training.{option}={tmp_path / 'file' / 'x'}"])

    assert caught.value.exit_code == ExitCode.UNEXPECTED
    assert "\n" not in str(caught.value)


def test_a_run_directory_that_holds_a_directory_for_the_console_is_said(tmp_path: Path) -> None:
    (tmp_path / "console.log").mkdir()
    with pytest.raises(StorageError, match=r"console\.log: cannot be written"):
        run_demo(1, None, True, [f"training.log_dir={tmp_path}"])
