"""A pane of the user's tmux below or beside the training's, for the sidecar."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from unilab_metrics.publish.forking import unforked
from unilab_metrics.run.launching.view import sidecar_command
from unilab_metrics.run.processes import Helper, python_environment

_ANSWER_S = 5.0
BESIDE_FROM = 160
"""Columns of our pane from which there is room for another one beside it; else it is below ours."""
_LEAST_BESIDE = 96
"""Columns from which the view has panels beside each other."""
_SPLIT = f"""
size=$(tmux display-message -p ${{1:+-t "$1"}} '#{{pane_width}} #{{pane_height}}') || exit
columns=${{size% *}} rows=${{size#* }}
if [ "$columns" -ge {BESIDE_FROM} ]; then
  how=-h cells=$((columns / 2))
  [ "$cells" -ge {_LEAST_BESIDE} ] || cells={_LEAST_BESIDE}
else
  how=-v cells=$((rows * 2 / 3))
fi
exec tmux split-window -d $how -l "$cells" ${{1:+-t "$1"}} -P -F '#{{pane_id}}' "$2"
"""
"""One command, as a training does not wait for the answer to its first half. No version of tmux has
a condition for this that all have. ``$1``: our pane, or empty; ``$2``: what runs in the other."""
_PASSED_ON = ("PYTHONPATH", "PYTHONSAFEPATH", "NO_COLOR", "LANG", "LC_ALL", "XDG_STATE_HOME")


def is_in_tmux(environ: Mapping[str, str]) -> bool:
    """Whether we run in a pane of a tmux that we can ask for another one."""
    return bool(environ.get("TMUX")) and shutil.which("tmux") is not None


def split_command(run_dir: Path, environ: Mapping[str, str], *options: str) -> list[str]:
    """Opens a pane that shows the run and closes with it, below ours, or beside it where there is
    room for both; ours keeps the keyboard. ``options``: further ones of the sidecar."""
    # tmux starts it with the environment of its server, not with ours.
    ours = python_environment(environ)
    settings = [f"{name}={ours[name]}" for name in _PASSED_ON if name in ours]
    view = sidecar_command(run_dir, "--wait", "--exit-with-run", *options)
    shown = shlex.join(["env", *settings, *view])
    return ["sh", "-c", _SPLIT, "sh", environ.get("TMUX_PANE", ""), f"exec {shown}"]


def open_pane(run_dir: Path, *options: str) -> str:
    """The id of the new pane. ``options``: as of :func:`split_command`. Raises ``OSError`` if there
    is none."""
    try:
        done = subprocess.run(
            split_command(run_dir, os.environ, *options),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError("tmux does not answer") from None
    if done.returncode:
        raise OSError(f"tmux: {done.stderr.strip()}")
    return done.stdout.strip()


def start_pane(run_dir: Path) -> None:
    """As :func:`open_pane` without waiting for tmux. Raises ``OSError``."""
    with unforked():
        Helper(
            split_command(run_dir, os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def close_pane(pane: str) -> None:
    """Also one that is closed already; never raises, waits a moment at most."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            ["tmux", "kill-pane", "-t", pane],  # noqa: S607 (the user's own tmux)
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_S,
            check=False,
        )
