"""A real sshd on loopback, with keys and configuration of its own in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
_PRIVILEGE_SEPARATION = Path("/run/sshd")


def why_not() -> str:
    """Why no sshd can be had here; empty if one can."""
    if SSHD is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "no OpenSSH server and client here"
    if os.geteuid() == 0 and not _PRIVILEGE_SEPARATION.is_dir():
        try:
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755)
        except OSError as error:
            return f"sshd needs {_PRIVILEGE_SEPARATION}: {error}"
    return ""


class LoopbackSshd:
    """``box`` is its alias in ``config``, for ``ssh -F config``; ``behind`` is the same by way of
    ``box``."""

    def __init__(self, folder: Path, *options: str) -> None:
        if reason := why_not():
            pytest.skip(reason)
        folder.mkdir(mode=0o700, exist_ok=True)
        self.folder = folder
        for name in ("host_key", "user_key", "other_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)],
                check=True, timeout=20,
            )  # fmt: skip
        shutil.copy(folder / "user_key.pub", folder / "authorized")
        self.port = _free_port()
        (folder / "sshd_config").write_text(
            "\n".join(
                [
                    f"ListenAddress 127.0.0.1:{self.port}",
                    f"HostKey {folder}/host_key",
                    f"AuthorizedKeysFile {folder}/authorized",
                    "PidFile none",
                    "StrictModes no",
                    "UsePAM no",
                    "PasswordAuthentication no",
                    "KbdInteractiveAuthentication no",
                    "PermitRootLogin yes",
                    # bash reads ~/.bashrc if it is the outermost shell of a connection. What that
                    # does may take a minute, and leaves a lock behind if it is killed in between.
                    f"SetEnv XDG_STATE_HOME={os.environ.get('XDG_STATE_HOME', folder)} SHLVL=1",
                    *options,
                ]
            )
        )
        self.write_config()
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def ssh(self) -> str:
        """For ``UNILAB_METRICS_SSH``."""
        return f"ssh -F {self.folder}/config"

    def write_config(self, *lines: str, key: str = "user_key", known: str = "host_key") -> None:
        public = (self.folder / f"{known}.pub").read_text().strip()
        (self.folder / "known_hosts").write_text(f"* {public}\n")
        common = [
            *lines,
            f"Port {self.port}",
            f"IdentityFile {self.folder}/{key}",
            "IdentitiesOnly yes",
            "IdentityAgent none",
            f"UserKnownHostsFile {self.folder}/known_hosts",
            "GlobalKnownHostsFile /dev/null",
        ]
        text = "Host box\n  HostName 127.0.0.1\nHost behind\n  HostName localhost\n"
        text += "  ProxyJump box\nHost box behind\n" + "".join(f"  {one}\n" for one in common)
        (self.folder / "config").write_text(text)

    def start(self) -> None:
        assert SSHD is not None
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        deadline_s = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                address = ("127.0.0.1", self.port)
                with socket.create_connection(address, timeout=5) as probe:
                    if probe.recv(4):
                        return
            assert self.process.poll() is None, (self.folder / "sshd.log").read_text()
            assert time.monotonic() < deadline_s
            time.sleep(0.02)

    def stop(self) -> None:
        """No new connections; those that stand go on."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _free_port() -> int:
    """Below those that the system hands out: no connection takes it between two starts, and a
    connection to it, while nobody listens there, is not answered by itself."""
    while True:
        port = random.randint(10_000, 30_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
