"""``python -m unilab_sidecar.serving``: serves sidecars until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from unilab_metrics.errors import ExitCode, UnilabMetricsError
from unilab_metrics.host_names import is_loopback
from unilab_sidecar.command_line import command_line
from unilab_sidecar.drawing.text import clean
from unilab_sidecar.serving.admission import Door
from unilab_sidecar.serving.complaints import complaints
from unilab_sidecar.serving.keeper import Keeper, hold_way
from unilab_sidecar.serving.server import Server
from unilab_sidecar.terminal.error_output import say_error

_EXPOSED = """\
warning: {host} can be reached from other machines, and what is sent is not encrypted; whoever reads
the address below on the way, or is told it, sees this run. A tunnel is safer: ssh -L PORT:localhost:PORT
"""
_EXPOSED_OPEN = "warning: with --no-token everybody who reaches {host} sees this run"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves; returns the exit code."""
    options = _parser().parse_args(arguments)
    # What a tab would refuse nobody would see there.
    command_line().parse_args(options.sidecar)
    host, token = str(options.host), "" if options.no_token else secrets.token_urlsafe(24)
    if not is_loopback(host):
        for line in (_EXPOSED if token else _EXPOSED_OPEN).splitlines():
            say_error(line.format(host=host))
    try:
        holder = hold_way(str(options.sidecar[0]))
    except UnilabMetricsError as error:
        say_error(f"unilab-metrics: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    command = [sys.executable, "-m", "unilab_sidecar", *options.sidecar, "--browser"]
    command += [f"--way={holder.fd}"] if holder is not None else []
    names = {str(name) for name in options.name}
    if not is_loopback(host):
        names |= {host.lower(), socket.gethostname().lower()}
    server = Server(
        command,
        options.title,
        Door(token, frozenset(names)),
        tabs=options.sessions,
        inherited=() if holder is None else (holder.fd,),
    )
    run = clean(str(options.sidecar[0]))
    keeper = Keeper(holder, lambda: server.is_used) if holder is not None else None
    try:
        return asyncio.run(_serve(server, run, host, int(options.port), token))
    except OSError as error:
        say_error(f"unilab-metrics: {host}:{options.port}: {error.strerror or error}")
        return ExitCode.UNEXPECTED
    finally:
        if keeper is not None:
            keeper.close()


def runner_of(application: web.Application) -> web.AppRunner:
    """Of a server that prints nothing of what others ask for."""
    return web.AppRunner(application, access_log=None, shutdown_timeout=5.0, logger=complaints())


async def _serve(server: Server, run: str, host: str, port: int, token: str) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    interrupted: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda n=number: (interrupted.append(n), ended.set()))
    runner = runner_of(server.application())
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
        bound = runner.addresses[0][1]
        shown = f"[{host}]" if ":" in host else host
        query = f"?token={token}" if token else ""
        print(f"http://{shown}:{bound}/{query}", flush=True)  # noqa: T201
        print(f"It shows {run}; Ctrl+C ends it and leaves the training alone.", flush=True)  # noqa: T201
        await ended.wait()
    finally:
        await runner.cleanup()
    return ExitCode.INTERRUPTED if signal.SIGINT in interrupted else ExitCode.OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m unilab_sidecar.serving")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--name", action="append", default=[])
    parser.add_argument("--no-token", action="store_true")
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--title", default=Path(os.curdir).resolve().name)
    parser.add_argument("sidecar", nargs="+", metavar="SIDECAR_ARGUMENT")
    return parser


if __name__ == "__main__":
    sys.exit(main())
