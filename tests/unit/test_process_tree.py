"""Who belongs to a command, by a table of processes on paper."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from unilab_metrics.run.launching import process_tree
from unilab_metrics.run.launching.process_tree import ProcessTree

LEADER = 10


class Table:
    """Of all processes of a machine. Kills are noted, and end whoever is not ``deaf``."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.fields: dict[int, list[str]] = {}
        self.killed: list[int] = []
        self.opened: dict[int, int] = {}
        self.deaf: set[int] = set()
        self.environments: dict[int, bytes] = {}
        patch.setattr(
            process_tree,
            "Path",
            lambda path: SimpleNamespace(
                read_bytes=lambda: self._environment(int(path.split("/")[2]))
            ),
        )
        patch.setattr(process_tree, "stat_fields", lambda pid: self.fields.get(pid, []))
        self.system = SimpleNamespace(
            listdir=lambda _path: ["self", *map(str, self.fields)],
            pidfd_open=self.open,
            close=self.opened.pop,
        )
        patch.setattr(process_tree, "os", self.system)
        told = SimpleNamespace(pidfd_send_signal=self._send, SIGKILL=signal.SIGKILL)
        patch.setattr(process_tree, "signal", told)

    def start(self, pid: int, parent: int, session: int, began: int = 1, state: str = "S") -> None:
        fields = ["0"] * 20
        fields[0], fields[1], fields[3], fields[19] = state, str(parent), str(session), str(began)
        self.fields[pid] = fields

    def _environment(self, pid: int) -> bytes:
        if pid not in self.environments:
            raise PermissionError
        return self.environments[pid]

    def end(self, pid: int) -> None:
        del self.fields[pid]
        for fields in self.fields.values():
            fields[1] = "1" if fields[1] == str(pid) else fields[1]

    def open(self, pid: int) -> int:
        if pid not in self.fields:
            raise ProcessLookupError
        self.opened[1000 + pid] = pid
        return 1000 + pid

    def _send(self, fd: int, number: int) -> None:
        assert number == signal.SIGKILL
        self.killed.append(self.opened[fd])
        if self.opened[fd] not in self.deaf:
            self.end(self.opened[fd])


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    made = Table(monkeypatch)
    made.start(1, 0, 1)
    made.start(LEADER, 5, LEADER)
    yield made
    assert made.opened == {}


def test_descendants_belong_to_it_in_whatever_session_and_others_do_not(table: Table) -> None:
    table.start(11, LEADER, LEADER)
    table.start(12, 11, 12)
    table.start(13, 12, 12)
    table.start(20, 1, 20)
    assert ProcessTree(LEADER).living() == [10, 11, 12, 13]


def test_whom_it_spares_keeps_its_children_too(table: Table) -> None:
    table.start(11, LEADER, LEADER)
    table.start(12, 11, 12)
    assert ProcessTree(LEADER).living([11]) == [10]


def test_who_was_seen_before_its_parent_ended_still_belongs_to_it(table: Table) -> None:
    table.start(11, LEADER, 11)
    table.start(12, 11, 11)
    tree = ProcessTree(LEADER)
    assert tree.living() == [10, 11, 12]
    table.end(LEADER)
    table.end(11)
    assert tree.living() == [12]


def test_who_is_in_its_session_belongs_to_it_though_nobody_saw_whose_child_it_was(
    table: Table,
) -> None:
    tree = ProcessTree(LEADER)
    table.start(11, LEADER, LEADER)
    table.end(LEADER)
    assert tree.living() == [11]


def test_a_pid_that_another_process_has_by_now_is_nobody_of_ours(table: Table) -> None:
    table.start(11, LEADER, 11)
    tree = ProcessTree(LEADER)
    assert tree.living() == [10, 11]
    table.end(LEADER)
    table.end(11)
    table.start(11, 1, 11, began=2)
    assert tree.living() == []
    # Nor is a session that somebody else leads by now.
    table.start(LEADER, 1, LEADER, began=3)
    table.start(30, LEADER, LEADER, began=3)
    assert tree.living() == []


def test_a_daemon_belongs_to_it_that_has_its_mark_and_nobody_else_does(table: Table) -> None:
    tree = ProcessTree(LEADER)
    for pid in (30, 31, 32, 33):
        table.start(pid, 1, pid)
    table.start(34, 30, 30)
    mark = b"PLACE=/a"
    table.environments = {30: b"X=1\0PLACE=/a\0", 31: b"PLACE=/a/b\0", 32: b"APLACE=/a\0"}
    for pid in (30, 31, 32, 33, 99):
        tree.adopt(pid, mark)
    assert tree.living() == [10, 30, 34]
    table.end(30)
    table.start(30, 1, 30, began=2)
    assert tree.living() == [10, 34]
    tree.kill()
    assert sorted(table.killed) == [10, 34]


def test_who_gets_the_pid_of_a_daemon_while_it_is_examined_is_not_taken_in(table: Table) -> None:
    tree = ProcessTree(LEADER)
    table.start(30, 1, 30)

    def read(pid: int) -> bytes:
        table.start(pid, 1, pid, began=2)
        return b"PLACE=/a"

    table._environment = read
    tree.adopt(30, b"PLACE=/a")
    assert tree.living() == [10]


@pytest.mark.parametrize("state", ["Z", "X"])
def test_who_has_ended_does_not_live_and_its_children_do(table: Table, state: str) -> None:
    table.start(11, LEADER, 11, state=state)
    table.start(12, 11, 11)
    assert ProcessTree(LEADER).living() == [10, 12]


def test_all_are_killed_also_who_is_started_meanwhile(table: Table) -> None:
    table.start(11, LEADER, 11)
    table.start(12, 11, 12)
    table.start(20, 1, 20)
    tree = ProcessTree(LEADER)
    tree.kill([12])
    assert sorted(table.killed) == [10, 11]
    assert sorted(table.fields) == [1, 12, 20]
    table.deaf = {40}
    table.start(40, 1, 40)
    other = ProcessTree(40)
    other.kill()
    assert 2 <= table.killed.count(40) <= 10, "it is not tried for ever"


def test_nobody_is_killed_who_got_the_pid_a_moment_ago(table: Table) -> None:
    tree = ProcessTree(LEADER)

    def replaced(pid: int) -> int:
        fd = table.open(pid)
        table.start(pid, 1, pid, began=99)
        return fd

    table.system.pidfd_open = replaced
    tree.kill()
    assert table.killed == []
