"""The tags that the demo leaves in its event files, as the logging document names them."""

from __future__ import annotations

LEARNER_TABLE = {
    "Perf/learner_collector_wait_ms",
    "Perf/learner_inference_ms",
    "Perf/learner_collector_release_ms",
    "Perf/learner_replay_batch_wait_ms",
    "Perf/learner_replay_sample_ms",
    "Perf/learning_time",
    "Perf/iteration_time",
}
"""Other is the terminal's; Replay Stage and Weight Publish are APPO's."""
LEARNER_DETAILS = {
    "Perf/learner_inference_h2d_ms",
    "Perf/learner_inference_forward_ms",
    "Perf/learner_inference_d2h_ms",
    "Perf/replay_ingress_h2d_submit_ms",
}
GRADIENT_SYNC = {
    "Perf/dp_gradient_sync_ms_per_rank",
    "Perf/dp_gradient_sync_calls_per_rank",
}
TRAINING = {
    "Train/iteration",
    "Perf/total_fps",
    "Loss/actor",
    "Loss/critic",
    "Loss/temperature",
    "Loss/entropy",
    "Loss/learning_rate",
    "Policy/temperature",
    "Policy/mean_std",
    "Train/actor_gradient_norm",
    "Train/critic_gradient_norm",
    "Train/target_q_max",
    "Train/target_q_min",
}
REPLAY_INGRESS = {
    "Train/replay_ingress_depth",
    "Train/replay_ingress_occupancy",
    "Train/replay_ingress_high_water",
    "Train/replay_ingress_backpressure_wait_ms",
    "Train/replay_ingress_dropped_batches",
}
COLLECTOR_TABLE = {
    "Perf/collector_inference_request_ms",
    "Perf/collector_learner_action_wait_ms",
    "Perf/collector_env_step_ms",
    "Perf/collector_env_step_action_validate_ms",
    "Perf/collector_env_step_apply_action_ms",
    "Perf/collector_env_step_action_backend_ms",
    "Perf/collector_env_step_backend_ms",
    "Perf/collector_env_step_update_state_ms",
    "Perf/collector_env_step_reset_done_ms",
    "Perf/collector_transition_extract_ms",
    "Perf/collector_replay_write_ms",
    "Perf/collector_metrics_publish_ms",
}
COLLECTOR_INFERENCE = {
    "Perf/collector_inference_queue_depth",
    "Perf/collector_inference_action_backlog",
    "Perf/collector_inference_max_action_backlog",
    "Perf/collector_inference_in_flight",
    "Perf/collector_inference_max_in_flight",
    "Perf/collector_inference_publication_lag",
    "Perf/collector_inference_max_publication_lag",
}
REWARD_TERMS = {
    "reward/alive",
    "reward/target_tracking",
    "reward/upright",
    "reward/cart_velocity",
    "reward/pole_velocity",
    "reward/action_rate",
    "reward/fall",
}
EPISODES = {"Train/mean_reward", "Train/mean_episode_length", "Episode/timeout_rate"}

FROM_LEARNERS = LEARNER_TABLE | LEARNER_DETAILS | GRADIENT_SYNC | TRAINING | REPLAY_INGRESS
FROM_COLLECTORS = COLLECTOR_TABLE | COLLECTOR_INFERENCE | REWARD_TERMS | EPISODES
