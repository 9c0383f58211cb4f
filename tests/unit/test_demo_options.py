from __future__ import annotations

import pytest

from unilab_metrics.demo.options import KNOWN_KEYS, DemoOptions, parse_options
from unilab_metrics.demo.overrides import OptionError
from unilab_metrics.errors import ExitCode


def test_no_overrides_give_the_documented_defaults() -> None:
    options = parse_options()

    assert options == DemoOptions()
    assert options.training.env_steps_per_sync == 1
    assert options.training.collector_metrics_interval == 1
    assert options.training.replay_ingress_depth == 2
    assert options.training.logger == "tensorboard"
    assert options.slot_rows == options.algo.num_envs


def test_overrides_are_typed() -> None:
    options = parse_options(
        ["training.env_steps_per_sync=4", "algo.learning_rate=1e-4", "training.log_root=/data"]
    )

    assert options.training.env_steps_per_sync == 4
    assert options.algo.learning_rate == 1e-4
    assert options.training.log_root == "/data"


def test_null_means_the_default_of_the_system() -> None:
    options = parse_options(["training.replay_ingress_slot_rows=null", "algo.num_envs=8"])

    assert options.training.replay_ingress_slot_rows is None
    assert options.slot_rows == 8


def test_iterations_are_an_option_too() -> None:
    assert parse_options([], iterations=7).algo.max_iterations == 7


@pytest.mark.parametrize(
    ("word", "key", "reason"),
    [
        ("algo.batch_size", "algo.batch_size", "key=value"),
        ("=3", "=3", "key=value"),
        ("algo.batchsize=3", "algo.batchsize", "did you mean algo.batch_size?"),
        ("batch_size=3", "batch_size", "unknown option"),
        ("algo.batch_size=many", "algo.batch_size", "'many'"),
        ("algo.batch_size=0", "algo.batch_size", ">= 1"),
        ("algo.batch_size=2.5", "algo.batch_size", "'2.5'"),
        ("algo.seed=null", "algo.seed", "null"),
        ("training.logger=paper", "training.logger", "tensorboard (got 'paper')"),
        ("training.replay_ingress_depth=17", "training.replay_ingress_depth", "<= 16"),
        ("training.collector_metrics_interval=10001", "training.collector_metrics_interval", "10000"),
        ("algo.gamma=1.0", "algo.gamma", "< 1.0"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(word: str, key: str, reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options([word])

    assert caught.value.key == key
    assert key in str(caught.value)
    assert reason in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE


def test_an_unknown_key_lists_the_known_ones() -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(["training.turbo=1"])

    assert all(key in str(caught.value) for key in KNOWN_KEYS)


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(OptionError, match=r"algo\.seed: given twice"):
        parse_options(["algo.seed=1", "algo.seed=2"])
    with pytest.raises(OptionError, match="--iterations"):
        parse_options(["algo.max_iterations=5"], iterations=6)


def test_combinations_that_cannot_run_are_refused() -> None:
    with pytest.raises(OptionError, match=r"48 is no multiple of algo\.num_envs=32"):
        parse_options(["training.replay_ingress_slot_rows=48"])
    with pytest.raises(OptionError, match=r"algo\.learning_starts"):
        parse_options(["algo.buffer_size=1000", "algo.learning_starts=1001"])
    with pytest.raises(OptionError, match=r"algo\.buffer_size"):
        parse_options(["algo.buffer_size=16", "algo.learning_starts=16"])


def test_the_configuration_is_flat_dotted_keys() -> None:
    flat = parse_options(["algo.seed=9"]).flat()

    assert flat["algo.seed"] == 9
    assert flat["training.log_dir"] is None
    assert set(flat) == set(KNOWN_KEYS)


def test_only_the_named_part_is_slow() -> None:
    parts = ("env", "learner", "inference", "prefetch", "ingress", "submit")
    assert [parse_options().slow.wait_s(part) for part in parts] == [0.0] * 6

    slow = parse_options(["slow.part=prefetch", "slow.wait_ms=20"]).slow
    assert [slow.wait_s(part) for part in parts] == [0.0, 0.0, 0.0, 0.02, 0.0, 0.0]


def test_a_part_that_is_none_is_refused_with_the_words_that_are() -> None:
    with pytest.raises(OptionError, match="Expected one of env, learner, inference, prefetch"):
        parse_options(["slow.part=collector"])
