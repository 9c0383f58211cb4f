"""One fuzz target under atheris: ``run_target.py NAME SECONDS [CORPUS]``.

Ends with 0 when the time is over without a finding. The corpus, by default ``corpus``, and what
was found stay in the working directory. ``make fuzz`` runs all targets in temporary ones.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

# Not by name: it is not there on every platform that checks types.
atheris: Any = importlib.import_module("atheris")

with atheris.instrument_imports(include=["unilab_metrics", "unilab_schema"]):
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    from fuzz_targets import TARGETS, seeds

MAX_INPUT_BYTES = 16 * 1024


def main() -> None:
    name, seconds = sys.argv[1], int(sys.argv[2])
    target = TARGETS[name]
    corpus = Path(sys.argv[3] if len(sys.argv) > 3 else "corpus")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={MAX_INPUT_BYTES}",
        "-timeout=20",
        "-rss_limit_mb=1024",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target)
    # Never returns: nothing is cleaned up behind it.
    atheris.Fuzz()


if __name__ == "__main__":
    main()
