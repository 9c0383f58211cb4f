"""Every test runs in an environment of its own and must leave nothing behind.

What counts as left behind: processes, threads, ZeroMQ contexts and sockets, file descriptors
of sockets and of files below the test's folders. A leak is an error of the test that made it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.configuration
import psutil
import pytest
import zmq

GRACE_S = 3.0
"""How long what the test has closed or told to end may take to be gone."""

LAUNCHER_PREFIXES = ("UNILAB_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "WANDB_")
LAUNCHER_NAMES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
    "ROLE_RANK", "ROLE_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "CI",
)  # fmt: skip

# Under nohup or as a shell's background job these are ignored, also by what the tests start.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _usual)

# Threads of torch that wait for each other on a busy machine turn seconds into minutes; the demo
# has one as well.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A loaded machine must not turn a slow example into a failure.
# As Hypothesis itself has it: in CI a change is tried, elsewhere chance goes on looking.
_IN_CI = bool(os.environ.get("CI"))
hypothesis.settings.register_profile("project", deadline=None, max_examples=60, derandomize=_IN_CI)
hypothesis.settings.load_profile("project")
# Each test has a working directory of its own; the examples are to outlive it.
hypothesis.configuration.set_hypothesis_home_dir(Path(__file__).parents[1] / ".hypothesis")


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> Iterator[Path]:  # pyright: ignore[reportUnusedFunction]
    """First to start and last to end, so that every other fixture has cleaned up before."""
    home = Path(tempfile.mkdtemp(prefix="um-", dir="/tmp" if Path("/tmp").is_dir() else None))
    folders = (str(home), str(request.config.rootpath / "logs"), _base_temp(request))
    before = _Belongings(home, folders)
    with pytest.MonkeyPatch.context() as patch:
        _isolate(patch, home)
        yield home
        leaks = before.leaks()
    for process in before.new_processes():
        process.kill()
    shutil.rmtree(home, ignore_errors=True)
    if leaks and not getattr(request.node, "failed_call", False):
        pytest.fail("the test left behind:\n  " + "\n  ".join(leaks), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[misc]
    if report.when == "call" and report.failed:
        # A failed test cannot clean up, and its traceback keeps objects alive.
        item.failed_call = True  # type: ignore[attr-defined]
    return report  # type: ignore[return-value]


@pytest.fixture
def short_path(_no_leaks: Path) -> Path:
    """A folder whose path leaves room for a socket's name (``ipc`` allows 107 bytes)."""
    folder = _no_leaks / "d"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run directory in the layout of a training's log root."""
    folder = tmp_path / "logs" / "sac" / "task" / "2026-01-02_03-04-05_numpy"
    folder.mkdir(parents=True)
    return folder


def _isolate(patch: pytest.MonkeyPatch, home: Path) -> None:
    for name in list(os.environ):
        if name.startswith(LAUNCHER_PREFIXES) or name in LAUNCHER_NAMES:
            patch.delenv(name)
    for name, folder in {
        "HOME": "home",
        "XDG_RUNTIME_DIR": "run",
        # Else the doctor also looks where the system's other processes have their sockets.
        "UNILAB_METRICS_RUNTIME": "sockets",
        "XDG_STATE_HOME": "state",
        "UNILAB_METRICS_SPOOL": "spool",
        "TMPDIR": "tmp",
    }.items():
        path = home / folder
        path.mkdir(mode=0o700)
        patch.setenv(name, str(path))
    patch.setattr(tempfile, "tempdir", None)
    # Relative paths, and deletions of them, stay inside the test.
    empty = home / "cwd"
    empty.mkdir()
    patch.chdir(empty)


def _base_temp(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("tmp_path_factory").getbasetemp())


class _Belongings:
    """What the process had before a test, and what it has in addition afterwards."""

    def __init__(self, home: Path, folders: tuple[str, ...]) -> None:
        self._home = home
        self._folders = folders
        self._pids = set(psutil.pids())
        self._threads = set(threading.enumerate())
        self._descriptors = set(_descriptors())
        self._zmq = set(_live_zmq)

    def leaks(self) -> list[str]:
        deadline = time.monotonic() + GRACE_S
        while leaks := self._leaks():
            if time.monotonic() > deadline:
                return leaks
            time.sleep(0.02)
        return []

    def new_processes(self) -> list[psutil.Process]:
        """Processes that started since and are our children or have the test's environment."""
        found: list[psutil.Process] = []
        for pid in set(psutil.pids()) - self._pids:
            try:
                process = psutil.Process(pid)
                if self._is_ours(process):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def _leaks(self) -> list[str]:
        leaks = [f"process {_describe(process)}" for process in self.new_processes()]
        leaks += [
            f"thread {thread.name!r}{' (daemon)' if thread.daemon else ''}"
            for thread in threading.enumerate()
            if thread not in self._threads and thread.is_alive()
        ]
        leaks += [
            f"open {kind}"
            for number, (reference, kind) in list(_live_zmq.items())
            if number not in self._zmq and (made := reference()) is not None and not made.closed
        ]
        leaks += [
            f"file descriptor {number} of {target}"
            for number, target in _descriptors()
            if (number, target) not in self._descriptors and self._matters(target)
        ]
        return leaks

    def _matters(self, target: str) -> bool:
        return target.startswith(("socket:", *self._folders))

    def _is_ours(self, process: psutil.Process) -> bool:
        if process.pid == os.getpid():
            return False
        command = _command(process)
        if "multiprocessing.resource_tracker" in command:
            return False  # lives as long as its parent, by design of the standard library
        if any(parent.pid == os.getpid() for parent in process.parents()):
            return True
        # Helpers in a session of their own are no children of ours any more.
        return process.environ().get("TMPDIR", "").startswith(str(self._home))


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _describe(process: psutil.Process) -> str:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return f"{process.pid}, ended and not waited for"
        return f"{process.pid}: {_command(process)}"
    except psutil.Error:
        return str(process.pid)


def _descriptors() -> list[tuple[int, str]]:
    listing = Path("/proc/self/fd")
    if not listing.is_dir():
        return []
    found: list[tuple[int, str]] = []
    for entry in os.listdir(listing):
        try:
            found.append((int(entry), os.readlink(listing / entry)))
        except OSError:
            continue
    return found


_live_zmq: dict[int, tuple[weakref.ref[Any], str]] = {}
_numbers = iter(range(sys.maxsize))


def _track(owner: type[Any], kind: str) -> None:
    """Remembers every object of a pyzmq class, until it is collected."""
    original: Callable[..., None] = owner.__init__

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        number = next(_numbers)
        _live_zmq[number] = (weakref.ref(self, lambda _: _live_zmq.pop(number, None)), kind)

    owner.__init__ = initialise


_track(zmq.Context, "ZeroMQ context")
_track(zmq.Socket, "ZeroMQ socket")
