"""The snippets of ``docs/frameworks.md`` run, and their names mean what the page says."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from series_records import head, picture, update
from spooled import spooled_publisher, values_of, warnings_of

import unilab_metrics
from unilab_metrics.publish.publisher import Publisher
from unilab_schema.identity import RunInfo
from unilab_schema.known_names import NAMES
from unilab_sidecar.picture import Picture

PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text("utf-8")
SNIPPETS = dict(re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))


class Logger:
    """As the one of Stable-Baselines3, with as much of it as its algorithms use."""

    def __init__(self, _folder: None, output_formats: list[Any]) -> None:
        self.output_formats = output_formats


class Model:
    logger: Logger

    def set_logger(self, logger: Logger) -> None:
        self.logger = logger

    def learn(self, total_timesteps: int) -> None:
        for n in range(1, 4):
            values = {"rollout/ep_rew_mean": float(n), "rollout/ep_len_mean": 9.0, "time/fps": 50}
            for one in self.logger.output_formats:
                one.write(values | {"train/value_loss": 0.5}, {}, total_timesteps * n)


class Runner:
    writer: Any

    def learn(self, num_learning_iterations: int) -> None:
        for n in range(min(num_learning_iterations, 3)):
            self.writer.add_scalar("Loss/value_function", 0.5, n)
            self.writer.add_scalar("Perf/total_fps", 50, n)
            self.writer.add_scalar("Train/mean_reward", n + 1.0, n)
            self.writer.add_scalar("Train/mean_episode_length", 9.0, n)
            self.writer.add_scalar("Train/mean_reward/time", n + 1.0, 5)


ROUNDS = iter(range(1, 1000))
SURROUNDINGS: dict[str, Any] = {
    "args": SimpleNamespace(env_id="CartPole-v1", num_iterations=3, batch_size=128),
    "collect_rollout": lambda: ([next(ROUNDS)], [9.0]),
    "update_policy": lambda: {"losses/value_loss": 0.5, "charts/SPS": 50},
    "model": Model(),
    "runner": Runner(),
    "iterations": 3,
    "train_one_iteration": lambda: (
        float(next(ROUNDS)),
        {"log": {"Episode_Reward/alive": 1.0, "Episode_Termination/time_out": 0.9}},
    ),
}


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Publisher]]:
    made: list[Publisher] = []
    asks = inspect.signature(unilab_metrics.init)

    @contextmanager
    def init(**options: Any) -> Iterator[Publisher]:
        asks.bind(**options)
        made.append(spooled_publisher(tmp_path, algorithm=options["algorithm"]))
        yield made[-1]
        # Nobody is there to wait for.
        made[-1].close(0.0)

    logger = ModuleType("stable_baselines3.common.logger")
    logger.__dict__.update(KVWriter=object, Logger=Logger)
    for name in ("stable_baselines3", "stable_baselines3.common"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, logger.__name__, logger)
    monkeypatch.setattr(unilab_metrics, "init", init)

    def run(snippet: str) -> list[Publisher]:
        exec(compile(snippet, "docs/frameworks.md", "exec"), dict(SURROUNDINGS))
        return made

    return run


def shown(publisher: Publisher) -> Picture:
    entries = [update(n, values) for n, values in enumerate(values_of(publisher), 1)]
    return picture(*entries, at=head(0.0, run=RunInfo(publisher.identity.run.algorithm)))


def test_the_page_has_a_snippet_for_each_library() -> None:
    assert list(SNIPPETS) == ["CleanRL", "Stable-Baselines3", "rsl_rl and legged_gym", "Isaac Lab"]


@pytest.mark.parametrize("library", SNIPPETS)
def test_a_snippet_runs_and_its_reward_is_on_the_screen(
    library: str, ran: Callable[[str], list[Publisher]]
) -> None:
    (publisher,) = ran(SNIPPETS[library])
    assert warnings_of(publisher) == []
    made = shown(publisher)
    assert made.rewards.mean is not None
    assert len(made.rewards.history) == 3
    if library != "Isaac Lab":
        assert made.episode_length is not None
        assert made.steps_per_s is not None
        assert made.losses
    if library == "CleanRL":
        assert made.learner is not None
        assert {"Rollout", "Update"} <= {row.label for row in made.learner.rows}


def test_the_page_names_what_the_table_knows() -> None:
    for tags in NAMES.values():
        assert all(f"`{tag}`" in PAGE for tag in tags)
