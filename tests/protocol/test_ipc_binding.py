"""A second binder is refused, a dead one's socket is replaced, anything else is left alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from unilab_metrics.errors import EndpointError, EndpointInUseError, ExitCode
from unilab_metrics.transport import sockets
from unilab_metrics.transport.ipc import (
    BoundFile,
    ipc_path,
    listener_pid,
    remove_dead_endpoints,
)

_ANNOUNCER = """
import sys
from unilab_metrics.transport import sockets
ctx = sockets.context()
made = sockets.announce(ctx, sys.argv[1])
print("bound", flush=True)
while sys.stdin.readline().strip() == "send":
    made.send(b"head")
    print("sent", flush=True)
sockets.terminate(ctx, [made])
"""


@pytest.fixture
def path(short_path: Path) -> Path:
    return short_path / "announce"


@pytest.fixture
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _ANNOUNCER, f"ipc://{path}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "bound\n"
    yield process
    process.kill()
    process.communicate(timeout=30)


def bind(path: Path) -> None:
    ctx = sockets.context()
    try:
        made = sockets.announce(ctx, f"ipc://{path}")
        sockets.close([made])
    finally:
        sockets.terminate(ctx)


def test_a_second_binder_is_refused_by_name_and_the_first_goes_on(
    path: Path, owner: subprocess.Popen[str]
):
    for _ in range(2):
        with pytest.raises(EndpointInUseError) as caught:
            bind(path)
        assert str(caught.value) == f"ipc://{path} used by pid {owner.pid}"
        assert caught.value.pid == owner.pid
        assert caught.value.exit_code == ExitCode.REFUSED
    ctx = sockets.context()
    listener = sockets.listen(ctx, f"ipc://{path}")
    assert owner.stdin is not None
    assert owner.stdout is not None
    heard = 0
    for _ in range(10):
        # The subscription of a new listener may arrive after the first one was sent.
        while True:
            owner.stdin.write("send\n")
            owner.stdin.flush()
            assert owner.stdout.readline() == "sent\n"
            if listener.poll(1000 if heard else 50):
                break
        assert listener.recv(zmq.NOBLOCK) == b"head"
        heard += 1
    sockets.terminate(ctx, [listener])
    assert heard == 10


def test_a_stopped_owner_is_still_an_owner(path: Path, owner: subprocess.Popen[str]):
    owner.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(EndpointInUseError):
            bind(path)
    finally:
        owner.send_signal(signal.SIGCONT)


def test_the_socket_of_a_killed_owner_is_replaced(path: Path, owner: subprocess.Popen[str]):
    owner.kill()
    owner.wait(30)
    assert path.is_socket()
    assert listener_pid(str(path)) is None
    bind(path)
    assert not path.exists()


def test_an_owner_that_ends_in_order_leaves_no_file(path: Path, owner: subprocess.Popen[str]):
    owner.communicate("\n", timeout=30)
    assert not path.exists()


def test_the_own_process_is_named_too(path: Path):
    ctx = sockets.context()
    made = sockets.ingest(ctx, f"ipc://{path}")
    with pytest.raises(EndpointInUseError) as caught:
        sockets.ingest(ctx, f"ipc://{path}")
    assert caught.value.pid == os.getpid()
    sockets.terminate(ctx, [made])


def test_a_regular_file_is_kept_byte_for_byte(path: Path):
    path.write_bytes(b"precious")
    before = path.stat()
    with pytest.raises(EndpointError, match="no socket"):
        bind(path)
    assert path.read_bytes() == b"precious"
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_directory_or_a_symlink_is_kept(path: Path):
    path.mkdir()
    with pytest.raises(EndpointError, match="no socket"):
        bind(path)
    path.rmdir()
    path.symlink_to("/nowhere")
    with pytest.raises(EndpointError, match="no socket"):
        bind(path)
    assert path.is_symlink()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
def test_a_directory_that_lets_others_in_is_refused(short_path: Path, path: Path, mode: int):
    short_path.chmod(mode)
    with pytest.raises(EndpointError, match="0700"):
        bind(path)


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("tcp://127.0.0.1:5555", "no ipc"),
        ("inproc://x", "no ipc"),
        ("ipc://@abstract", "absolute"),
        ("ipc://relative", "absolute"),
        ("ipc://*", "absolute"),
        ("ipc:///" + "x" * 103, "104 bytes"),
    ],
)
def test_endpoints_that_are_no_private_paths_are_refused(endpoint: str, reason: str):
    with pytest.raises(EndpointError, match=reason):
        ipc_path(endpoint)


def test_the_longest_path_can_be_bound(short_path: Path):
    name = "x" * (103 - len(str(short_path)) - 1)
    bind(short_path / name)


def test_closing_removes_only_the_file_that_the_bind_made(path: Path):
    for content in (b"precious", None):
        ctx = sockets.context()
        made = sockets.ingest(ctx, f"ipc://{path}")
        path.unlink()
        if content is None:
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(path))
        else:
            path.write_bytes(content)
        sockets.terminate(ctx, [made])
        assert path.exists()
        path.unlink()


def test_what_killed_aggregators_left_is_removed_and_nothing_else(short_path: Path):
    for name in ("17.in", "17.out", "17.ask", "other.sock"):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(short_path / name))
    (short_path / "18.in").write_bytes(b"a file")
    (short_path / "18.out").symlink_to(short_path / "18.in")
    (short_path / "18.ask").mkdir()
    ctx = sockets.context()
    live = sockets.ingest(ctx, f"ipc://{short_path}/19.in")
    kept = {"other.sock", "18.in", "18.out", "18.ask", "19.in"}
    assert {entry.name for entry in short_path.iterdir()} == kept
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(short_path / "20.ask"))
    remove_dead_endpoints(short_path)
    assert {entry.name for entry in short_path.iterdir()} == kept
    remove_dead_endpoints(short_path / "missing")
    sockets.terminate(ctx, [live])


def test_a_bind_under_another_name_removes_nothing(short_path: Path, path: Path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(short_path / "17.in"))
    bind(path)
    assert [entry.name for entry in short_path.iterdir()] == ["17.in"]


def test_a_forked_child_does_not_remove_its_parents_file(path: Path):
    ctx = sockets.context()
    made = sockets.ingest(ctx, f"ipc://{path}")
    file = BoundFile.at(str(path))
    child = os.fork()
    if child == 0:
        file.remove()
        os._exit(0 if path.exists() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    sockets.terminate(ctx, [made])
    assert not path.exists()
