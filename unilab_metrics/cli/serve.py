"""``serve``: the sidecar in a browser."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import click

from unilab_metrics.cli.directories import existing_run
from unilab_metrics.cli.watch import (
    ADDRESS_WITHOUT_KEY,
    KEY_WITHOUT_ADDRESS,
    check_remote,
    find_newest_live_run,
)
from unilab_metrics.errors import MissingPackageError
from unilab_metrics.host_names import is_loopback

_EPILOG = """\b
Examples
  unilab-metrics serve
  unilab-metrics serve logs/sac/cart_reach/2026-03-09_18-30-00_numpy --port 8000
  unilab-metrics serve tcp://10.0.0.5:7400 --key watch.key
  unilab-metrics serve cluster:logs/sac/cart_reach/2026-03-09_18-30-00_numpy

\b
Over ssh one connection is made first, which asks for passwords and codes here, and all tabs use it;
HOST:RUN_DIR is as with `attach`.

\b
From another machine, with the port that was printed:
  ssh -L PORT:localhost:PORT THIS_MACHINE
and open the printed address there.

\b
Exit codes
  0    ended by SIGTERM
  1    unexpected, the port is taken, or textual-serve is missing:
       pip install 'unilab-metrics[serve]'
  2    wrong usage; --no-token with an address that other machines reach
  3    no run in RUN_DIR, also on the other machine
  4    no live run on this machine, or nobody answers at the address; over ssh: no such host, no
       connection, or nobody at work on the run there
  5    the key is missing, not private, not for watching, or not taken by the run; over ssh: not
       let in, host key unknown or changed, no unix sockets forwarded
  6    the key file or the connection file is damaged; over ssh also: the run was cut off, and
       nothing of its history can be read
  130  ended by Ctrl+C
"""
_EXPOSED = "--no-token lets everybody in who reaches {host}; if that is wanted, say --exposed-without-token"
_NEEDED = ("textual", "regex", "textual_serve", "aiohttp")


class _ServePackageError(MissingPackageError):
    def __init__(self) -> None:
        super().__init__("serve", "textual-serve")
        self.args = ("serve needs textual-serve: pip install 'unilab-metrics[serve]'",)


@click.command(epilog=_EPILOG)
@click.argument("run", metavar="[RUN_DIR | HOST:RUN_DIR | tcp://HOST:PORT]", required=False)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The run's key for watching; needed for an address.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; other than loopback, other machines reach it, unencrypted.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="0, as by default: a free one."
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A further name by which browsers call this machine, as of a proxy.",
)
@click.option("--no-token", is_flag=True, help="Let in whoever reaches it; on loopback only.")
@click.option(
    "--exposed-without-token", is_flag=True, help="The same, also where other machines reach it."
)
@click.option(
    "--sessions",
    type=click.IntRange(1, 100),
    default=8,
    show_default=True,
    help="How many views may be open at once.",
)
@click.option(
    "--theme", metavar="NAME", help="Colours of the screen: dark, light, colour-blind or ansi."
)
def serve(
    run: str | None,
    *,
    key: Path | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    no_token: bool,
    exposed_without_token: bool,
    sessions: int,
    theme: str | None,
) -> None:
    """Show a run in browsers: the one in RUN_DIR, here or on another machine over ssh, the one that
    listens at an address, or the newest live one of this machine.

    The address that it prints has a token, and lets nobody in without. Every tab has a sidecar of
    its own, which ends with it, and only reads; Ctrl+C ends the server and leaves the training
    alone.
    """
    from unilab_metrics.run.launching.view import sidecar_command
    from unilab_metrics.run.processes import python_environment
    from unilab_metrics.subscribe.ssh.target import is_ssh_target, parse_target

    is_address = run is not None and run.startswith("tcp:")
    if is_address != (key is not None):
        raise click.UsageError(ADDRESS_WITHOUT_KEY if is_address else KEY_WITHOUT_ADDRESS)
    if no_token and not exposed_without_token and not is_loopback(host):
        raise click.UsageError(_EXPOSED.format(host=host))
    if run is not None and key is not None:
        check_remote(run, key)
        target, more = run, ["--key", os.fspath(key.absolute())]
    elif run is not None and is_ssh_target(run):
        is_address, target, more = True, str(parse_target(run)), []
    else:
        found = find_newest_live_run() if run is None else existing_run(Path(run))
        target, more = os.fspath(found.absolute()), []
    python, *_ = sidecar_command(target)
    if python == sys.executable and not all(map(importlib.util.find_spec, _NEEDED)):
        raise _ServePackageError
    if theme is not None:
        more.append(f"--theme={theme}")
    options = ["--host", host, f"--port={port}", f"--sessions={sessions}"]
    options += [f"--name={name.lower()}" for name in names]
    options += ["--no-token"] * (no_token or exposed_without_token)
    options.append(f"--title={_title(target, is_address=is_address)}")
    command = [python, "-m", "unilab_sidecar.serving", *options, "--", target, *more, "--wait"]
    os.execve(python, command, python_environment(os.environ))  # noqa: S606


def _title(target: str, *, is_address: bool) -> str:
    """What the tab of a browser is called: the run, without the folders above."""
    if is_address:
        return target
    *_, task, name = Path("/", *Path(target).parts[-2:]).parts
    return f"{task}/{name}"
