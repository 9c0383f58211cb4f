"""Means of two seconds of a run, healthy but for what a test wants to stand out."""

from __future__ import annotations

from collections.abc import Mapping

from unilab_schema.bottleneck import Bottleneck, Rule


def sac(
    *,
    learner: Mapping[str, float] | None = None,
    collector: Mapping[str, float] | None = None,
    **more: float,
) -> dict[str, float]:
    """A healthy iteration of 100 ms and a healthy cycle of 100 ms, in percent of each; what is
    not given of the wall is Learning, and of the cycle waiting for actions."""
    phases = {
        "collector_wait": 2.0, "inference": 6.0, "collector_release": 1.0,
        "replay_batch_wait": 0.1, "replay_sample": 2.0,
    } | dict(learner or {})  # fmt: skip
    ticks = {
        "inference_request": 1.0, "env_step": 10.0, "transition_extract": 1.0,
        "replay_write": 2.0, "metrics_publish": 0.5,
    } | dict(collector or {})  # fmt: skip
    values = {f"Perf/learner_{name}_ms": ms for name, ms in phases.items()}
    values["Perf/learning_time"] = (100.0 - sum(phases.values())) / 1e3
    values["Perf/iteration_time"] = 0.1
    values["Perf/replay_ingress_h2d_submit_ms"] = 0.2
    values |= {f"Perf/collector_{name}_ms": ms for name, ms in ticks.items()}
    values.setdefault("Perf/collector_learner_action_wait_ms", 100.0 - sum(ticks.values()))
    return values | {f"Perf/{name}": value for name, value in more.items()}


def with_share(rule: Rule, percent: float) -> dict[str, float]:
    """A run in which the rule's own share is ``percent`` and nothing else stands out."""
    if rule == "collector":
        return sac(learner={"collector_wait": percent})
    if rule == "inference":
        return sac(learner={"inference": percent})
    if rule == "prefetch":
        return sac(learner={"replay_batch_wait": percent})
    if rule == "ingress":
        return sac(collector={"replay_write": percent, "env_step": 1.0})
    if rule == "submit":
        return sac(replay_ingress_h2d_submit_ms=percent)
    rest = (100.0 - percent) / 5
    names = ("collector_wait", "inference", "collector_release", "replay_batch_wait",
             "replay_sample")  # fmt: skip
    return sac(learner=dict.fromkeys(names, rest), collector={"env_step": 2.0})


def rule_of(found: Bottleneck | None) -> Rule | None:
    return None if found is None else found.rule
