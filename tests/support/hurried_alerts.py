"""An aggregator whose alerts have the patience of a test: seconds instead of minutes.

Stands in for the interpreter of the helpers (``UNILAB_METRICS_PYTHON``), as the program itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

STALLED_S = 2.5
BEHIND_S = 2.5


def interpreter(folder: Path) -> Path:
    """An executable to be named as the helpers' interpreter."""
    path = folder / "hurried-python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).absolute()}" "$@"\n')
    path.chmod(0o755)
    return path


def hurry() -> None:
    """What takes minutes takes seconds from here on."""
    from unilab_metrics.aggregate.alerting import alerts, lagging, stalls

    hurried = {
        stalls: {"LEAST_S": STALLED_S, "HEARD_WITHIN_S": 0.5},
        lagging: {"BEHIND_S": BEHIND_S, "CAUGHT_UP_S": 0.5, "_STEP_S": 0.1},
        alerts: {"LOOK_NS": 100_000_000},
    }
    for module, values in hurried.items():
        for name, value in values.items():
            assert hasattr(module, name), name
            setattr(module, name, value)


def main() -> None:
    # Called as ``hurried-python -m unilab_metrics COMMAND ...``.
    arguments = sys.argv[3:]
    if arguments[0] == "aggregate":
        hurry()
    sys.argv = ["unilab-metrics", *arguments]
    from unilab_metrics.cli import main as run

    run()


if __name__ == "__main__":
    main()
