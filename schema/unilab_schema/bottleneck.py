"""The diagnosis table of the logging document as rules over a window's means.

A share counts as high from a stated threshold on, and every rule reads shares of one clock only:
the learner's of its iteration wall, the collector's of its own cycle. With four environment
steps per iteration a learner's values are sums of four ticks and a collector's are per tick, so
milliseconds of the two are never compared.

Of several that hold one is told, the cause and not what follows from it:

1. the largest of the slices that the learner's wall loses (Collector Wait, Inference, Replay
   Batch Wait). Where that is Collector Wait and the collector spends more on Replay Write than
   on Env Step, the ingress is what makes the collector late;
2. the update itself, where it leaves nothing else of the wall;
3. a high Replay Write for which the learner does not wait;
4. a long background submit, which costs no iteration time.

Only the table's rows are rules: APPO has no action wait, no batch wait and no ingress, and its
Replay Stage is work of the main thread and not a wait for a prefetch, so that a late collector
is all that can be told of it. Of an algorithm without a profile, which has no cycle, only the
slices of the wall are looked at. On-policy runs have none of them and are never told anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from unilab_schema.bottleneck_shares import Share, Shares, milliseconds, read_shares

__all__ = ["LOW_PERCENT", "THRESHOLDS", "Bottleneck", "Rule", "Share", "Threshold", "bottleneck"]

Rule = Literal["collector", "learner", "inference", "prefetch", "ingress", "submit"]


class Threshold(NamedTuple):
    """Percentages of the rule's clock: from ``high`` on a rule holds, and what is on the screen
    stays there down to ``keep``, so that a share around ``high`` does not flicker."""

    high: float
    keep: float


THRESHOLDS: dict[Rule, Threshold] = {
    "collector": Threshold(25.0, 20.0),
    "learner": Threshold(98.0, 97.5),
    "inference": Threshold(25.0, 20.0),
    "prefetch": Threshold(10.0, 8.0),
    "ingress": Threshold(25.0, 20.0),
    "submit": Threshold(25.0, 20.0),
}
"""Of Iter Wall, for ``ingress`` of the collector's cycle. What real runs show in two seconds:

- ``collector``: 0 to 4 % of the wall once a run is under way. A quarter of every iteration is
  lost time that nobody has to search for.
- ``learner``: Learning itself. To train is what a learner is for, and real SAC runs do so for
  90 to 97.2 % of the wall, while their collectors wait for 97 to 99.4 % of the cycle. It stands
  out where even inference and sampling together are no longer a fiftieth.
