"""``run``: any training, with its output kept and its runs on the screen."""

from __future__ import annotations

import click

from unilab_metrics.cli.finite import FiniteRange

_EPILOG = """\b
Examples
  unilab-metrics run -- python train.py --task reach
  unilab-metrics run -- torchrun --nproc-per-node 4 train.py
  unilab-metrics run --sidecar tmux -- bash sweep.sh
  unilab-metrics run --sidecar off -- python -m pdb train.py

\b
What the command prints, with its child processes and C libraries, is in console.log of the run
that it has opened, 64 MiB of it at most. Before a run is opened, and where no screen can be
taken (SLURM, CI, nohup, a pipe), it is shown as it comes, beside one plain line per interval.

\b
Its input is what ours is, but the end of a file where that is a terminal: the keyboard belongs to
the sidecar. For a training that asks or is debugged there is --sidecar off.

\b
Exit codes
  0     the command ended with 0
  1     the command cannot be watched: no room for a directory of ours
  2     wrong usage; also --sidecar on without a terminal, or tmux outside of tmux
  126   the command cannot be executed
  127   no such command
  128+n a signal n ended the command
  else  that of the command
"""


@click.command(
    epilog=_EPILOG,
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--sidecar",
    type=click.Choice(["auto", "on", "off", "tmux"]),
    default="auto",
    show_default=True,
    help="Take the terminal if it may be taken; insist on it; leave everything to the command; or "
    "open a pane of tmux beside it.",
)
@click.option(
    "--plain-interval",
    type=FiniteRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds between two plain lines, where there is no screen.",
)
@click.option(
    "--allow-control",
    is_flag=True,
    help="Let K in the sidecar stop the training, after a question.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD ARGS…")
def run(
    command: tuple[str, ...], *, sidecar: str, plain_interval: float, allow_control: bool
) -> int:
    """Run CMD in a session of its own, and show the training that it is.

    The sidecar takes the terminal as soon as CMD calls init(); q or Ctrl+C closes it and the
    training goes on, Ctrl+C again stops it. So does K in the sidecar, with --allow-control.
    Afterwards the terminal is as before, and the last lines of the output and what became of the
    run are printed.
    """
    import contextlib
    import os

    from unilab_metrics.run.launching.kept_keys import kept_keys
    from unilab_metrics.run.launching.terminal import can_take_terminal
    from unilab_metrics.run.launching.tmux import is_in_tmux

    if sidecar == "on" and not can_take_terminal(os.environ):
        raise click.UsageError("--sidecar on needs a terminal of our own in the foreground")
    if sidecar == "tmux" and not is_in_tmux(os.environ):
        raise click.UsageError("--sidecar tmux works in a pane of tmux only")
    is_shown = sidecar in {"auto", "on"}
    with kept_keys(os.environ) if is_shown else contextlib.nullcontext() as terminal:
        # It takes a moment to import.
        from unilab_metrics.run.launching.command import run_command

        return run_command(
            command,
            sidecar=sidecar,
            interval_s=plain_interval,
            may_stop=allow_control,
            terminal=terminal,
        )
