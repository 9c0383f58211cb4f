"""Several trainings with faults side by side: starting costs more than running."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fault_oracle import Outcome, compare
from fault_player import finish
from fault_training import PATIENCE_S, FaultTraining

SIDE_BY_SIDE = 4
FEWEST_CALLS = 50
"""A training that has published less says nothing about losses."""
_AT_THE_END = ("publisher.ending",)


def side_by_side(scenarios: Mapping[str, Callable[[], list[str]]]) -> dict[str, list[str]]:
    """What each scenario found wrong; those that found nothing are left out."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        results = list(pool.map(_guarded, scenarios.values()))
    return {name: found for name, found in zip(scenarios, results, strict=True) if found}


def _guarded(scenario: Callable[[], list[str]]) -> list[str]:
    try:
        return scenario()
    except Exception as error:  # noqa: BLE001 (the others are to be heard too)
        return [f"{type(error).__name__}: {error}"]


def complaints(training: FaultTraining, outcome: Outcome) -> list[str]:
    """What was wrong, and where to look for the reason."""
    if outcome.published < FEWEST_CALLS:
        return [f"only {outcome.published} calls, see {training.folder}"]
    return [f"{fault}, see {training.folder}" for fault in outcome.faults]


def until_sidecar_is_current(training: FaultTraining) -> None:
    """Wait until it shows an iteration of now or later."""
    newest = training.newest_iteration()
    log = training.folder / "sidecar.log"

    def shown() -> int:
        words = log.read_text().rpartition("iter ")[2].split(maxsplit=1)
        return int(words[0]) if words and words[0].isdigit() else 0

    training.until(lambda: shown() >= newest)


def crash(
    folder: Path,
    points: Mapping[str, str],
    *,
    world_size: int = 2,
    collectors: int = 2,
    segment_bytes: int = 0,
    timeout_s: float = PATIENCE_S,
    steady_s: float = 0.5,
) -> list[str]:
    """A training whose processes die at the points until each has acted as often as it may;
    then its end. ``points``: as for ``FaultTraining``; ``publisher.ending`` acts in the end."""
    with FaultTraining(
        folder,
        world_size=world_size,
        collectors=collectors,
        points=points,
        segment_bytes=segment_bytes,
    ) as training:
        training.start_attempt()
        training.until(lambda: not training.lacking(but=_AT_THE_END), timeout_s)
        training.until(training.is_publishing, timeout_s)
        training.go_on(steady_s)
        finish(training)
        if training.lacking():
            return [f"{training.lacking()} never happened, see {folder}"]
        return complaints(training, compare(training))
