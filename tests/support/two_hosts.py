"""Two hosts on this machine: network, mount and host name namespaces, and one cable.

Each host has its own boot id, host name, shared memory and directories for spools, sockets and
state; the run directory is the file system that they share. Nothing of them can reach any other
network. A cable that is cut swallows what is sent, as a switch does that has lost its power:
nobody is told. Two containers of one host are the same, but for the boot id, which they share.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from typing_extensions import Self

ADDRESSES = {"a": "10.77.1.1", "b": "10.77.1.2"}
_NOBODY = "02:00:00:00:00:99"
_NAMESPACES = ("-n", "-m", "-u")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_DIRECTORIES = {
    "HOME": "home",
    "XDG_RUNTIME_DIR": "run",
    "UNILAB_METRICS_RUNTIME": "sockets",
    "XDG_STATE_HOME": "state",
    "UNILAB_METRICS_SPOOL": "spool",
    "TMPDIR": "tmp",
}


def lacking() -> str:
    """Why there can be no two hosts here; empty if there can be."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    trial = ["unshare", *_NAMESPACES, "--propagation", "private"]
    try:
        make = "ip link add v type veth peer name w && mount -t tmpfs none /dev/shm"
        done = subprocess.run(
            [*trial, "sh", "-c", make], check=False, capture_output=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no namespaces: {error}"
    text = done.stderr.decode(errors="replace").strip()
    return f"no namespaces: {text}" if done.returncode else ""


class Host:
    """One of the two. ``directory``: everything that only this host has lies below it."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.address = ADDRESSES[name]
        self.directory = directory
        self.processes: list[subprocess.Popen[Any]] = []
        self.environment = dict(os.environ)
        for variable, folder in _DIRECTORIES.items():
            path = directory / folder
            path.mkdir(mode=0o700, parents=True)
            self.environment[variable] = os.fspath(path)
        self._anchor = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--propagation", "private", "sleep", "infinity"],
            stdin=subprocess.DEVNULL,
        )
        self.pid = self._anchor.pid

    @property
    def spools(self) -> Path:
        return Path(self.environment["UNILAB_METRICS_SPOOL"])

    def settle(self, *, own_kernel: bool = True) -> None:
        """Once its namespaces are there: what tells it apart from the other host.
        ``own_kernel``: whether it has a boot id of its own."""
        # Until the very end of its start its mounts might be everybody's.
        deadline_s = time.monotonic() + 30
        while Path(f"/proc/{self.pid}/comm").read_text() != "sleep\n":
            assert time.monotonic() < deadline_s
            assert self._anchor.poll() is None
            time.sleep(0.01)
        if own_kernel:
            boot_id = self.directory / "boot_id"
            boot_id.write_text(f"{uuid.uuid4()}\n")
            self.call("mount", "--bind", boot_id, _BOOT_ID)
        self.call("mount", "-t", "tmpfs", "-o", "size=64m", "none", "/dev/shm")
        self.call("hostname", f"host-{self.name}")
        self.call("ip", "link", "set", "lo", "up")

    def call(self, *command: str | Path, timeout_s: float = 30.0) -> str:
        """Run a command on this host to its end; its output. It must succeed."""
        done = subprocess.run(
            self._inside(command),
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=self.environment,
        )
        assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def start(
        self, *command: str | Path, environment: Mapping[str, str] | None = None, **pipes: Any
    ) -> subprocess.Popen[Any]:
        """A process on this host, in a session of its own; ``pipes``: as ``Popen`` has them."""
        made = subprocess.Popen(
            self._inside(command),
            env={**self.environment, **(environment or {})},
            start_new_session=True,
            **{"stdin": subprocess.DEVNULL, **pipes},
        )
        self.processes.append(made)
        return made

    def _inside(self, command: Sequence[str | Path]) -> list[str]:
        # Entering another mount namespace changes the working directory.
        script = f'cd {shlex.quote(os.fspath(self.directory))} && exec "$@"'
        enter = ["nsenter", "-t", str(self.pid), *_NAMESPACES, "sh", "-c", script, "sh"]
        return [*enter, *(os.fspath(word) for word in command)]

    def all_processes(self) -> list[psutil.Process]:
        """Everything that lives here, helpers in sessions of their own too."""
        space = os.readlink(f"/proc/{self.pid}/ns/net")
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                is_here = os.readlink(f"/proc/{process.pid}/ns/net") == space
                if is_here and process.pid != self.pid:
                    found.append(process)
        return found

    def kill_all(self) -> None:
        """The host loses its power. With the cable cut, nobody hears of it."""
        for process in self.all_processes():
            with suppress(psutil.Error):
                process.kill()
        for process in self.processes:
            process.wait(30)

    def close(self) -> None:
        """Nothing of it stays; the namespaces go with their last process."""
        with suppress(OSError):
            self.kill_all()
        for process in self.processes:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        self._anchor.kill()
        self._anchor.wait(30)


class TwoHosts:
    """``a`` and ``b`` with a cable between them. A context manager."""

    def __init__(self, folder: Path, *, own_kernels: bool = True) -> None:
        """``folder``: of the test, with a short path; see the ``short_path`` fixture.
        ``own_kernels``: false for two containers of one host, neither of which sees the files
        that only the other has."""
        self._own_kernels = own_kernels
        self.shared = folder / "shared"
        self.shared.mkdir()
        self.at_end: list[Callable[[], object]] = []
        """Called when the hosts are gone."""
        self.a = Host("a", folder / "a")
        try:
            self.b = Host("b", folder / "b")
        except BaseException:
            self.a.close()
            raise

    def __enter__(self) -> Self:
        try:
            for host, other in ((self.a, self.b), (self.b, self.a)):
                host.settle(own_kernel=self._own_kernels)
                if not self._own_kernels:
                    host.call("mount", "-t", "tmpfs", "-o", "size=1m", "none", other.directory)
            ends = ["cable", "netns", str(self.a.pid)], ["cable", "netns", str(self.b.pid)]
            make = ["ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]]
            subprocess.run(make, check=True, capture_output=True, timeout=20)
            for host in (self.a, self.b):
                host.call("ip", "addr", "add", f"{host.address}/24", "dev", "cable")
                host.call("ip", "link", "set", "cable", "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self, *, from_a: bool = True, from_b: bool = True) -> None:
        """What either host sends gets lost on the way. No connection is told."""
        for host, other, is_cut in ((self.a, self.b, from_a), (self.b, self.a, from_b)):
            if is_cut:
                host.call(
                    "ip", "neigh", "replace", other.address, "lladdr", _NOBODY,
                    "dev", "cable", "nud", "permanent",
                )  # fmt: skip

    def mend(self) -> None:
        """The cable is whole again."""
        for host, other in ((self.a, self.b), (self.b, self.a)):
            with suppress(AssertionError):
                host.call("ip", "neigh", "del", other.address, "dev", "cable")

    def reset_connections(self) -> None:
        """Both ends of every connection are told that it is over, wherever in a frame it is."""
        self.a.call("ss", "-K", "-t", "dst", self.b.address)

    def connections(self) -> int:
        """Established connections between the hosts, as ``a`` sees them."""
        listed = self.a.call("ss", "-H", "-t", "-n", "state", "established")
        return listed.count(self.b.address + ":")

    def close(self) -> None:
        for host in (self.a, self.b):
            host.close()
        for call in self.at_end:
            call()
