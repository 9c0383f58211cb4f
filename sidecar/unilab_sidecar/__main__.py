"""``python -m unilab_sidecar RUN_DIR``; what it does is in ``program``."""

from __future__ import annotations

import sys

from unilab_metrics.early_interrupts import end_by_interrupts

if __name__ == "__main__":
    end_by_interrupts()
    from unilab_sidecar.program import main

    sys.exit(main())
