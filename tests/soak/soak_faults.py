"""Hundreds of seeds of the kill schedule, several runs at once, and a table of what came of them.

``make soak-faults SEEDS=200 FIRST=1 JOBS=3``, or ``python tests/soak/soak_faults.py --help``.
Ends with 1 if anything was lost or doubled, or if a run did not come to its end; the folder of
such a run is kept and named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, os.fspath(Path(__file__).parents[1] / "support"))

from fault_oracle import Outcome
from fault_player import play
from fault_schedule import Plan, counts, plan
from fault_training import FaultTraining

_FOLDERS = {
    "HOME": "home",
    "XDG_RUNTIME_DIR": "run",
    "UNILAB_METRICS_RUNTIME": "sockets",
    "XDG_STATE_HOME": "state",
    "UNILAB_METRICS_SPOOL": "spool",
    "TMPDIR": "tmp",
}
_HEAD = (
    "  seed  faults               published  journal  tensorboard  lost  doubled  "
    "slowest recovery  run"
)


class Result(NamedTuple):
    plan: Plan
    outcome: Outcome
    took_s: float
    kept: Path | None


def run_seed(seed: int) -> Result:
    """One run in folders of its own."""
    began_s = time.monotonic()
    schedule = plan(seed)
    home = Path(tempfile.mkdtemp(prefix=f"um-soak-{seed}-"))
    environment: dict[str, str] = {}
    for name, folder in _FOLDERS.items():
        (home / folder).mkdir(mode=0o700)
        environment[name] = os.fspath(home / folder)
    try:
        with FaultTraining(home / "t", sidecar=True, environment=environment) as training:
            outcome = play(schedule, training)
    except Exception as error:  # noqa: BLE001 (the other seeds go on)
        outcome = Outcome(faults=[f"{type(error).__name__}: {error}"])
        (home / "error.txt").write_text(traceback.format_exc())
    kept = home if outcome.faults else None
    if kept is None:
        shutil.rmtree(home, ignore_errors=True)
    return Result(schedule, outcome, time.monotonic() - began_s, kept)


def lines(result: Result) -> Iterator[str]:
    """The rows of one seed."""
    outcome = result.outcome
    by_kind = counts([result.plan])
    kills = sum(n for kind, n in by_kind.items() if kind.startswith("kill"))
    slowest_s = max(outcome.recoveries_s, default=0.0)
    yield (
        f"{result.plan.seed:6} {kills:3} kills, {sum(by_kind.values()) - kills:2} stops"
        f"{outcome.published:14,}{outcome.journaled:9,}{outcome.in_tensorboard:13,}"
        f"{outcome.lost:6}{outcome.duplicated:9}{slowest_s:15.2f} s{result.took_s:6.1f} s"
    )
    for fault in outcome.faults:
        yield f"        {fault}"
    if result.kept:
        yield f"        kept in {result.kept}"


def totals(results: list[Result]) -> Iterator[str]:
    """The last rows of the table."""
    outcomes = [result.outcome for result in results]
    recoveries = sorted(s for outcome in outcomes for s in outcome.recoveries_s)
    bad = [result for result in results if result.outcome.faults]
    yield f"{len(results)} runs, {len(bad)} with faults found"
    injected = sorted(counts([result.plan for result in results]).items())
    yield "injected    " + ", ".join(f"{count} {kind}" for kind, count in injected)
    yield f"published   {sum(o.published for o in outcomes):,}"
    yield f"journal     {sum(o.journaled for o in outcomes):,}"
    yield f"tensorboard {sum(o.in_tensorboard for o in outcomes):,}"
    yield f"lost        {sum(o.lost for o in outcomes)}"
    yield f"doubled     {sum(o.duplicated for o in outcomes)}"
    if recoveries:
        median = recoveries[len(recoveries) // 2]
        yield f"recovery    median {median:.2f} s, slowest {recoveries[-1]:.2f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=max(2, os.cpu_count() or 2))
    options = parser.parse_args()
    print(_HEAD, flush=True)
    results: list[Result] = []
    seeds = range(options.first, options.first + options.seeds)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            for result in pool.map(run_seed, seeds):
                results.append(result)
                print("\n".join(lines(result)), flush=True)
        except KeyboardInterrupt:
            # The trainings that run are brought to their end, or they would go on for ever.
            pool.shutdown(cancel_futures=True)
            print("interrupted", flush=True)
    print("\n".join(totals(results)), flush=True)
    return int(any(result.outcome.faults for result in results))


if __name__ == "__main__":
    sys.exit(main())
