"""``python -m unilab_sidecar RUN_DIR``; what it does is in ``program``."""

from __future__ import annotations

import os
import sys

from unilab_metrics.early_interrupts import end_by_interrupts

if __name__ == "__main__":
    end_by_interrupts()
    # Nothing here is multiplied, and a thread per core is waited for as NumPy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from unilab_sidecar.program import main

    sys.exit(main())
