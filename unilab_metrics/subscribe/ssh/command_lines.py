"""The command lines of ssh, and where its sockets may lie. Pure.

Options given here win over the user's configuration where a tunnel would not work otherwise;
hosts, users, keys, jumps and everything else stay his.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from unilab_metrics.errors import ExitCode, SshError
from unilab_metrics.subscribe.ssh.target import SshTarget

COMMAND_VARIABLE = "UNILAB_METRICS_SSH"
"""Names the ssh to use and options for it, split as a shell would: ``ssh -F my_config``."""
CONTROL_NAME = "ctl"
MAX_PLACE_BYTES = 60
"""Of the directory's path: ssh appends 17 bytes to the control socket's while it binds it."""
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+@-]*")
_OPTIONS = (
    ("ControlMaster", "yes"),
    ("ControlPersist", "no"),
    ("ClearAllForwardings", "yes"),
    ("ExitOnForwardFailure", "yes"),
    ("StreamLocalBindUnlink", "yes"),
    ("StreamLocalBindMask", "0177"),
    ("ServerAliveInterval", "5"),
    ("ServerAliveCountMax", "2"),
    ("ConnectTimeout", "15"),
    ("RemoteCommand", "none"),
    ("RequestTTY", "no"),
    ("PermitLocalCommand", "no"),
    ("ForkAfterAuthentication", "no"),
    ("StdinNull", "no"),
    ("SessionType", "default"),
    ("LogLevel", "INFO"),
)
# Older ones do not know these as options, and their users cannot have set them.
_SINCE_8_7 = frozenset({"ForkAfterAuthentication", "StdinNull", "SessionType"})


class Forward(NamedTuple):
    """A socket of this machine that leads to one of the other."""

    local: str
    remote: str


def ssh_program(environ: Mapping[str, str]) -> list[str]:
    """The ssh to start, with the user's own options. Raises :class:`SshError` for a variable
    that cannot be split."""
    text = environ.get(COMMAND_VARIABLE, "")
    try:
        return shlex.split(text) or ["ssh"]
    except ValueError as error:
        reason = f"{COMMAND_VARIABLE}={text!r} cannot be split as a shell does: {error}"
        raise SshError("", reason, ExitCode.USAGE) from None


def session_command(
    program: list[str], target: SshTarget, directory: str, *, asks: bool
) -> list[str]:
    """A connection that carries everything, and a shell at its end that reads from its input.
    ``asks``: it may ask people for passwords and the like, on the terminal."""
    options = [f"-o{name}={value}" for name, value in _OPTIONS if name not in _SINCE_8_7]
    options += ["-oIgnoreUnknown=ForkAfterAuthentication,StdinNull,SessionType"]
    options += [f"-o{name}={value}" for name, value in _OPTIONS if name in _SINCE_8_7]
    options += [] if asks else ["-oBatchMode=yes"]
    options += ["-p", str(target.port)] if target.port else []
    control = f"{directory}/{CONTROL_NAME}".replace("%", "%%")
    return [*program, *options, f"-oControlPath={control}", "-T", "-a", "-x", "--",
            target.destination, "sh"]  # fmt: skip


def forward_command(program: list[str], directory: str, forwards: Iterable[Forward]) -> list[str]:
    """Has the connection that stands forward more. Reads no configuration: what that forwards
    is not ours to open."""
    asked = [f"-L{escaped(one.local)}:{escaped(one.remote)}" for one in forwards]
    control = f"{directory}/{CONTROL_NAME}".replace("%", "%%")
    return [*program, "-Fnone", f"-oControlPath={control}", "-oLogLevel=ERROR", "-Oforward",
            *asked, "--", "tunnel"]  # fmt: skip


def escaped(path: str) -> str:
    """A path within ``-L``."""
    return path.replace("\\", "\\\\").replace(":", "\\:")


def fits(place: str) -> bool:
    """Whether sockets can lie below: short enough, and nothing in it that ssh expands."""
    return len(place) <= MAX_PLACE_BYTES and _PLAIN_PATH.fullmatch(place) is not None
