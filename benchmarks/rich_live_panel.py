"""The peer of ``bench_sidecar.py``: a training's own panel, drawn by Rich's ``Live``.

    python benchmarks/rich_live_panel.py UPDATES_PER_S TAGS [--nothing | --cost]
    python benchmarks/rich_live_panel.py --name

Where ``uni_rl`` is installed (``pip install --no-deps unilab-rl``; the panel needs Rich alone), or
``UNI_RL_SRC`` names the folder that holds it, its ``OffPolicyLogger`` is fed. Else a stand-in of
our own, which does the same work in other words: a window of two seconds of updates (at most 512),
averaged anew at every update; a panel with a header, a table of losses and metrics beside one of
rewards, and one of six columns for learner, collector and system; drawn by ``Live`` twice a second,
from its own thread. Both run inside the training, without a socket or a decoder. ``--nothing``
shows nothing, which tells what the loop alone costs, and ``--cost`` what one update does. Ends when
it is ended.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from sidecar_load import COLLECTOR, ENVIRONMENTS, METRICS, PHASES, noisy, paced

WINDOW_S = 2.0
MOST_SAMPLES = 512
REFRESH_PER_S = 2
MAX_ITERATIONS = 10_000_000
_LABELS = ("Collector Wait", "Inference", "Collector Release", "Replay Batch Wait",
           "Replay Sample", "Learning", "Other", "Iter Wall")  # fmt: skip
_PHASE_WORDS = {
    "collector_wait_time": "Perf/learner_collector_wait_ms",
    "inference_time": "Perf/learner_inference_ms",
    "sync_coordination_time": "Perf/learner_collector_release_ms",
    "replay_batch_wait_time": "Perf/learner_replay_batch_wait_ms",
    "learner_replay_sample_time": "Perf/learner_replay_sample_ms",
}


class Panelled(Protocol):
    """What shows updates."""

    def update(self, number: int) -> None:
        """Takes the update of that number, from 0."""
        ...


class StandIn:
    """Our own words for what such a panel does."""

    name = "stand-in of a Rich Live panel"

    def __init__(self, updates: Sequence[Mapping[str, float]]) -> None:
        self._updates = updates
        self._samples: deque[tuple[float, dict[str, float]]] = deque(maxlen=MOST_SAMPLES)
        self._means: dict[str, float] = {}
        self._rewards: deque[float] = deque(maxlen=200)
        self._iteration = 0
        self._began_s = time.time()
        self._live = Live(
            self._panel(),
            console=Console(),
            auto_refresh=True,
            refresh_per_second=REFRESH_PER_S,
            get_renderable=self._panel,
        )
        self._live.start(refresh=False)

    def update(self, number: int) -> None:
        """Takes the next update and averages the window."""
        now_s, values = time.monotonic(), self._updates[number % len(self._updates)]
        self._iteration = number + 1
        self._rewards.append(values["Train/mean_reward"])
        self._samples.append((now_s, dict(values)))
        while self._samples[0][0] < now_s - WINDOW_S:
            self._samples.popleft()
        totals: dict[str, float] = {}
        counts: dict[str, int] = {}
        for _, sample in self._samples:
            for tag, value in sample.items():
                totals[tag] = totals.get(tag, 0.0) + float(value)
                counts[tag] = counts.get(tag, 0) + 1
        self._means = {tag: total / counts[tag] for tag, total in totals.items()}

    def _panel(self) -> Panel:
        grid = Table.grid(expand=True)
        for ratio, width in ((1, None), (None, 2), (1, None)):
            grid.add_column(ratio=ratio, width=width)
        grid.add_row(self._metrics(), "", self._reward_terms())
        title = Text.assemble(
            (" Off-Policy Training ", "bold"), ("| sac ", "bold cyan"),
            ("| go2_joystick_flat ", "bold white"), ("| GPUs 1 ", "bold magenta"),
            (f"| iter {self._iteration}/{MAX_ITERATIONS} ", "yellow"),
        )  # fmt: skip
        body = Group(self._header(), Text(""), grid, Text(""), self._timing())
        return Panel(body, title=title, border_style="bright_blue", padding=(0, 1))

    def _header(self) -> Text:
        elapsed_s = time.time() - self._began_s
        eta_s = elapsed_s / max(self._iteration, 1) * (MAX_ITERATIONS - self._iteration)
        words = [
            (f"⏱ {elapsed_s:.0f}s", "green"),
            (f"ETA {eta_s / 3600:.0f}h{eta_s / 60 % 60:02.0f}m", "bold magenta"),
            (f"Ep Len {self._means.get('Train/mean_episode_length', 0.0):.1f}", "yellow"),
            (f"Steps/s {self._means.get('Perf/total_fps', 0.0):,.0f}", "bold green"),
            (f"Avg 2s (n={len(self._samples)})", "dim"),
        ]
        text = Text(no_wrap=True, overflow="ellipsis", justify="center")
        for place, (word, style) in enumerate(words):
            text.append(" | " if place else "", style="dim")
            text.append(word, style=style)
        return text

    def _metrics(self) -> Table:
        table = _table("bold cyan")
        table.add_column("Losses & Metrics", style="white", ratio=2)
        table.add_column("Value", style="yellow", justify="right", ratio=1)
        tags = sorted((tag for tag, _ in METRICS if tag in self._means), key=_losses_first)
        for tag in tags:
            value = self._means[tag]
            indent = "" if tag.startswith("Loss/") else "  "
            style = "red" if value > 10 and not indent else "yellow"
            table.add_row(f"{indent}{tag.replace('_', ' ').title()}", f"[{style}]{value:.4f}[/]")
        return table

    def _reward_terms(self) -> Table:
        table = _table("bold green")
        table.add_column("Rewards", style="white", width=31, no_wrap=True)
        table.add_column("Value", justify="right", ratio=2, no_wrap=True)
        mean, peak = self._means.get("Train/mean_reward", 0.0), max(self._rewards, default=0.0)
        words = f"Mean [bold green]{mean:.3f}[/] / Peak [dim]{peak:.3f}[/]"
        table.add_row("[bold]Reward[/] [green]▲[/]", words)
        for tag in sorted(tag for tag in self._means if tag.startswith("reward/")):
            value = self._means[tag]
            name = tag.removeprefix("reward/").replace("_", " ")
            table.add_row(f"  {name}", f"[{'green' if value > 0 else 'red'}]{value:+.4f}[/]")
        return table

    def _timing(self) -> Table:
        table = _table("bold blue")
        for name, ratio, width in (
            ("Learner (Iter Wall)", 5, 16), ("Collector (own clock)", 6, 16), ("System", 4, 12),
        ):  # fmt: skip
            table.add_column(name, style="white", ratio=ratio, no_wrap=True)
            table.add_column("Value", style="yellow", justify="right", width=width, no_wrap=True)
        means = self._means
        wall_ms = means.get("Perf/iteration_time", 0.0) * 1e3
        phases_ms = [means.get(tag, 0.0) for tag, _ in PHASES]
        phases_ms.append(means.get("Perf/learning_time", 0.0) * 1e3)
        learner_ms = [*phases_ms, max(wall_ms - sum(phases_ms), 0.0), wall_ms]
        collector = [(key, means.get(f"Perf/collector_{key}", 0.0)) for key, _ in COLLECTOR]
        cycle_ms = sum(ms for key, ms in collector if not key.startswith("env_step_b"))
        columns = [
            [
                (label, f"{ms:>7.1f}ms  {100 * ms / max(wall_ms, 1e-9):>3.0f}%")
                for label, ms in zip(_LABELS, learner_ms, strict=True)
            ],
            [
                (key, f"{ms:>7.1f}ms  {100 * ms / max(cycle_ms, 1e-9):>3.0f}%")
                for key, ms in collector
            ],
            [
                ("Buffer", f"{1_000_000:,}"),
                ("Timeout Rate", f"{100 * means.get('Episode/timeout_rate', 0.0):.1f}%"),
                ("Envs", f"{ENVIRONMENTS:,}"),
                ("Batch/Rank", f"{8192:,}"),
            ],
        ]
        for row in range(max(len(column) for column in columns)):
            cells = [column[row] if row < len(column) else ("", "") for column in columns]
            table.add_row(*(word for cell in cells for word in cell))
        return table


class UniRl:
    """``uni_rl``'s own logger, called as its runner calls it."""

    name = "uni_rl's OffPolicyLogger"

    def __init__(self, module: Any, updates: Sequence[Mapping[str, float]]) -> None:
        self._logger = module.OffPolicyLogger(
            algo_name="sac", max_iterations=MAX_ITERATIONS, num_envs=ENVIRONMENTS,
            env_name="go2_joystick_flat", log_backend="none",
        )  # fmt: skip
        # Made before, so that the logger's own work is all that is measured.
        self._steps = [_step(values) for values in updates]
        self._logger.start()
        self._logger.start_training_timer()

    def update(self, number: int) -> None:
        """Takes the next one."""
        logger, step = self._logger, self._steps[number % len(self._steps)]
        logger.update_mean_episode_length(step.episode_length)
        logger.update_timeout_rate(step.timeout_rate)
        logger.log_collector((number + 1) * ENVIRONMENTS, 1_000_000)
        logger.update_collector_timing(step.collector_ms)
        logger.log_step(number + 1, **step.learner)


