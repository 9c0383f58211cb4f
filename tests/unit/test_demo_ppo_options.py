from __future__ import annotations

import pytest
from click.testing import CliRunner

from unilab_metrics.cli.demo import ALGORITHMS as OFFERED
from unilab_metrics.cli.demo import SLOW_PARTS, demo
from unilab_metrics.demo import algorithms
from unilab_metrics.demo.algorithms import options_of
from unilab_metrics.demo.overrides import OptionError
from unilab_metrics.demo.ppo_options import PpoOptions, parse_ppo_options
from unilab_metrics.demo.slow import SlowOptions


def test_the_command_offers_what_there_is() -> None:
    assert OFFERED == algorithms.ALGORITHMS
    assert algorithms.DEFAULT_ALGORITHM == "sac"
    assert [options_of(name).algorithm for name in OFFERED] == list(OFFERED)
    with pytest.raises(OptionError, match=r"--algorithm: one of sac, ppo, not 'dqn'"):
        options_of("dqn")


def test_overrides_of_ppo_are_typed() -> None:
    options = parse_ppo_options(
        ["algo.num_envs=8", "algo.schedule=fixed", "slow.part=env", "algo.lam=0.9"], iterations=3
    )
    assert (options.algo.num_envs, options.algo.max_iterations, options.algo.lam) == (8, 3, 0.9)
    assert options.algo.schedule == "fixed"
    assert options.samples_per_iteration == 8 * 24
    assert options.slow.wait_s("env") == 0.02
    assert PpoOptions().slow.wait_s("env") == SlowOptions().wait_s("env") == 0.0


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("algo.batch_size=3", "unknown option of ppo"),
        ("training.replay_ingress_depth=3", "unknown option of ppo"),
        ("algo.num_env=3", "did you mean algo.num_envs?"),
        ("algo.schedule=cosine", "Expected one of adaptive, fixed (got 'cosine') for ppo"),
        ("algo.desired_kl=0", "> 0.0"),
        ("algo.num_mini_batches=7", "1536 samples of an iteration cannot be divided by it"),
    ],
)
def test_what_ppo_cannot_use_is_named(word: str, reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_ppo_options([word])
    assert caught.value.key == word.partition("=")[0]
    assert reason in str(caught.value)


@pytest.mark.parametrize("part", ["prefetch", "ingress", "submit"])
def test_a_part_that_ppo_does_not_have_is_an_error_of_usage(part: str) -> None:
    done = CliRunner().invoke(demo, ["--algorithm", "ppo", "--slow", part])
    assert done.exit_code == 2
    words = " ".join(done.output.split())
    assert f"Expected one of env, learner, inference (got '{part}') for ppo" in words
    assert part in SLOW_PARTS


def test_the_help_shows_how_both_are_trained() -> None:
    words = " ".join(CliRunner().invoke(demo, ["--help"]).output.split())
    for example in (
        "unilab-metrics demo --slow prefetch",
        "unilab-metrics demo --algorithm ppo",
        "[sac|ppo]",
        "[default: sac]",
        "ppo has env and inference, which lengthen its Collection",
    ):
        assert example in words