- ``inference``: 2.4 to 5.6 % with one tick per iteration, so a fifth with four.
- ``prefetch``: below 0.1 %. Rows that are gathered ahead are there, so a tenth is no noise.
- ``ingress``: Replay Write, 0.05 to 1 %, up to 8 % on a crowded machine.
- ``submit``: the last copy, below 0.3 %. It costs nothing, so it must be long to be worth a line.
"""

LOW_PERCENT = 5.0
"""Of Iter Wall: a wait below that is none, neither for the collector nor for a batch."""
WAITING_PERCENT = 90.0
"""Of its cycle: from here on a collector that waits for actions does little else."""

_IDLE_PERCENT = 50.0
"""Of its cycle: a late collector that waits for so long is late for another reason than its
work."""
_INGRESS_PLACES = ("ingress slots", "device commit", "transition post-processing")
_WRITING_PLACES = ("transition post-processing", "copy into the ingress slot")
_FULL_SHARE = 0.5
"""Of the ingress slots: with fewer in use on average, neither they nor the commits that free them
are what a writer waits for."""
_MOST_SLOTS = 1e6
_STAYS = 1.25
"""By how much another cause must exceed the one on the screen to take its place."""


class Bottleneck(NamedTuple):
    """What stands out. ``share``: the one that is high. ``more``: further numbers in words.
    ``look``: where to look first, the most likely place first. ``costs_time``: whether
    iterations are longer for it, ``None`` where the tags do not tell."""

    rule: Rule
    share: Share
    more: tuple[str, ...]
    look: tuple[str, ...]
    costs_time: bool | None

    @property
    def note(self) -> str:
        """What must be said besides the numbers, empty for nothing."""
        return "no iteration time lost" if self.costs_time is False else ""

    @property
    def text(self) -> str:
        """All of it, as one sentence without a full stop."""
        told = (self.share.text, *self.more, *([self.note] if self.note else []))
        return f"{'; '.join(told)}; look at {', '.join(self.look)}"


def bottleneck(
    values: Mapping[str, float], algorithm: str, *, shown: Rule | None = None
) -> Bottleneck | None:
    """The bottleneck of a window, or ``None`` if nothing stands out.

    ``values``: tag to mean in the tag's own unit. ``shown``: what the screen says now, for which
    the lower thresholds count. Never raises: a missing tag, a NaN or a wall of 0 makes no rule
    hold that needs it.
    """
    shares = read_shares(values, algorithm)
    if shares is None:
        return None
    slices: list[tuple[float, Bottleneck]] = []
    for rule in (_late_collector, _slow_inference, _late_batches):
        found = rule(shares, shown)
        if found is not None:
            percent = found.share.percent or 0.0
            stays = found.rule == shown or (rule is _late_collector and shown == "ingress")
            slices.append((percent * (_STAYS if stays else 1.0), found))
    if slices:
        found = max(slices, key=lambda one: one[0])[1]
        return _cause_of_late_collector(found, shares, shown)
    return (
        _update_is_all(shares, shown) or _slow_writes(shares, shown) or _long_submits(shares, shown)
    )


def _late_collector(shares: Shares, shown: Rule | None) -> Bottleneck | None:
    """Table row 1: the learner begins an iteration, and the collector's request is not there."""
    wait = shares.learner("collector_wait")
    # What makes a collector late is decided afterwards.
    is_shown: Rule | None = "collector" if shown == "ingress" else shown
    if wait is None or not _is_high(wait, "collector", is_shown):
        return None
    parts = [(shares.collector("env_step"), "env step")]
    if shares.is_appo:
        parts.append((shares.collector("mlp_infer"), "policy inference"))
        more = _texts(shares.collector("rollout"))
    else:
        parts.append((shares.collector("transition_extract"), "transition post-processing"))
        more = ()
    known = sorted(
        ((part, name) for part, name in parts if part is not None),
        key=lambda one: one[0].ms,
        reverse=True,
    )
    own = [name for _, name in known] or [name for _, name in parts]
    reached = ["whether the collector lives", "IPC"]
    action_wait = shares.collector("learner_action_wait")
    is_idle = not known or (
        action_wait is not None and (action_wait.percent or 0.0) >= _IDLE_PERCENT
    )
    more += _texts(*(part for part, _ in known[:1]))
    look = tuple(reached + own if is_idle else own + reached)
    return Bottleneck("collector", wait, more, look, True)


def _cause_of_late_collector(found: Bottleneck, shares: Shares, shown: Rule | None) -> Bottleneck:
    """Table row 5 before row 1: who is late because it writes is told of its writing."""
    write = shares.collector("replay_write")
    if found.rule != "collector" or write is None or not _is_high(write, "ingress", shown):
        return found
    env_step = shares.collector("env_step")
    step_ms = env_step.ms if env_step is not None else 0.0
    stays = {"ingress": _STAYS, "collector": 1.0 / _STAYS}.get(shown or "", 1.0)
    if write.ms * stays < step_ms:
        return found
    return Bottleneck("ingress", write, _ingress_evidence(shares), _ingress_places(shares), True)


def _slow_inference(shares: Shares, shown: Rule | None) -> Bottleneck | None:
    """Table row 3: the learner's own path to an action is slow."""
    inference = shares.learner("inference")
    if inference is None or not _is_high(inference, "inference", shown):
        return None
    names = {"inference_forward": "forward", "inference_h2d": "H2D", "inference_d2h": "D2H"}
    parts = [(shares.learner(phase), name) for phase, name in names.items()]
    # The largest first; what nobody has measured keeps its place behind them.
    parts.sort(key=lambda one: one[0].ms if one[0] is not None else -1.0, reverse=True)
    look = (name if part is None else f"{name} {milliseconds(part.ms)} ms" for part, name in parts)
    return Bottleneck("inference", inference, (), tuple(look), True)