class _Step(NamedTuple):
    """An update in the words of ``uni_rl``."""

    episode_length: float
    timeout_rate: float
    collector_ms: dict[str, float]
    learner: dict[str, Any]


def _step(values: Mapping[str, float]) -> _Step:
    phases_s = {key: values[tag] / 1e3 for key, tag in _PHASE_WORDS.items()}
    learner: dict[str, Any] = {
        "metrics": {tag: values[tag] for tag, _ in METRICS},
        "return_mean_ep100": values["Train/mean_reward"],
        "reward_components": {
            tag.removeprefix("reward/"): value
            for tag, value in values.items()
            if tag.startswith("reward/")
        },
        "train_time": values["Perf/learning_time"],
        "iteration_time": values["Perf/iteration_time"],
        "extra_info": {
            "env_steps_per_sec": values["Perf/total_fps"], "batch_size_per_rank": 8192,
        },
    }  # fmt: skip
    return _Step(
        values["Train/mean_episode_length"],
        values["Episode/timeout_rate"],
        {key: values[f"Perf/collector_{key}"] for key, _ in COLLECTOR},
        learner | phases_s,
    )


class Nothing:
    """What the benchmark's own loop costs."""

    def update(self, number: int) -> None:
        """Shows nothing."""


def _losses_first(tag: str) -> tuple[bool, str]:
    return not tag.startswith("Loss/"), tag


