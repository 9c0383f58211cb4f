"""Canonical tags of the training itself: progress, losses, policy state, replay ingress."""

from __future__ import annotations

from unilab_schema.metric_spec import MetricSpec, OverRanks


def _learner(tag: str, unit: str, label: str, description: str) -> MetricSpec:
    return MetricSpec(tag, "learner", unit, label=label, description=description)


def _runner(tag: str, unit: str, over_ranks: OverRanks, label: str, text: str) -> MetricSpec:
    return MetricSpec(tag, "runner", unit, over_ranks, label=label, description=text)


def _ingress(name: str, unit: str, label: str, description: str) -> MetricSpec:
    tag = f"Train/replay_ingress_{name}"
    return MetricSpec(tag, "ipc/replay", unit, "sum", label=label, description=description)


def _episodes(tag: str, unit: str, label: str, description: str) -> MetricSpec:
    return MetricSpec(
        tag, "collector", unit, label=label, description=description, logger_owned=True
    )


TRAINING: tuple[MetricSpec, ...] = (
    MetricSpec(
        "Train/iteration",
        "runner",
        "iterations",
        "rank0",
        logger_owned=True,
        label="Iteration",
        description="Number of the iteration; absent while the environment step counter is 0.",
    ),
    _episodes(
        "Train/mean_reward",
        "reward units",
        "Mean Reward",
        "Mean return of the last 100 finished episodes; absent before the first.",
    ),
    _episodes(
        "Train/mean_episode_length",
        "env steps/episode",
        "Ep Len",
        "Mean length of the last 100 finished episodes; absent before the first.",
    ),
    _episodes(
        "Episode/timeout_rate",
        "ratio",
        "Timeout Rate",
        "Timeouts per finished episode since the last report that had one; absent before it.",
    ),
    _learner(
        "Loss/surrogate",
        "dimensionless objective",
        "Surrogate",
        "Clipped policy objective, mean over the iteration's updates.",
    ),
    _learner(
        "Loss/value",
        "dimensionless objective",
        "Value",
        "Value function loss, mean over the iteration's updates.",
    ),
    _learner("Loss/entropy", "nats", "Entropy", "Entropy of the policy."),
    _learner("Loss/actor", "dimensionless objective", "Actor", "Actor loss."),
    _learner("Loss/critic", "dimensionless objective", "Critic", "Critic loss."),
    _learner(
        "Loss/temperature",
        "dimensionless objective",
        "Temperature",
        "Loss of the entropy temperature.",
    ),
    _learner(
        "Loss/learning_rate",
        "learning-rate hyperparameter",
        "Learning Rate",
        "Learning rate of the iteration's last update.",
    ),
    _learner(
        "Policy/mean_std",
        "action units",
        "Mean Std",
        "Mean standard deviation of the policy's actions after the update.",
    ),
    _learner(
        "Policy/temperature",
        "dimensionless",
        "Policy Temperature",
        "Entropy temperature after the update.",
    ),
    _learner(
        "Train/global_gradient_norm",
        "parameter norm",
        "Global Grad Norm",
        "Norm of all gradients, mean over the iteration's updates.",
    ),
    _learner(
        "Train/actor_gradient_norm",
        "parameter norm",
        "Actor Grad Norm",
        "Norm of the actor's gradient.",
    ),
    _learner(
        "Train/critic_gradient_norm",
        "parameter norm",
        "Critic Grad Norm",
        "Norm of the critic's gradient.",
    ),
    _learner(
        "Train/target_q_max", "discounted-return units", "Target Q Max", "Largest target Q value."
    ),
    _learner(
        "Train/target_q_min", "discounted-return units", "Target Q Min", "Smallest target Q value."
    ),
    _learner(
        "Train/reward_scale_std",
        "discounted-return units",
        "Reward Scale Std",
        "Standard deviation by which rewards are scaled, after the last update.",
    ),
    _runner(
        "Train/ring_available_slots",
        "slots",
        "sum",
        "Ring Slots",
        "Rollouts that waited in the ring when the learner arrived.",
    ),
    _runner(
        "Train/rollouts_read",
        "rollouts",
        "sum",
        "Rollouts Read",
        "Rollouts that the learner read in the iteration.",
    ),
    _ingress("depth", "slots", "Ingress Depth", "Slots of the ingress ring; constant."),
    _ingress("occupancy", "slots", "Ingress Occupancy", "Published and not yet released slots."),
    _ingress(
        "high_water",
        "slots",
        "Ingress High Water",
        "Largest occupancy of the run so far.",
    ),
    _ingress(
        "backpressure_wait_ms",
        "ms",
        "Ingress Backpressure",
        "Time that the producer waited for a free slot, cumulative over the run.",
    ),
    _ingress(
        "dropped_batches",
        "batches",
        "Ingress Drops",
        "Batches given up because no slot came free, cumulative over the run.",
    ),
    _learner(
        "Train/approx_kl",
        "nats",
        "Approx KL",
        "Approximate KL divergence from the behaviour policy, mean over the updates.",
    ),
    _learner(
        "Train/clip_fraction",
        "ratio",
        "Clip Fraction",
        "Share of samples whose probability ratio was clipped, mean over the updates.",
    ),
    _learner(
        "Train/behavior_to_current_log_prob_delta",
        "nats",
        "LogProb Delta",
        "Log-probability of the actions under the behaviour policy minus the current one.",
    ),
    _learner(
        "Train/vtrace_rho_clip_fraction",
        "ratio",
        "VTrace Rho Clip",
        "Share of rollout transitions whose importance weight was clipped.",
    ),
    _learner(
        "Train/vtrace_rho_p99",
        "ratio",
        "VTrace Rho p99",
        "99th percentile of the raw importance weights over a bounded sample.",
    ),
)
