"""A lease says that its process lives: over kill, stop, fork, and a second descriptor."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from unilab_metrics.errors import ExitCode, LeaseHeldError
from unilab_metrics.storage.lease import Lease, is_free, owner_pid, read_owner, take

_HOLDER = """
import os, sys
from pathlib import Path
from unilab_metrics.storage.lease import Lease
lease = Lease.create(Path(sys.argv[1]), sys.argv[2], b"holder")
print("held", flush=True)
sys.stdin.readline()
lease.release()
print("released", flush=True)
sys.stdin.readline()
"""


class Holder:
    """Another process that holds ``path``."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(path.parent), path.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._line() == "held"

    def release(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self._line() == "released"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aggregator.lease"


@pytest.fixture
def holder(path: Path) -> Iterator[Holder]:
    made = Holder(path)
    yield made
    made.kill()


def test_a_missing_lease_is_free_and_cannot_be_taken(path: Path):
    assert is_free(path)
    assert is_free(path / "below" / "nothing")
    assert take(path) is None
    assert read_owner(path) is None


def test_a_lease_of_another_process_names_its_owner(path: Path, holder: Holder):
    assert not is_free(path)
    assert owner_pid(path) == holder.process.pid
    assert read_owner(path) == b"holder"
    assert take(path) is None
    with pytest.raises(LeaseHeldError) as caught:
        Lease.create(path.parent, path.name, b"second")
    assert caught.value.pid == holder.process.pid
    assert caught.value.exit_code == ExitCode.REFUSED
    assert str(holder.process.pid) in str(caught.value)
    assert read_owner(path) == b"holder"


def test_nothing_else_is_left_beside_a_refused_lease(path: Path, holder: Holder):
    with pytest.raises(LeaseHeldError):
        Lease.create(path.parent, path.name, b"second")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_sigkill_frees_it_and_who_takes_it_holds_it(path: Path, holder: Holder):
    holder.kill()
    assert is_free(path)
    assert read_owner(path) == b"holder"
    lease = take(path)
    assert lease is not None
    assert lease.payload == b"holder"
    assert not is_free(path)
    lease.release()
    assert not path.exists()


def test_a_stopped_owner_keeps_it(path: Path, holder: Holder):
    holder.process.send_signal(signal.SIGSTOP)
    try:
        assert owner_pid(path) == holder.process.pid
        assert take(path) is None
    finally:
        holder.process.send_signal(signal.SIGCONT)


def test_release_removes_the_file(path: Path, holder: Holder):
    holder.release()
    assert is_free(path)
    assert not path.exists()


def test_a_dead_owners_lease_is_taken_over_by_create(path: Path, holder: Holder):
    holder.kill()
    lease = Lease.create(path.parent, path.name, b"new")
    assert read_owner(path) == b"new"
    lease.release(unlink=False)
    assert path.read_bytes() == b"new"
    assert is_free(path)


def test_asking_in_the_owners_process_does_not_free_it(path: Path):
    lease = Lease.create(path.parent, path.name, b"mine")
    try:
        for _ in range(3):
            assert not is_free(path)
            assert owner_pid(path) == os.getpid()
            assert read_owner(path) == b"mine"
            assert take(path) is None
            with pytest.raises(LeaseHeldError):
                Lease.create(path.parent, path.name, b"again")
        assert _asked_elsewhere(path) == os.getpid()
    finally:
        lease.release()


def test_asking_by_another_name_does_not_free_it_either(path: Path, tmp_path: Path):
    lease = Lease.create(path.parent, path.name, b"mine")
    try:
        (tmp_path / "also").hardlink_to(path)
        other = tmp_path / "dir" / ".." / path.name
        (tmp_path / "dir").mkdir()
        for name in (tmp_path / "also", other):
            assert owner_pid(name) == os.getpid()
            assert read_owner(name) == b"mine"
        assert _asked_elsewhere(path) == os.getpid()
    finally:
        lease.release()


def test_a_rewritten_payload_is_what_others_read(path: Path):
    lease = Lease.create(path.parent, path.name, b"a longer first text")
    lease.rewrite(b"short")
    assert path.read_bytes() == b"short"
    assert read_owner(path) == b"short"
    # That plain open and close is what frees a lease; only this module may look at the file.
    lease.release()


def test_a_lease_is_private_and_releasing_twice_is_fine(path: Path):
    lease = Lease.create(path.parent, path.name, b"mine")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert lease.held
    lease.release()
    lease.release()
    assert not lease.held


def test_a_replaced_file_is_not_removed_by_the_old_owner(path: Path):
    lease = Lease.create(path.parent, path.name, b"mine")
    path.unlink()
    path.write_bytes(b"somebody else's")
    lease.release()
    assert path.read_bytes() == b"somebody else's"


def test_a_symlink_is_not_followed(path: Path, tmp_path: Path):
    (tmp_path / "target").write_bytes(b"precious")
    path.symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic"):
        take(path)
    with pytest.raises(OSError, match="symbolic"):
        Lease.create(path.parent, path.name, b"mine")
    assert (tmp_path / "target").read_bytes() == b"precious"


_FORKED = """
import os, sys
from pathlib import Path
from unilab_metrics.storage.lease import Lease, owner_pid, read_owner, take
path = Path(sys.argv[1])
lease = Lease.create(path.parent, path.name, b"parent")
child = os.fork()
if child == 0:
    ok = not lease.held and owner_pid(path) == os.getppid()
    ok = ok and read_owner(path) == b"parent" and take(path) is None
    lease.release()
    os._exit(0 if ok and path.exists() and owner_pid(path) == os.getppid() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
check = os.fork()
if check == 0:
    os._exit(0 if owner_pid(path) == os.getppid() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(check, 0)[1]) == 0
lease.release()
assert not path.exists()
"""


def test_a_forked_child_neither_holds_nor_frees_its_parents_lease(path: Path):
    subprocess.run([sys.executable, "-c", _FORKED, str(path)], timeout=60, check=True)


def test_a_fork_while_another_thread_looks_at_leases_does_not_hang(path: Path):
    script = (
        "import os, sys, threading\n"
        "from pathlib import Path\n"
        "from unilab_metrics.storage.lease import Lease, is_free\n"
        "path = Path(sys.argv[1])\n"
        "lease = Lease.create(path.parent, path.name, b'x')\n"
        "stop = threading.Event()\n"
        "def look():\n"
        "    while not stop.is_set():\n"
        "        is_free(path)\n"
        "thread = threading.Thread(target=look)\n"
        "thread.start()\n"
        "for _ in range(50):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(0 if not is_free(path) else 1)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "stop.set()\n"
        "thread.join()\n"
        "lease.release()\n"
    )
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(path)], timeout=60, check=True
    )


