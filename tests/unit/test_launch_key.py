"""Ranks of one launch agree on a key; other launches never have it."""

from __future__ import annotations

from pathlib import Path

from unilab_metrics.run.meeting.launch_key import (
    Node,
    ProcessName,
    alone_key,
    run_key,
    siblings_key,
)

NODE = Node("boot", 1000)
SHELL = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
TORCHRUN = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none"}


def test_local_ranks_of_one_launcher_agree_whatever_their_own_rank() -> None:
    agent = ProcessName(10, "5000")
    keys = {
        siblings_key(NODE, agent, TORCHRUN | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, 2, 0)
        for rank in (0, 1)
    }
    assert len(keys) == 1


def test_every_fact_of_another_launch_changes_the_key() -> None:
    agent = ProcessName(10, "5000")
    keys = [
        siblings_key(NODE, agent, SHELL, 2, 0),
        siblings_key(NODE, ProcessName(10, "5001"), SHELL, 2, 0),
        siblings_key(NODE, agent, SHELL | {"MASTER_PORT": "29501"}, 2, 0),
        siblings_key(NODE, agent, SHELL, 4, 0),
        siblings_key(NODE, agent, SHELL, 2, 1),
        siblings_key(Node("another boot", 1000), agent, SHELL, 2, 0),
        siblings_key(Node("boot", 1001), agent, SHELL, 2, 0),
        siblings_key(NODE, agent, TORCHRUN, 2, 0),
        siblings_key(NODE, ProcessName(11, "5000"), TORCHRUN, 2, 0),
        siblings_key(NODE, agent, TORCHRUN, 2, 1),
        alone_key(NODE, agent, 0),
        alone_key(NODE, agent, 1),
        run_key(NODE, Path("/logs/a")),
        run_key(NODE, Path("/logs/b")),
    ]
    assert len(set(keys)) == len(keys)


def test_a_restart_by_torchrun_may_change_the_port_and_the_world() -> None:
    agent = ProcessName(10, "5000")
    again = TORCHRUN | {"MASTER_PORT": "41234"}
    assert siblings_key(NODE, agent, TORCHRUN, 4, 0) == siblings_key(NODE, agent, again, 2, 0)


def test_a_known_run_directory_is_the_key_over_restarts_and_reboots() -> None:
    assert run_key(NODE, Path("/logs/a")) == run_key(Node("next boot", 1000), Path("/logs/a"))


def test_a_key_is_a_short_folder_name() -> None:
    key = alone_key(NODE, ProcessName(1, "1"), 0)
    assert key.isalnum()
    assert len(key) == 20
