from __future__ import annotations

from typing import Any

import pytest
import torch

from unilab_metrics.demo.adam import Adam
from unilab_metrics.demo.gradient_sync import GradientSync
from unilab_metrics.demo.networks import FlatWeights, initial_mlp, mlp, policy, sample
from unilab_metrics.demo.options import AlgoOptions
from unilab_metrics.demo.sac import UPDATE_TAGS, Batch, Sac

OBSERVATION_SIZE = 5
ACTION_SIZE = 2


class DoublingSync(GradientSync):
    """As if a second rank had computed the same gradients and did not average."""

    def __init__(self) -> None:
        super().__init__(world_size=1)
        self.seen: list[torch.Tensor] = []

    def average(self, gradients: torch.Tensor) -> None:
        self.seen.append(gradients.clone())
        gradients.mul_(2.0)


def make(sync: GradientSync | None = None, **options: Any) -> Sac:
    algo = AlgoOptions(hidden_size=16, **options)
    return Sac(OBSERVATION_SIZE, ACTION_SIZE, algo, sync or GradientSync(1))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(rows: int = 64) -> Batch:
    random = seeded(5)
    return Batch(
        observations=torch.randn(rows, OBSERVATION_SIZE, generator=random),
        actions=torch.rand(rows, ACTION_SIZE, generator=random) * 2.0 - 1.0,
        rewards=torch.randn(rows, generator=random),
        next_observations=torch.randn(rows, OBSERVATION_SIZE, generator=random),
        terminated=torch.ones(rows),
    )


def named(values: torch.Tensor) -> dict[str, float]:
    return dict(zip(UPDATE_TAGS, values.tolist(), strict=True))


def test_the_critic_learns_the_rewards_of_final_transitions() -> None:
    sac, random = make(learning_rate=3e-3), seeded()
    first = named(sac.update(batch(), random))
    last = first
    for _ in range(300):
        last = named(sac.update(batch(), random))

    assert last["Loss/critic"] < 0.2 * first["Loss/critic"]


def test_targets_of_final_transitions_are_the_rewards_alone() -> None:
    values = named(make().update(batch(), seeded()))

    assert values["Train/target_q_max"] == pytest.approx(batch().rewards.max().item())
    assert values["Train/target_q_min"] == pytest.approx(batch().rewards.min().item())


def test_the_actors_loss_leaves_the_critics_gradient_alone() -> None:
    sync = DoublingSync()
    make(sync).update(batch(), seeded())
    critic = initial_mlp((OBSERVATION_SIZE + ACTION_SIZE, 16, 16, 1), seeded(), copies=2)
    actor = initial_mlp((OBSERVATION_SIZE, 16, 16, 2 * ACTION_SIZE), seeded())
    actor_size = sum(weight.numel() for weight in actor)
    critic_size = sum(weight.numel() for weight in critic)

    actual = sync.seen[0][actor_size : actor_size + critic_size]
    torch.testing.assert_close(actual, _critic_gradient(make()))


def _critic_gradient(sac: Sac) -> torch.Tensor:
    """Of the critics' loss alone, for a batch of final transitions."""
    weights = [weight.detach().requires_grad_() for weight in sac._critic.frozen()]
    inputs = torch.cat([batch().observations, batch().actions], dim=-1)
    q = mlp(inputs.expand(2, *inputs.shape), weights).squeeze(-1)
    (q - batch().rewards).square().mean(dim=1).sum().backward()
    return torch.cat([weight.grad.reshape(-1) for weight in weights if weight.grad is not None])


def test_gradient_norms_are_those_after_averaging() -> None:
    doubled = named(make(DoublingSync()).update(batch(), seeded()))
    plain = named(make().update(batch(), seeded()))

    tag = "Train/critic_gradient_norm"
    assert doubled[tag] == pytest.approx(2.0 * plain[tag], rel=1e-5)


