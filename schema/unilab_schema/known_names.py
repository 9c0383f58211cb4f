"""What tags mean that are no contract of ours: the reward, the length of an episode, the pace, and to
which group of a screen a name belongs. Pure.

Names as the libraries write them to TensorBoard, read in their sources: Stable-Baselines3
(``dump_logs``, and its page "Explanation of logger output"), CleanRL (the ``add_scalar`` calls of its
scripts), rsl_rl from 1.0 on (``OnPolicyRunner.log``, ``Logger.log``), legged_gym and Isaac Lab (what
their environments hand to it as ``extras``), rl_games (``AlgoObserver``, ``A2CBase.write_stats``), skrl
(``Agent.track_data``). docs/frameworks.md is the same table for people.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

Meaning = Literal["reward", "episode_length", "steps_per_s"]
MetricKind = Literal["losses", "policy", "diagnostics", "terms"]

MEAN_REWARD = "Train/mean_reward"
EPISODE_LENGTH = "Train/mean_episode_length"
STEPS_PER_S = "Perf/total_fps"

NAMES: dict[Meaning, tuple[str, ...]] = {
    "reward": (
        MEAN_REWARD,
        "rollout/ep_rew_mean",
        "charts/episodic_return",
        "Reward / Total reward (mean)",
        "rewards/iter",
    ),
    "episode_length": (
        EPISODE_LENGTH,
        "rollout/ep_len_mean",
        "charts/episodic_length",
        "Episode / Total timesteps (mean)",
        "episode_lengths/iter",
    ),
    "steps_per_s": (
        STEPS_PER_S,
        "time/fps",
        "charts/SPS",
        "performance/step_inference_rl_update_fps",
    ),
}
"""By meaning, in the order of precedence: the contract's first (rsl_rl's names are the same), then
Stable-Baselines3, CleanRL, skrl, rl_games."""

LOSS_STARTS = ("Loss/", "loss/", "Losses/", "losses/", "Loss / ")
"""The first is the table's and rsl_rl's, ``losses/`` is CleanRL's and rl_games', the last skrl's."""
TERM_STARTS = ("reward/", "Episode_Reward/", "Episode/rew_")
"""The table's, Isaac Lab's, legged_gym's."""

USUAL_LOSSES = (
    "Loss/critic",
    "Loss/actor",
    "Loss/value",
    "Loss/surrogate",
    "Loss/value_function",
    "train/critic_loss",
    "train/actor_loss",
    "train/value_loss",
    "train/policy_gradient_loss",
    "train/loss",
    "losses/qf_loss",
    "losses/actor_loss",
    "losses/value_loss",
    "losses/policy_loss",
    "losses/td_loss",
    "Loss / Critic loss",
    "Loss / Value loss",
    "Loss / Policy loss",
    "losses/c_loss",
    "losses/a_loss",
)
"""Those that are worth a chart before anybody has chosen one, the first of them first."""

_POLICY_STARTS = ("Policy/", "Policy / ", "Learning / ")
_KINDS: dict[str, MetricKind] = {
    "train/std": "policy",
    "train/ent_coef": "policy",
    "train/learning_rate": "policy",
    "rollout/exploration_rate": "policy",
    "charts/learning_rate": "policy",
    "charts/epsilon": "policy",
    "info/last_lr": "policy",
    "train/approx_kl": "diagnostics",
    "train/clip_fraction": "diagnostics",
    "train/clip_range": "diagnostics",
    "train/clip_range_vf": "diagnostics",
    "train/explained_variance": "diagnostics",
    "train/n_updates": "diagnostics",
    "info/kl": "diagnostics",
}


def tag_of(meaning: Meaning, there: Container[str], own: str = "") -> str | None:
    """Which tag of a run has this meaning: ``own`` alone if its user has named one, also before it
    is there, else the first known one that is ``there``."""
    if own:
        return own
    return next((tag for tag in NAMES[meaning] if tag in there), None)


def kind_by_name(tag: str) -> MetricKind | None:
    """To which group a tag belongs by its name alone, ``None`` if that says nothing."""
    if tag.startswith(TERM_STARTS):
        return "terms"
    if tag.startswith(LOSS_STARTS) or (tag.startswith("train/") and tag.endswith("loss")):
        return "losses"
    return "policy" if tag.startswith(_POLICY_STARTS) else _KINDS.get(tag)
