"""The aggregator and the writers of a training that is killed at will.

Stands in for the interpreter of the helpers (``UNILAB_METRICS_PYTHON``): the same program with
files that are full after some kilobytes, and with restarts that wait for nobody.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SEGMENT_BYTES_VARIABLE = "FAULT_TEST_SEGMENT_BYTES"


def interpreter(folder: Path) -> Path:
    """An executable to be named as the helpers' interpreter."""
    path = folder / "helper-python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).absolute()}" "$@"\n')
    path.chmod(0o755)
    return path


def hurry_restarts() -> None:
    """Dead helpers are started again at once; the tests have no minutes to wait."""
    from unilab_metrics.run import supervision

    for name, seconds in {"_FIRST_DELAY_S": 0.05, "_LONGEST_DELAY_S": 0.2}.items():
        assert hasattr(supervision, name), name
        setattr(supervision, name, seconds)


def main() -> None:
    # Called as ``helper-python -m unilab_metrics COMMAND ...``.
    arguments = sys.argv[3:]
    segment_bytes = int(os.environ.get(SEGMENT_BYTES_VARIABLE, "0"))
    if arguments[0] == "aggregate":
        from unilab_metrics.aggregate.journaling import journal, snapshots_due

        hurry_restarts()
        if segment_bytes:
            for name in ("WAL_SEGMENT_BYTES", "HISTORY_SEGMENT_BYTES"):
                assert hasattr(journal, name), name
                setattr(journal, name, segment_bytes)
            # And so do many short ones, by how long their folding takes.
            assert hasattr(snapshots_due, "FOLDED_S")
            snapshots_due.FOLDED_S = 0.02
    sys.argv = ["unilab-metrics", *arguments]
    from unilab_metrics.cli import main as run

    run()


if __name__ == "__main__":
    main()
