"""Which group of the overview a tag belongs to. Pure.

Losses, then policy state, training diagnostics, replay ingress; reward terms with the
rewards. What timelines, header and system show is no metric row; other canonical tags of
speed are for the backends only. What names of other libraries mean is in
``unilab_schema.known_names``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from unilab_schema.canonical.bus import DROPPED_PREFIX, TROUBLE_PREFIX
from unilab_schema.canonical.node import read_node_tag
from unilab_schema.known_names import (
    EPISODE_LENGTH,
    MEAN_REWARD,
    NAMES,
    TERM_STARTS,
    kind_by_name,
    tag_of,
)
from unilab_schema.metrics import BUS, CANONICAL, TERMINAL_ONLY, MetricTable
from unilab_schema.phases import collector_rows, family_of, learner_slices
from unilab_sidecar.groups.metric_group import Label
from unilab_sidecar.picture import Metric, Reading

Group = Literal["losses", "policy", "diagnostics", "ingress", "terms", "node", "others"]

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

_OF_THE_HEADER = frozenset({MEAN_REWARD, EPISODE_LENGTH})
"""But for a run that has named another reward."""
_PANELS: tuple[tuple[Group, ...], ...] = (
    ("losses", "policy", "diagnostics", "ingress"),
    ("terms",),
)
"""Whose labels stand below each other; the other groups' are whole tags or say their part of a
node."""
_ELSEWHERE = _OF_THE_HEADER | {"Train/iteration", TIMEOUT_RATE}
_CANONICAL_ORDER = {tag: position for position, tag in enumerate(CANONICAL)}
_TABLE = MetricTable()
_SHORTER = {"Policy/temperature": "Policy Temp"}
"""Labels that would cost the losses their second column at 96 cells."""


class _Known(NamedTuple):
    """``canonical``: the tag of the table that says the same."""

    group: Group
    label: str
    canonical: str = ""


_OF_LIBRARIES: dict[str, _Known] = {
    "Policy/mean_noise_std": _Known("policy", "Mean Std", "Policy/mean_std"),
    "Loss/value_function": _Known("losses", "Value", "Loss/value"),
    "Loss/rnd": _Known("losses", "RND"),
    "Loss/symmetry": _Known("losses", "Symmetry"),
    "Loss/behavior": _Known("losses", "Behavior"),
    "Loss/amp_loss": _Known("losses", "AMP"),
    "Loss/grad_pen_loss": _Known("losses", "Grad Penalty"),
    "Loss/mean_kl_divergence": _Known("losses", "KL Divergence"),
    "AMP/mean_style_reward": _Known("terms", "Style"),
    "AMP/mean_total_reward": _Known("terms", "Total"),
    "Train/mean_style_reward": _Known("terms", "Style", "AMP/mean_style_reward"),
    "Train/mean_task_reward": _Known("terms", "Task"),
    "Rnd/mean_extrinsic_reward": _Known("terms", "Extrinsic"),
    "Rnd/mean_intrinsic_reward": _Known("terms", "Intrinsic"),
    "Rnd/weight": _Known("diagnostics", "RND Weight"),
}
"""What releases of rsl_rl and its AMP extension log beyond the table, or by other names."""


_SHORTENED = ("Loss/", "Policy/", "Train/")
"""The table's: whoever logs more of these means the same by them."""
_SYSTEM = (BUFFER_SIZE, BUFFER_CAPACITY, TIMEOUT_RATE, ENVIRONMENTS, BATCH_PER_RANK, MPS)


def grouped(
    tags: Iterable[str], algorithm: str = "", reward_tag: str = ""
) -> dict[Group, list[Label]]:
    """Tags by group: canonical ones in the order of the table, then the rest by name. ``algorithm``,
    ``reward_tag``: the run's, for what stands elsewhere."""
    groups: dict[Group, list[Label]] = {
        "losses": [],
        "policy": [],
        "diagnostics": [],
        "ingress": [],
        "terms": [],
        "node": [],
        "others": [],
    }
    there = frozenset(tags)
    elsewhere = {tag_of(meaning, there) for meaning in NAMES if meaning != "reward"}
    elsewhere |= {tag_of("reward", there, reward_tag)}
    elsewhere |= {phase.tag for phase in learner_slices(algorithm, there)}
    elsewhere |= {phase.tag for phase in collector_rows(algorithm, there)}
    for tag in _in_order(there - elsewhere):
        group = "diagnostics" if tag in _OF_THE_HEADER else _group(tag)
        if group is not None:
            spec = _TABLE.spec(tag)
            label = _label(tag, group, there)
            groups[group].append(Label(tag, label, spec.unit if spec else unit_by_name(tag)))
    for panel in _PANELS:
        _tell_apart([groups[group] for group in panel])
    return groups


def _tell_apart(panel: Sequence[list[Label]]) -> None:
    """Whole tags in place of labels that are alike, also but for capitals and underscores."""
    counts = Counter(_sound(one) for labels in panel for one in labels)
    for labels in panel:
        labels[:] = [
            one if counts[_sound(one)] == 1 else one._replace(label=one.tag) for one in labels
        ]


def _sound(one: Label) -> str:
    return one.label.casefold().replace("_", " ")


def of_groups(groups: Sequence[Group], tags: Iterable[str], most: int) -> list[str]:
    """The first of these groups, in the order that ``grouped`` gives each of them."""
    found: dict[Group | None, list[str]] = {}
    for tag in tags:
        found.setdefault(_group(tag), []).append(tag)
    ordered: list[str] = []
    for group in groups:
        if len(ordered) < most:
            ordered += _in_order(frozenset(found.get(group, ())))
    return ordered[:most]


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


def _in_order(tags: frozenset[str]) -> list[str]:
    canonical = sorted(tags & _CANONICAL_ORDER.keys(), key=_CANONICAL_ORDER.__getitem__)
    return canonical + sorted(tags - _CANONICAL_ORDER.keys())


def _label(tag: str, group: Group, there: frozenset[str]) -> str:
    known = _OF_LIBRARIES.get(tag)
    if known is not None and known.canonical not in there:
        return known.label
    if group == "terms":
        return next((tag[len(start) :] for start in TERM_STARTS if tag.startswith(start)), tag)
    # A name that nobody declared says where it belongs only when it is whole.
    is_whole = group == "others" or (group != "node" and not tag.startswith(_SHORTENED))
    return tag if is_whole else _SHORTER.get(tag) or _TABLE.label(tag)


def unit_by_name(tag: str) -> str:
    """Of a phase of somebody's own, which the table does not have."""
    is_time = tag.startswith("Perf/") and tag.endswith(("_ms", "_ms_per_rank"))
    return "ms" if is_time else ""


@lru_cache(maxsize=1 << 15)
def _group(tag: str) -> Group | None:
    known = _OF_LIBRARIES.get(tag)
    if known is not None:
        return known.group
    if tag in _ELSEWHERE or tag in TERMINAL_ONLY or is_of_the_bus(tag):
        return None
    kind = kind_by_name(tag)
    if kind is not None:
        return kind
    if tag not in CANONICAL:
        return "node" if read_node_tag(tag) is not None else "others"
    if tag.startswith("Train/replay_ingress_"):
        return "ingress"
    return "diagnostics" if tag.startswith("Train/") else None
