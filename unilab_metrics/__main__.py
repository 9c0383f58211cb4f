"""``python -m unilab_metrics``: the command line, for processes that start each other."""

from __future__ import annotations

from unilab_metrics.cli import main

if __name__ == "__main__":
    main()
