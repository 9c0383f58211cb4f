"""The command group: what is common to all commands, and where each one lies.

A command's module is imported when it is used, so that ``ls`` does not wait for what
``aggregate`` needs.
"""

from __future__ import annotations

import difflib
import importlib
import os
from typing import Any

import click

from unilab_metrics import __version__
from unilab_metrics.cli.output import prepare_streams, say
from unilab_metrics.early_interrupts import raise_interrupts
from unilab_metrics.errors import ExitCode, MissingPackageError, UnilabMetricsError

# \b keeps click from joining the lines of a paragraph.
_EPILOG = """\b
Examples
  unilab-metrics demo                  train for a minute and watch
  unilab-metrics run -- CMD ARGS...    run any training and watch it
  unilab-metrics attach                watch the newest live run
  unilab-metrics serve                 the same in a browser
  unilab-metrics replay logs/sac/...   look at a run that is over as if it went on
  unilab-metrics doctor logs/sac/...   what is wrong with a run
  unilab-metrics recover logs/sac/...  complete a run that was cut off
  unilab-metrics verify logs/sac/...   prove that nothing was lost

\b
Exit codes
  0    done
  1    unexpected error, a package that is missing, or an output that cannot be written;
       who has read enough may close it (`| head`)
  2    wrong usage
  3    no run in that directory
  4    no live run: none on this machine, none at that address, or one that was cut off
  5    refused: another process holds the run, or a key is not taken
  6    damaged files, or of a version that this program does not know
  7    verification failed
  8    doctor found something wrong
  130  interrupted
"""

_OURS = frozenset({"unilab_metrics", "unilab_schema", "unilab_sidecar"})
_COMMANDS = {
    "demo": ("unilab_metrics.cli.demo", "Train a small real job and watch it."),
    "run": ("unilab_metrics.cli.run", "Run any training and watch it."),
    "attach": ("unilab_metrics.cli.watch", "Open a sidecar on a live run."),
    "serve": ("unilab_metrics.cli.serve", "Open sidecars on a run in browsers."),
    "replay": ("unilab_metrics.cli.replay", "Play a run that is over again."),
    "ls": ("unilab_metrics.cli.watch", "List live and recent runs."),
    "verify": ("unilab_metrics.cli.verify", "Prove that a run lost and changed nothing."),
    "recover": ("unilab_metrics.cli.recover", "Complete a run that was cut off."),
    "doctor": ("unilab_metrics.cli.doctor", "Say what is wrong with a run and how to fix it."),
    "aggregate": ("unilab_metrics.cli.processes", "Be the aggregator of a run."),
    "write": ("unilab_metrics.cli.processes", "Be the writer of one backend of a run."),
}


class CommandGroup(click.Group):
    """Imports commands when they are used; ends on our errors with one line and their code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which a user meets them."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, ``None`` if there is none."""
        del ctx
        known = _COMMANDS.get(cmd_name)
        if known is None:
            return None
        return getattr(importlib.import_module(known[0]), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a command line. Of one that there is not the nearest is named."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], _COMMANDS, 1) if args else []
            if not near:
                raise
            text = f"{error.message} Did you mean '{near[0]}'?"
            raise click.UsageError(text, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command line. Ends the process."""
        prepare_streams()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            # Of a help or a wrong usage that could not be said.
            say(f"unilab-metrics: {_fact(error)}", err=True)
            raise SystemExit(ExitCode.UNEXPECTED) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it returns is the exit code."""
        try:
            raise_interrupts()
            status = super().invoke(ctx)
        except UnilabMetricsError as error:
            say(f"unilab-metrics: {error}", err=True)
            ctx.exit(int(error.exit_code))
        except (OSError, MemoryError) as error:
            say(f"unilab-metrics: {_fact(error)}", err=True)
            ctx.exit(int(ExitCode.UNEXPECTED))
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if not package or package in _OURS:
                raise
            say(f"unilab-metrics: {MissingPackageError('this command', package)}", err=True)
            ctx.exit(int(ExitCode.UNEXPECTED))
        except KeyboardInterrupt:
            ctx.exit(int(ExitCode.INTERRUPTED))
        ctx.exit(status if isinstance(status, int) else int(ExitCode.OK))


def _fact(error: OSError | MemoryError) -> str:
    """What happened to which file, without a traceback: it is the user's to put right."""
    if isinstance(error, MemoryError):
        return "out of memory"
    # Of two names the second is the file that was to be: a temporary one takes its place.
    name = error.filename2 or error.filename
    where = f"{os.fsdecode(name)}: " if name and not isinstance(name, int) else ""
    return f"{where}{error.strerror or error}"


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@click.version_option(__version__, prog_name="unilab-metrics", message="%(prog)s %(version)s")
def commands() -> None:
    """A metrics bus for reinforcement-learning training."""
