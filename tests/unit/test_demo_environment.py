from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest

from unilab_metrics.demo.cart_pole import CONTROL_DT_S, CartPoleBackend
from unilab_metrics.demo.environment import (
    ACTION_SIZE,
    OBSERVATION_SIZE,
    REWARD_WEIGHTS,
    Array,
    CartReachEnv,
    StepResult,
)

ENVS = 16


def untimed(_name: str) -> AbstractContextManager[object]:
    return nullcontext()


def make(episode_ticks: int = 200, num_envs: int = ENVS) -> CartReachEnv:
    env = CartReachEnv(num_envs, episode_ticks, seed=3)
    env.reset()
    return env


def still(num_envs: int = ENVS) -> Array:
    return full(0.0, num_envs)


def full(value: float, num_envs: int = ENVS) -> Array:
    return np.full((num_envs, ACTION_SIZE), value, dtype=np.float32)


def push(env: CartReachEnv, ticks: int) -> list[StepResult]:
    return [env.step(full(1.0, env.num_envs), untimed) for _ in range(ticks)]


def test_shapes_and_dtypes_are_what_the_shared_memory_holds() -> None:
    env = make()
    result = env.step(still(), untimed)

    assert result.observations.shape == (ENVS, OBSERVATION_SIZE)
    assert result.observations.dtype == np.float32
    assert result.rewards.shape == (ENVS,)
    assert result.rewards.dtype == np.float32
    assert result.terminated.dtype == np.bool_


def test_terms_are_weighted_means_without_the_control_step() -> None:
    result = make().step(still(), untimed)

    assert list(result.terms) == list(REWARD_WEIGHTS)
    assert result.terms["alive"] == REWARD_WEIGHTS["alive"]
    assert sum(result.terms.values()) * CONTROL_DT_S == pytest.approx(
        float(result.rewards.mean()), rel=1e-5
    )


def test_the_time_is_up_after_the_episode_length_and_that_is_no_fall() -> None:
    env = make(episode_ticks=3)
    results = [env.step(still(), untimed) for _ in range(3)]

    assert not results[1].timeouts.any()
    assert results[2].timeouts.all()
    assert not results[2].terminated.any()


def test_a_pushed_pole_falls_and_its_environment_starts_anew() -> None:
    env = make(num_envs=1)
    fallen = next(result for result in push(env, 200) if result.terminated.any())

    assert not fallen.timeouts.any()
    assert fallen.terms["fall"] == REWARD_WEIGHTS["fall"]
    assert fallen.terms["alive"] == 0.0
    assert abs(fallen.final_observations[0, 2]) > 0.4
    assert abs(fallen.observations[0, 2]) < 0.15


def test_environments_that_go_on_keep_their_state_when_others_reset() -> None:
    env = make()
    for result in push(env, 200):
        going_on = ~(result.terminated | result.timeouts)
        kept = result.observations[going_on] == result.final_observations[going_on]
        assert kept.all()


def test_every_part_of_a_step_is_timed_under_its_own_name() -> None:
    names: list[str] = []

    def phase(name: str) -> AbstractContextManager[object]:
        names.append(name)
        return nullcontext()

    make().step(still(), phase)

    assert sorted(names) == [
        "env_step_action_backend",
        "env_step_action_validate",
        "env_step_apply_action",
        "env_step_backend",
        "env_step_reset_done",
        "env_step_update_state",
    ]


def test_bad_actions_are_refused_before_anything_moves() -> None:
    env = make()
    with pytest.raises(ValueError, match="shape"):
        env.step(still(ENVS - 1), untimed)
    with pytest.raises(ValueError, match="finite"):
        env.step(full(np.nan), untimed)


def test_actions_beyond_the_limits_are_clipped() -> None:
    strong, plain = make(), make()
    a = strong.step(full(5.0), untimed)
    b = plain.step(full(1.0), untimed)

    np.testing.assert_array_equal(a.observations, b.observations)


def test_the_same_seed_gives_the_same_episodes() -> None:
    first, second = push(make(), 60), push(make(), 60)

    np.testing.assert_array_equal(first[-1].observations, second[-1].observations)


def test_an_upright_pole_at_rest_stays_and_a_tilted_one_falls_faster() -> None:
    backend = CartPoleBackend(2)
    everything = np.ones(2, dtype=np.bool_)
    angles = np.array([0.0, 0.1], dtype=np.float32)
    backend.reset(everything, position=np.zeros(2, dtype=np.float32), angle=angles)
    for _ in range(20):
        backend.step(np.zeros(2, dtype=np.float32))

    assert backend.pole_angle[0] == 0.0
    assert backend.pole_angle[1] > 0.15