def _table(header_style: str) -> Table:
    return Table(
        box=box.SIMPLE_HEAVY, show_edge=False, header_style=header_style, expand=True,
        pad_edge=False,
    )  # fmt: skip


def uni_rl_logging() -> Any | None:
    """The module of the real one, if it is there."""
    if source := os.environ.get("UNI_RL_SRC"):
        sys.path.insert(0, source)
    try:
        return importlib.import_module("uni_rl.logging.offpolicy")
    except ImportError:
        return None


def milliseconds_per_update(shown: Panelled) -> float:
    """Of processor time, once the window is full."""
    for number in range(MOST_SAMPLES):
        shown.update(number)
    began_s = time.process_time()
    for number in range(200):
        shown.update(MOST_SAMPLES + number)
    return (time.process_time() - began_s) * 1e3 / 200


def main() -> None:
    """Shows updates until it is ended, or names the peer."""
    module = uni_rl_logging()
    if sys.argv[1:] == ["--name"]:
        print(StandIn.name if module is None else UniRl.name)
        return
    updates_per_s, updates = float(sys.argv[1]), noisy(int(sys.argv[2]))
    if "--nothing" in sys.argv:
        shown: Panelled = Nothing()
    elif module is None:
        shown = StandIn(updates)
    else:
        shown = UniRl(module, updates)
    if "--cost" in sys.argv:
        print(f"{milliseconds_per_update(shown):.2f} ms of processor time per update")
    else:
        paced(updates_per_s, lambda: True, shown.update)


if __name__ == "__main__":
    main()
