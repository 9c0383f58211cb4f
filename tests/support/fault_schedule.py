"""Which processes of a training are killed or stopped, and when: a function of a seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Phase = Literal["startup", "handshake", "steady", "close"]
Action = Literal["kill", "pause"]
Ending = Literal["close", "attempt", "offline"]

PHASES: tuple[Phase, ...] = ("startup", "handshake", "steady", "close")
TRAINING = ("learner-0", "learner-1", "collector-0", "collector-1")
HELPERS = ("aggregator", "writer", "sidecar")
EVERYBODY = TRAINING + HELPERS
SPANS_S: dict[Phase, float] = {"startup": 0.5, "handshake": 0.6, "steady": 1.5, "close": 0.6}
"""How long after the beginning of a phase its faults come: of the start, of rank 0's first
words, of a writer's work, of the end."""


@dataclass(frozen=True)
class Fault:
    """``at_s``: since the beginning of its phase. ``pause_s``: how long who is paused stays
    stopped."""

    phase: Phase
    at_s: float
    action: Action
    victims: tuple[str, ...]
    pause_s: float = 0.0


@dataclass(frozen=True)
class Plan:
    """``ending``: what happens when the last fault killed the training itself: ``attempt``,
    the next attempt, or ``offline``, a command. Without such a fault it just closes."""

    seed: int
    faults: tuple[Fault, ...]
    ending: Ending


def plan(seed: int) -> Plan:
    """Two to five faults in the order of their phases and times."""
    random = Random(seed)
    faults = [_fault(random) for _ in range(random.randint(2, 5))]
    faults.sort(key=lambda fault: (PHASES.index(fault.phase), fault.at_s))
    ending: Ending = "close"
    if random.random() < 0.4:
        ending = "attempt" if random.random() < 0.5 else "offline"
        at_s = round(random.uniform(0.0, SPANS_S["close"]), 3)
        helpers = tuple(name for name in HELPERS if random.random() < 0.5)
        faults = [fault for fault in faults if fault.phase != "close"]
        faults.append(Fault("close", at_s, "kill", TRAINING + helpers))
    return Plan(seed, tuple(faults), ending)


def _fault(random: Random) -> Fault:
    phase = random.choice(PHASES)
    at_s = round(random.uniform(0.0, SPANS_S[phase]), 3)
    many = random.random()
    if many < 0.7:
        victims = (random.choice(EVERYBODY),)
    elif many < 0.92:
        victims = tuple(random.sample(EVERYBODY, 2))
    else:
        victims = EVERYBODY
    if random.random() < 0.7:
        return Fault(phase, at_s, "kill", victims)
    return Fault(phase, at_s, "pause", victims, round(random.uniform(0.1, 1.2), 3))


def counts(plans: list[Plan]) -> dict[str, int]:
    """How many faults there are, by action and kind of process."""
    found: dict[str, int] = {}
    for each in plans:
        for fault in each.faults:
            for victim in fault.victims:
                kind = f"{fault.action} {victim.split('-')[0]}"
                found[kind] = found.get(kind, 0) + 1
    return found
