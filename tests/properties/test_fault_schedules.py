"""The generator of kill schedules: a function of its seed that leaves nothing out."""

from __future__ import annotations

from fault_schedule import EVERYBODY, PHASES, SPANS_S, counts, plan
from hypothesis import given
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_a_seed_gives_the_same_schedule_again(seed: int) -> None:
    assert plan(seed) == plan(seed)


@given(SEEDS)
def test_a_schedule_is_in_order_and_within_its_phases(seed: int) -> None:
    faults = plan(seed).faults
    assert 1 <= len(faults) <= 6
    order = [(PHASES.index(fault.phase), fault.at_s) for fault in faults]
    assert order == sorted(order)
    for fault in faults:
        assert 0 <= fault.at_s <= SPANS_S[fault.phase]
        assert fault.victims
        assert set(fault.victims) <= set(EVERYBODY)
        assert (fault.pause_s > 0) == (fault.action == "pause")


@given(SEEDS)
def test_only_a_training_that_was_killed_whole_is_ended_by_others(seed: int) -> None:
    schedule = plan(seed)
    if schedule.ending != "close":
        last = schedule.faults[-1]
        assert (last.phase, last.action) == ("close", "kill")
        assert {"learner-0", "learner-1", "collector-0", "collector-1"} <= set(last.victims)


def test_a_hundred_seeds_meet_every_kind_in_every_phase() -> None:
    plans = [plan(seed) for seed in range(100)]
    kinds = {victim.split("-")[0] for victim in EVERYBODY}
    assert set(counts(plans)) == {
        f"{action} {kind}" for action in ("kill", "pause") for kind in kinds
    }
    met = {
        (f.phase, victim, f.action) for each in plans for f in each.faults for victim in f.victims
    }
    for phase in PHASES:
        for victim in EVERYBODY:
            assert (phase, victim, "kill") in met
    assert {len(f.victims) for each in plans for f in each.faults} >= {1, 2, len(EVERYBODY)}
    assert {each.ending for each in plans} == {"close", "attempt", "offline"}
