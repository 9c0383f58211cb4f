"""Which group of the overview a tag belongs to. Pure.

Losses, then policy state, training diagnostics, replay ingress; reward terms with the
rewards. What timelines, header and system show is no metric row; other canonical tags of
speed are for the backends only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from unilab_schema.canonical.bus import DROPPED_PREFIX, TROUBLE_PREFIX
from unilab_schema.metrics import BUS, CANONICAL, TERMINAL_ONLY, MetricTable
from unilab_schema.timing import family_of
from unilab_sidecar.picture import Metric, Reading

Group = Literal["losses", "policy", "diagnostics", "ingress", "terms", "others"]

MEAN_REWARD = "Train/mean_reward"
EPISODE_LENGTH = "Train/mean_episode_length"
STEPS_PER_S = "Perf/total_fps"
ROWS_PER_S = "Terminal/replay_rows_per_s"
TIMEOUT_RATE = "Episode/timeout_rate"
BUFFER_SIZE = "Terminal/buffer_size"
BUFFER_CAPACITY = "Terminal/buffer_capacity"
ENVIRONMENTS = "Terminal/num_envs"
BATCH_PER_RANK = "Terminal/batch_per_rank"
MPS = "Terminal/mps"
BACKLOG = "Bus/backlog_frames"
ACK_LATENCY = "Bus/ack_latency_ms"
PUBLISH_COST = "Bus/publish_us"

_ELSEWHERE = frozenset({"Train/iteration", MEAN_REWARD, EPISODE_LENGTH, TIMEOUT_RATE})
_CANONICAL_ORDER = {tag: position for position, tag in enumerate(CANONICAL)}
_TABLE = MetricTable()
_SHORTER = {"Policy/temperature": "Policy Temp"}
"""Labels that would cost the losses their second column at 96 cells."""


_SYSTEM = (BUFFER_SIZE, BUFFER_CAPACITY, TIMEOUT_RATE, ENVIRONMENTS, BATCH_PER_RANK, MPS)


class Label(NamedTuple):
    """A tag, its short name and its unit."""

    tag: str
    label: str
    unit: str


def grouped(tags: Iterable[str]) -> dict[Group, list[Label]]:
    """Tags by group: canonical ones in the order of the table, then the rest by name."""
    groups: dict[Group, list[Label]] = {
        "losses": [],
        "policy": [],
        "diagnostics": [],
        "ingress": [],
        "terms": [],
        "others": [],
    }
    for tag in sorted(tags, key=_order):
        group = _group(tag)
        if group is not None:
            spec = _TABLE.spec(tag)
            # A name that nobody declared says where it belongs only when it is whole.
            label = tag if group == "others" else _SHORTER.get(tag) or _TABLE.label(tag)
            groups[group].append(Label(tag, label, spec.unit if spec else ""))
    return groups


def system(algorithm: str, readings: Mapping[str, Reading]) -> tuple[Metric, ...]:
    """What the system column shows, under its tags."""
    shown = {tag: readings[tag] for tag in _SYSTEM if tag in readings}
    if family_of(algorithm) in ("off_policy", "appo"):
        # Without evidence of a server, processes do not share the device through one.
        shown.setdefault(MPS, Reading(0.0))
    return tuple(Metric(tag, tag, reading) for tag, reading in shown.items())


def is_of_the_bus(tag: str) -> bool:
    """Whether the bus measures it of itself."""
    return tag in BUS or tag.startswith((DROPPED_PREFIX, TROUBLE_PREFIX))


def _order(tag: str) -> tuple[int, str]:
    return _CANONICAL_ORDER.get(tag, len(_CANONICAL_ORDER)), tag


def _group(tag: str) -> Group | None:
    if tag in _ELSEWHERE or tag in TERMINAL_ONLY or is_of_the_bus(tag):
        return None
    if tag.startswith("reward/"):
        return "terms"
    if tag.startswith("Loss/"):
        return "losses"
    if tag.startswith("Policy/"):
        return "policy"
    if tag not in CANONICAL:
        return "others"
    if tag.startswith("Train/replay_ingress_"):
        return "ingress"
    return "diagnostics" if tag.startswith("Train/") else None
