"""The ``unilab-metrics`` command."""

from __future__ import annotations

from unilab_metrics.early_interrupts import end_by_interrupts


def main() -> None:
    """Run the command line. Ends the process."""
    end_by_interrupts()
    from unilab_metrics.cli.root import commands

    commands()
