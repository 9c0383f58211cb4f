"""Every fuzz target for a while, one after the other: ``run_all.py SECONDS [NAME...]``.

Prints one line for each. Ends with 1 if any target had a finding, and with 0 and a reason where
atheris is not installed: it has no wheels for every platform.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
_UNITS = re.compile(r"number_of_executed_units:\s*(\d+)")


def main() -> int:
    seconds = sys.argv[1]
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: skipped, atheris is not installed here (pip install '.[fuzz]')")
        return 0
    sys.path.insert(0, str(HERE.parent / "support"))
    from fuzz_targets import TARGETS

    failed = 0
    for name in sys.argv[2:] or TARGETS:
        command = [sys.executable, str(HERE / "run_target.py"), name, seconds]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=folder, check=False,
                env=os.environ | {"TMPDIR": folder},
            )  # fmt: skip
        units = _UNITS.search(done.stderr)
        count = f"{int(units[1]):,} inputs" if units else "no count"
        print(f"{name:<12} {'ok' if done.returncode == 0 else 'FAILED'}  {count}", flush=True)
        if done.returncode:
            failed += 1
            print(done.stdout[-2000:], done.stderr[-4000:], sep="\n", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
