"""Processes of a training that are killed and stopped: nothing lost, nothing twice.

A seed that fails is played again by ``make soak-faults SEEDS=1 FIRST=<seed>``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from fault_ledgers import read_ledgers
from fault_oracle import compare
from fault_player import finish, play
from fault_runs import FEWEST_CALLS, complaints, side_by_side, until_sidecar_is_current
from fault_schedule import EVERYBODY, TRAINING, plan
from fault_training import FaultTraining

from unilab_metrics.errors import LeaseHeldError
from unilab_metrics.storage.lease import Lease, is_free
from unilab_metrics.transport.rendezvous import AGGREGATOR_LEASE, aggregator_lease, bus_directory

pytestmark = pytest.mark.timeout(480)

SEEDS = range(1, 5)
MORE_SEEDS = range(5, 21)
TIMES = 20


def seeded(folder: Path, seed: int) -> list[str]:
    with FaultTraining(folder / f"seed-{seed}", sidecar=True) as training:
        # Short trainings whose training dies at once publish little.
        return [*play(plan(seed), training).faults]


@pytest.mark.slow
def test_seeded_schedules(tmp_path: Path) -> None:
    assert side_by_side({f"seed {seed}": partial(seeded, tmp_path, seed) for seed in SEEDS}) == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_more_seeded_schedules(tmp_path: Path) -> None:
    scenarios = {f"seed {seed}": partial(seeded, tmp_path, seed) for seed in MORE_SEEDS}
    assert side_by_side(scenarios) == {}


def is_at_work(training: FaultTraining, group: tuple[str, ...]) -> bool:
    return all(map(training.pid, (*group, "writer")))


def has_published(training: FaultTraining) -> bool:
    """Whether there is enough to lose, however slowly the processes start."""
    calls = sum(len(ledger.spans_ns) for ledger in read_ledgers(training.ledgers))
    return calls > 2 * FEWEST_CALLS


def killed(
    folder: Path,
    groups: Sequence[tuple[str, ...]],
    *,
    between_s: float = 0.4,
    with_attempt: bool = False,
    offline: bool = False,
) -> list[str]:
    """Kill the groups one after the other, each as soon as all of it is at work."""
    with FaultTraining(folder, sidecar=True) as training:
        training.start_attempt()
        for number, group in enumerate(groups):
            training.until(lambda group=group: is_at_work(training, group))
            training.go_on(between_s)
            training.until(lambda: has_published(training))
            training.until(lambda group=group: is_at_work(training, group))
            if offline and number == len(groups) - 1:
                training.is_finishing = True
            pids = training.kill(*group)
            training.until(lambda pids=pids: not {*pids} & {*map(training.pid, EVERYBODY)})
        if not offline:
            training.go_on(between_s)
            until_sidecar_is_current(training)
        finish(training, with_attempt=with_attempt)
        return complaints(training, compare(training))


@pytest.mark.slow
def test_pairs_and_all_at_once(tmp_path: Path) -> None:
    pairs = [("aggregator", "writer"), ("learner-0", "aggregator"), ("learner-1", "collector-0")]
    scenarios: dict[str, Callable[[], list[str]]] = {
        "pairs": partial(killed, tmp_path / "pairs", pairs),
        "all, next attempt": partial(killed, tmp_path / "attempt", [EVERYBODY], with_attempt=True),
        "all, offline": partial(killed, tmp_path / "offline", [EVERYBODY], offline=True),
        "training, offline": partial(killed, tmp_path / "training", [TRAINING], offline=True),
    }
    assert side_by_side(scenarios) == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_helpers_that_are_killed_twenty_times(tmp_path: Path) -> None:
    scenarios = {
        place: partial(killed, tmp_path / place, [(place,)] * TIMES, between_s=0.2)
        for place in ("aggregator", "writer", "sidecar")
    }
    assert side_by_side(scenarios) == {}


@pytest.mark.slow
def test_publishers_that_die_while_there_is_no_aggregator(tmp_path: Path) -> None:
    with FaultTraining(tmp_path / "t") as training:
        training.start_attempt()
        training.until(lambda: training.pid("writer"))
        training.go_on(0.3)
        lease = hold_the_place_of_the_aggregator(training)
        try:
            training.go_on(0.3)
            training.kill("collector-0", "learner-1")
            training.go_on(0.5)
            training.kill("learner-0")
            training.go_on(0.5)
        finally:
            lease.release()
        training.until(lambda: training.pid("aggregator"))
        training.go_on(0.5)
        finish(training)
        assert complaints(training, compare(training)) == []


def hold_the_place_of_the_aggregator(training: FaultTraining) -> Lease:
    """Kill it and keep everybody from starting another one."""
    while True:
        training.kill("aggregator")
        training.until(lambda: is_free(aggregator_lease(training.run_dir)))
        try:
            return Lease.create(bus_directory(training.run_dir), AGGREGATOR_LEASE, b"")
        except LeaseHeldError:
            continue
