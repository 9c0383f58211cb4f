"""A look at a run that is about to begin, for benchmarks."""

from __future__ import annotations

import time
from pathlib import Path

from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.subscribe.subscriber import Subscriber


def attached(run_dir: Path, limit_s: float) -> Subscriber:
    """A subscriber, as soon as there is a bus. Raises what ``Subscriber.attach`` does if there is
    none within ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return Subscriber.attach(run_dir)
        except UnilabMetricsError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