def test_only_one_of_many_threads_takes_a_dead_lease(path: Path, holder: Holder):
    holder.kill()
    taken: list[Lease] = []
    barrier = threading.Barrier(8)

    def contend() -> None:
        barrier.wait(30)
        lease = take(path)
        if lease is not None:
            taken.append(lease)

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(taken) == 1
    taken[0].release()


_CONTENDER = """
import sys
from pathlib import Path
from unilab_metrics.errors import LeaseHeldError
from unilab_metrics.storage.lease import Lease
print("ready", flush=True)
sys.stdin.readline()
try:
    lease = Lease.create(Path(sys.argv[1]), sys.argv[2], b"me")
    print("won", flush=True)
except LeaseHeldError:
    print("lost", flush=True)
sys.stdin.readline()
"""


def test_only_one_of_many_processes_gets_it(path: Path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _CONTENDER, str(path.parent), path.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    answers: list[str] = []
    for command in ("ready", None):
        for process in processes:
            assert process.stdin is not None
            assert process.stdout is not None
            if command is None:
                answers.append(process.stdout.readline().strip())
            else:
                assert process.stdout.readline().strip() == command
        if command is not None:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
    for process in processes:
        process.communicate("\n", timeout=30)
    assert sorted(answers) == ["lost", "lost", "lost", "won"]


def _asked_elsewhere(path: Path) -> int:
    script = (
        "import sys; from pathlib import Path\n"
        "from unilab_metrics.storage.lease import owner_pid\n"
        "print(owner_pid(Path(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return int(done.stdout)


def test_a_holder_sees_that_its_file_was_taken_away(tmp_path: Path) -> None:
    lease = Lease.create(tmp_path, "a.lease", b"")
    assert lease.is_in_place
    (tmp_path / "a.lease").rename(tmp_path / "broken")
    assert (lease.held, lease.is_in_place) == (True, False)
    successor = Lease.create(tmp_path, "a.lease", b"")
    assert (successor.is_in_place, lease.is_in_place) == (True, False)
    lease.release()
    assert successor.is_in_place
    successor.release()
    assert not successor.is_in_place
