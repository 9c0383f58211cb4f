from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.ppo import LEAST_RATE, UPDATE_TAGS, Ppo
from unilab_metrics.demo.ppo_options import PpoAlgoOptions
from unilab_metrics.demo.rollout import Rollout, advantages_of, mini_batches

TICKS, ENVS, OBSERVATION_SIZE, ACTION_SIZE = 8, 32, 3, 2


class RecordingSync(GradientSync):
    """One rank, which remembers what it was to average, and may add another rank's part."""

    def __init__(self, divergence: float | None = None) -> None:
        super().__init__(world_size=1)
        self.divergence = divergence
        self.seen: list[torch.Tensor] = []

    def average(self, gradients: torch.Tensor) -> None:
        self.seen.append(gradients.clone())
        if self.divergence is not None:
            gradients[-2] = self.divergence


def make(sync: GradientSync | None = None, **options: Any) -> Ppo:
    algo = PpoAlgoOptions(**{"hidden_size": 16, "num_envs": ENVS, **options})
    return Ppo(OBSERVATION_SIZE, ACTION_SIZE, algo, sync or GradientSync(1))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def collected(ppo: Ppo, wanted: float = 0.5, seed: int = 0) -> Rollout:
    """Each tick is an episode of its own, worth more the nearer the actions are to ``wanted``."""
    rollout = Rollout(TICKS, ENVS, OBSERVATION_SIZE, ACTION_SIZE)
    generator = seeded(seed)
    rollout.dones.fill_(1.0)
    for tick in range(TICKS):
        observations = torch.randn(ENVS, OBSERVATION_SIZE, generator=generator)
        acted = ppo.act(observations, generator)
        rollout.observations[tick] = observations
        rollout.actions[tick] = acted.actions
        rollout.log_probs[tick] = acted.log_probs
        rollout.means[tick] = acted.means
        rollout.stds[tick] = acted.stds
        rollout.values[tick] = acted.values
        rollout.rewards[tick] = -(acted.actions - wanted).square().sum(dim=-1)
    return rollout


def update(ppo: Ppo, rollout: Rollout | None = None) -> dict[str, float]:
    rollout = rollout or collected(ppo)
    values = ppo.update(rollout, torch.zeros(ENVS), seeded(7))
    return dict(zip(UPDATE_TAGS, values.tolist(), strict=True))


def test_advantages_are_the_discounted_sums_of_surprises_up_to_the_episodes_end() -> None:
    rewards, values = torch.rand(6, 3, generator=seeded()), torch.rand(6, 3, generator=seeded(1))
    dones = torch.zeros(6, 3)
    dones[2, 0] = dones[4, 1] = 1.0
    last = torch.tensor([0.3, 0.2, 0.1])
    found = advantages_of(rewards, values, dones, last, gamma=0.9, lam=0.8)
    following = torch.cat([values[1:], last[None]])
    for env in range(3):
        for tick in range(6):
            wanted, factor = 0.0, 1.0
            for later in range(tick, 6):
                goes_on = 1.0 - float(dones[later, env])
                surprise = (
                    float(rewards[later, env])
                    + 0.9 * goes_on * float(following[later, env])
                    - float(values[later, env])
                )
                wanted += factor * surprise
                factor *= 0.9 * 0.8
                if not goes_on:
                    break
            assert float(found[tick, env]) == pytest.approx(wanted, abs=1e-5)


def test_every_sample_is_seen_once_in_each_epoch_in_another_order() -> None:
    samples = collected(make()).samples(torch.zeros(ENVS), 0.98, 0.95)
    seen = [
        batch.returns for batch in mini_batches(samples, epochs=2, batches=4, generator=seeded())
    ]
    assert len(seen) == 8
    first, second = torch.cat(seen[:4]), torch.cat(seen[4:])
    assert torch.equal(first.sort().values, samples.returns.sort().values)
    assert torch.equal(second.sort().values, first.sort().values)
    assert not torch.equal(first, second)
    assert float(samples.advantages.mean()) == pytest.approx(0.0, abs=1e-5)
    assert float(samples.advantages.std()) == pytest.approx(1.0, abs=1e-4)


def test_actions_that_are_worth_more_become_the_policy() -> None:
    ppo = make(learning_rate=1e-2, schedule="fixed", num_learning_epochs=4)
    before = float(collected(ppo).rewards.mean())
    for seed in range(20):
        update(ppo, collected(ppo, seed=seed))
    after = collected(ppo)
    assert float(after.means.mean()) == pytest.approx(0.5, abs=0.15)
    assert float(after.rewards.mean()) > 0.6 * before
    assert ppo.mean_std < 1.0


def test_the_first_update_of_a_rollout_begins_where_the_policy_was() -> None:
    values = update(make(num_learning_epochs=1, num_mini_batches=1, entropy_coef=0.0))
    assert values["Train/approx_kl"] == pytest.approx(0.0, abs=1e-6)
    assert values["Train/clip_fraction"] == 0.0
    assert values["Loss/surrogate"] == pytest.approx(0.0, abs=1e-5)
    entropy = ACTION_SIZE * 0.5 * (1.0 + math.log(2.0 * math.pi))
    assert values["Loss/entropy"] == pytest.approx(entropy, rel=1e-5)
    assert values["Train/global_gradient_norm"] > 0.0


def test_the_clip_keeps_a_policy_from_moving_far_on_old_samples() -> None:
    moved: list[float] = []
    for clip in (0.05, 100.0):
        ppo = make(clip_param=clip, schedule="fixed", learning_rate=1e-2, num_learning_epochs=20)
        moved.append(update(ppo)["Train/approx_kl"])
    assert 0.0 < moved[0] < 0.5 * moved[1]


def test_gradients_above_the_greatest_norm_are_shortened() -> None:
    small = make(max_grad_norm=1e-9, schedule="fixed")
    before = {name: values.clone() for name, values in small.state().items()}
    # Adam undoes a common factor, up to its epsilon.
    update(small)
    for name, values in small.state().items():
        assert float((values - before[name]).abs().max()) < 1e-3


@pytest.mark.parametrize(("divergence", "factor"), [(0.1, 1 / 1.5), (1e-6, 1.5), (0.001, 1.0)])
def test_all_ranks_choose_the_learning_rate_by_their_common_divergence(
    divergence: float, factor: float
) -> None:
    ppo = make(RecordingSync(divergence), num_learning_epochs=1, num_mini_batches=1)
    update(ppo)
    assert ppo.learning_rate == pytest.approx(3e-4 * factor)
    fixed = make(RecordingSync(divergence), schedule="fixed")
    update(fixed)
    assert fixed.learning_rate == 3e-4


def test_the_learning_rate_has_a_floor() -> None:
    ppo = make(RecordingSync(9.0))
    for _ in range(3):
        update(ppo)
    assert ppo.learning_rate == LEAST_RATE


def test_all_ranks_begin_with_the_same_weights_whatever_their_streams() -> None:
    first, second = make(seed=4).state(), make(seed=4).state()
    assert all(torch.equal(values, second[name]) for name, values in first.items())


def test_a_vote_to_stop_is_seen_after_the_next_update() -> None:
    sync = RecordingSync()
    ppo = make(sync)
    update(ppo)
    assert not ppo.stop_voted
    ppo.vote_to_stop()
    update(ppo)
    assert ppo.stop_voted
    assert float(sync.seen[-1][-1]) == 1.0
