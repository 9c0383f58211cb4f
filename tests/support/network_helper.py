"""The interpreter of the helpers (``UNILAB_METRICS_PYTHON``) of a run over two hosts: the same
program, with less patience for silent hosts than the 60 s and 30 s of real runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LOST_AFTER_VARIABLE = "NETWORK_TEST_LOST_AFTER_S"
STRAGGLER_VARIABLE = "NETWORK_TEST_STRAGGLER_S"


def interpreter(folder: Path) -> Path:
    """An executable to be named as the helpers' interpreter."""
    path = folder / "network-python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).absolute()}" "$@"\n')
    path.chmod(0o755)
    return path


def main() -> None:
    # Called as ``network-python -m unilab_metrics COMMAND ...``.
    arguments = sys.argv[3:]
    if arguments[0] == "aggregate":
        from unilab_metrics.aggregate.options import Options

        defaults = Options.__init__.__kwdefaults__
        assert defaults is not None
        for name, variable in {
            "lost_after_s": LOST_AFTER_VARIABLE,
            "straggler_deadline_s": STRAGGLER_VARIABLE,
        }.items():
            assert name in defaults, name
            defaults[name] = float(os.environ.get(variable) or defaults[name])
    sys.argv = ["unilab-metrics", *arguments]
    from unilab_metrics.cli import main as run

    run()


if __name__ == "__main__":
    main()