def _late_batches(shares: Shares, shown: Rule | None) -> Bottleneck | None:
    """Table row 4: the prefetch of the replay does not keep up with the updates."""
    wait = shares.learner("replay_batch_wait")
    if wait is None or not _is_high(wait, "prefetch", shown):
        return None
    look = ("ingress commit", "side-stream gather", "GPU contention")
    return Bottleneck("prefetch", wait, (), look, True)


def _update_is_all(shares: Shares, shown: Rule | None) -> Bottleneck | None:
    """Table row 2: the collector waits, the learner does not, and all it does is to train."""
    action_wait = shares.collector("learner_action_wait")
    wait, learning = shares.learner("collector_wait"), shares.learner("learning")
    if action_wait is None or (action_wait.percent or 0.0) < WAITING_PERCENT:
        return None
    if wait is None or wait.percent is None or not wait.percent < LOW_PERCENT:
        return None
    if learning is None or not _is_high(learning, "learner", shown):
        return None
    look = ("updates_per_step", "batch size", "then H2D, forward and D2H of inference")
    return Bottleneck("learner", learning, _texts(action_wait, wait), look, True)


def _slow_writes(shares: Shares, shown: Rule | None) -> Bottleneck | None:
    """Table row 5: the collector spends its time on the way into the replay."""
    write = shares.collector("replay_write")
    if write is None or not _is_high(write, "ingress", shown):
        return None
    wait = shares.learner("collector_wait")
    costs_time = None if wait is None or wait.percent is None else wait.percent >= LOW_PERCENT
    places = _ingress_places(shares)
    return Bottleneck("ingress", write, _ingress_evidence(shares), places, costs_time)


def _long_submits(shares: Shares, shown: Rule | None) -> Bottleneck | None:
    """Table row 6: slow in the background only, since no slice of the wall is high by now."""
    submit, wait = shares.learner("replay_ingress_h2d_submit"), shares.learner("replay_batch_wait")
    # Without a wait that is known to be short nobody can say that it costs nothing. What is on the
    # screen stays until the wait is a bottleneck itself.
    limit = THRESHOLDS["prefetch"].high if shown == "submit" else LOW_PERCENT
    if wait is None or wait.percent is None or not wait.percent < limit:
        return None
    if submit is None or not _is_high(submit, "submit", shown):
        return None
    look = ("Perfetto", "GPU copy", "ingress commit", "overlaps")
    costs_time = False if wait.percent < LOW_PERCENT else None
    return Bottleneck("submit", submit._replace(is_beside=True), _texts(wait), look, costs_time)


def _slots(shares: Shares) -> tuple[float, float] | None:
    """How many are used of how many, if both are known."""
    used, depth = shares.ingress_occupancy, shares.ingress_depth
    if used is None or depth is None or max(abs(used), abs(depth)) >= _MOST_SLOTS:
        return None
    return used, depth


def _ingress_evidence(shares: Shares) -> tuple[str, ...]:
    slots = _slots(shares)
    told = (f"{slots[0]:.1f} of {slots[1]:.0f} ingress slots used",) if slots else ()
    return _texts(shares.learner("collector_wait")) + told


def _ingress_places(shares: Shares) -> tuple[str, ...]:
    """The table asks first whether the slots are exhausted: where that is known not to be so, what
    is left is the writing itself."""
    slots = _slots(shares)
    is_free = slots is not None and slots[1] > 0 and slots[0] < slots[1] * _FULL_SHARE
    return _WRITING_PLACES if is_free else _INGRESS_PLACES


def _texts(*shares: Share | None) -> tuple[str, ...]:
    return tuple(share.text for share in shares if share is not None)


def _is_high(share: Share, rule: Rule, shown: Rule | None) -> bool:
    threshold = THRESHOLDS[rule]
    limit = threshold.keep if shown == rule else threshold.high
    # The last bit of a mean must not decide about a share at exactly the threshold.
    return share.percent is not None and share.percent >= limit - 1e-9
