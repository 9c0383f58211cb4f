"""Canonical tags of speed: throughput, walls, learner and collector phases, inference gauges.

A name that ends in ``_ms`` (or ``_ms_per_rank``) is in milliseconds; ``Perf/iteration_time``,
``Perf/learning_time`` and ``Perf/collection_time`` are in seconds.
"""

from __future__ import annotations

from unilab_schema.metric_spec import MetricSpec, OverTime


def _learner_ms(name: str, label: str, description: str) -> MetricSpec:
    return MetricSpec(f"Perf/{name}_ms", "learner", "ms", label=label, description=description)


def _collector_ms(name: str, label: str, description: str) -> MetricSpec:
    return MetricSpec(
        f"Perf/collector_{name}_ms",
        "collector",
        "ms",
        label=label,
        description=f"{description}; mean per tick of the latest report.",
        logger_owned=True,
    )


def _inference(name: str, unit: str, label: str, description: str) -> MetricSpec:
    over_time: OverTime = "max" if name.startswith("max_") else "last"
    return MetricSpec(
        f"Perf/collector_inference_{name}",
        "collector",
        unit,
        over_time=over_time,
        label=label,
        description=description,
        logger_owned=True,
    )


_WALLS: tuple[MetricSpec, ...] = (
    MetricSpec(
        "Perf/total_fps",
        "runner",
        "env steps/s",
        "sum",
        logger_owned=True,
        label="Steps/s",
        description="Environment steps of the iteration over its wall, summed over ranks.",
    ),
    MetricSpec(
        "Perf/iteration_time",
        "runner",
        "s",
        logger_owned=True,
        label="Iter Wall",
        description="Measured wall of the whole learner iteration; absent if not measured.",
    ),
    MetricSpec(
        "Perf/collection_time",
        "collector",
        "s",
        logger_owned=True,
        label="Rollout Wall",
        description="Wall of the latest finished rollout; never in the SAC family.",
    ),
    MetricSpec(
        "Perf/learning_time",
        "learner",
        "s",
        logger_owned=True,
        label="Learning",
        description="Wall of the update phase in the iteration.",
    ),
    MetricSpec(
        "Perf/dp_gradient_sync_ms_per_rank",
        "ipc/dp_sync",
        "ms",
        label="DP Sync",
        description="Time of one rank in gradient collectives, sum over the iteration.",
    ),
    MetricSpec(
        "Perf/dp_gradient_sync_calls_per_rank",
        "ipc/dp_sync",
        "calls",
        label="DP Sync Calls",
        description="Gradient collectives of one rank in the iteration.",
    ),
)

_LEARNER_PHASES: tuple[MetricSpec, ...] = (
    _learner_ms(
        "learner_collector_wait",
        "Collector Wait",
        "Waiting for the collector's data or request, without the inference served meanwhile.",
    ),
    _learner_ms("learner_inference", "Inference", "Observation H2D, actor forward and action D2H."),
    _learner_ms(
        "learner_collector_release",
        "Collector Release",
        "Handing the action response to the collector.",
    ),
    _learner_ms(
        "learner_replay_batch_wait",
        "Replay Batch Wait",
        "Waiting for the prefetched device batch; near 0 on a hit.",
    ),
    _learner_ms(
        "learner_replay_stage",
        "Replay Stage",
        "Copying the new rollouts into the learner's staging pool (APPO).",
    ),
    _learner_ms("learner_replay_sample", "Replay Sample", "Obtaining the ready batch."),
    _learner_ms(
        "learner_weight_publish",
        "Weight Publish",
        "Writing the new weights into shared memory (APPO).",
    ),
    _learner_ms("learner_inference_h2d", "Inference H2D", "Part of Inference; not additive."),
    _learner_ms(
        "learner_inference_forward", "Inference Forward", "Part of Inference; not additive."
    ),
    _learner_ms("learner_inference_d2h", "Inference D2H", "Part of Inference; not additive."),
    _learner_ms(
        "replay_ingress_h2d_submit",
        "Replay H2D Submit",
        "Submitting the last transition span to the device ring; overlaps any phase.",
    ),
)

_COLLECTOR_PHASES: tuple[MetricSpec, ...] = (
    _collector_ms("mlp_infer", "MLP Infer", "Policy inference of one step (APPO)"),
    _collector_ms("inference_request", "Inference Request", "Publishing the observation slot"),
    _collector_ms(
        "learner_action_wait",
        "Learner Action Wait",
        "Waiting for the action of the tick, the rest of the learner's update included",
    ),
    _collector_ms("env_step", "Env Step", "Wall of one environment step"),
    _collector_ms("env_step_action_validate", "Action Validate", "Part of Env Step"),
    _collector_ms("env_step_apply_action", "Apply Action", "Part of Env Step"),
    _collector_ms("env_step_action_backend", "Action+Backend", "Part of Env Step"),
    _collector_ms("env_step_backend", "Backend Step", "Part of Env Step: the simulator's work"),
    _collector_ms("env_step_update_state", "Update State", "Part of Env Step"),
    _collector_ms("env_step_reset_done", "Reset Done", "Part of Env Step"),
    _collector_ms("transition_extract", "Transition Extract", "Extracting the transition"),
    _collector_ms("replay_write", "Replay Write", "Packing and writing to the replay ingress"),
    _collector_ms("metrics_publish", "Metrics Publish", "Publishing the collector's metrics"),
)

_INFERENCE_GAUGES: tuple[MetricSpec, ...] = (
    _inference("queue_depth", "requests", "Queue Depth", "Requests in the queue at the report."),
    _inference(
        "action_backlog", "requests", "Action Backlog", "Responses not yet taken at the report."
    ),
    _inference(
        "max_action_backlog",
        "requests",
        "Action Backlog Max",
        "Largest action backlog since the last accepted report.",
    ),
    _inference("in_flight", "requests", "In Flight", "Requests without a response at the report."),
    _inference(
        "max_in_flight",
        "requests",
        "In Flight Max",
        "Largest number in flight since the last accepted report.",
    ),
    _inference(
        "publication_lag",
        "ticks",
        "Publication Lag",
        "Ticks between request and published response at the report.",
    ),
    _inference(
        "max_publication_lag",
        "ticks",
        "Publication Lag Max",
        "Largest publication lag since the last accepted report.",
    ),
)

PERFORMANCE: tuple[MetricSpec, ...] = (
    _WALLS + _LEARNER_PHASES + _COLLECTOR_PHASES + _INFERENCE_GAUGES
)
