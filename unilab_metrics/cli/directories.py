"""The run directory that a command was given."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from unilab_metrics.config import RUN_CONFIG_FILE
from unilab_metrics.errors import RunNotFoundError, SshTargetError
from unilab_metrics.transport.rendezvous import bus_directory


def existing_run(run_dir: Path) -> Path:
    """``run_dir``, if a run was opened there. Raises ``RunNotFoundError``, also for one that
    this user may not look at."""
    try:
        if not run_dir.is_dir():
            raise RunNotFoundError(run_dir, _what_it_is(run_dir))
        if not _is_run(run_dir):
            raise RunNotFoundError(run_dir, f"holds no run; {_hint(run_dir)}")
    except OSError as error:
        raise RunNotFoundError(run_dir, f"cannot be looked at: {error.strerror}") from error
    return run_dir


def _is_run(path: Path) -> bool:
    return bus_directory(path).is_dir() or (path / RUN_CONFIG_FILE).is_file()


def _hint(path: Path) -> str:
    """Where there is one, without looking far."""
    above = path.absolute().parent
    if _is_run(above):
        return f"its parent does: {shlex.quote(os.fspath(above))}"
    return f"`unilab-metrics ls --logs {shlex.quote(os.fspath(path))}` lists those below it"


def _what_it_is(path: Path) -> str:
    if path.is_symlink():
        return "is a link that leads to no directory"
    if os.path.lexists(path):
        return "is no directory"
    return _elsewhere(os.fspath(path)) or "no such directory"


def _elsewhere(text: str) -> str:
    from unilab_metrics.subscribe.ssh.target import copying, is_ssh_target, parse_target

    # Of an address a path keeps one slash only.
    text = re.sub(r"^ssh:/(?=[^/])", "ssh://", text)
    if not is_ssh_target(text):
        return ""
    try:
        target = parse_target(text)
    except SshTargetError:
        return ""
    if not target.path:
        return "is a machine; only `attach` and `serve` look at runs of others"
    return (
        f"is on another machine; `attach` shows it while it is live, and `{copying(target)}` later"
    )
