"""The ``unilab-metrics`` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line. Ends the process."""
    from unilab_metrics.cli.root import commands

    commands()