def test_all_ranks_begin_with_the_same_weights_whatever_their_streams() -> None:
    first, second = make(seed=4).state(), make(seed=4).state()

    for name, values in first.items():
        assert torch.equal(values, second[name])


def test_a_vote_to_stop_is_seen_after_the_next_update() -> None:
    sac = make()
    sac.update(batch(), seeded())
    assert not sac.stop_voted
    sac.vote_to_stop()
    sac.update(batch(), seeded())

    assert sac.stop_voted


def test_the_target_follows_the_critic_slowly() -> None:
    sac = make(tau=0.25)
    before = sac.state()["target"].clone()
    sac.update(batch(), seeded())
    after = sac.state()

    torch.testing.assert_close(after["target"], before.lerp(after["critic"], 0.25))


def test_too_much_entropy_lowers_the_temperature() -> None:
    sac, random = make(learning_rate=1e-2, initial_temperature=0.5), seeded()
    for _ in range(50):
        values = named(sac.update(batch(), random))
        assert values["Loss/entropy"] > -ACTION_SIZE

    assert sac.temperature < 0.5


def test_actions_lie_in_the_open_interval_and_follow_the_generator() -> None:
    sac = make()
    observations = batch().observations
    actions = sac.act(observations, seeded(1))

    assert actions.shape == (len(observations), ACTION_SIZE)
    assert not actions.requires_grad
    assert actions.abs().max() < 1.0
    assert torch.equal(actions, sac.act(observations, seeded(1)))


def test_log_probabilities_of_squashed_actions_integrate_to_one() -> None:
    mean, log_std = torch.full((200_000, 1), 0.3), torch.full((200_000, 1), -0.5)
    actions, log_prob = sample(mean, log_std, seeded())

    # E[1 / p] over samples of p is the length of the support.
    assert (-log_prob).exp().mean().item() == pytest.approx(2.0, rel=0.05)
    assert actions.abs().max() < 1.0


def test_gradients_are_views_of_the_flat_buffer() -> None:
    gradients = torch.zeros(4 * 3 + 3)
    flat = FlatWeights(initial_mlp((4, 3), seeded()), torch.zeros(15), gradients)
    mlp(torch.ones(2, 4), flat.weights).sum().backward()

    assert gradients.tolist() == [2.0] * 15


def test_frozen_weights_follow_the_flat_values() -> None:
    flat = FlatWeights(initial_mlp((4, 3), seeded()), torch.zeros(15), torch.zeros(15))
    frozen = flat.frozen()
    flat.values.fill_(7.0)

    assert frozen[0].unique().tolist() == [7.0]
    assert flat.weights[1].unique().tolist() == [7.0]


def test_policy_limits_its_spread() -> None:
    weights = initial_mlp((OBSERVATION_SIZE, 8, 2 * ACTION_SIZE), seeded())
    weights[-1] = torch.tensor([0.0, 0.0, 99.0, -99.0])
    _, log_std = policy(torch.zeros(1, OBSERVATION_SIZE), weights)

    assert log_std.tolist() == [[1.0, -5.0]]


def test_one_rank_pays_nothing_for_averaging() -> None:
    sync = GradientSync(world_size=1)
    sync.average(torch.ones(3))

    assert sync.cost() is None


def test_adam_steps_as_its_definition_says() -> None:
    values = torch.tensor([0.5, -2.0])
    adam, expected = Adam(values, 1e-2), [0.5, -2.0]
    first, second = [0.0, 0.0], [0.0, 0.0]
    for step in range(1, 6):
        gradients = [0.1 * step, -3.0 / step]
        adam.step(torch.tensor(gradients))
        for i, gradient in enumerate(gradients):
            first[i] = 0.9 * first[i] + 0.1 * gradient
            second[i] = 0.999 * second[i] + 0.001 * gradient**2
            spread = (second[i] / (1 - 0.999**step)) ** 0.5 + 1e-8
            expected[i] -= 1e-2 * first[i] / (1 - 0.9**step) / spread

    assert values.tolist() == pytest.approx(expected, rel=1e-5)
