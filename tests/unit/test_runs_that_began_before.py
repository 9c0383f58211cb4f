"""Which runs are offered as earlier ones: of the same task, begun before, whatever their names."""

from __future__ import annotations

from pathlib import Path

import long_history
import pytest
from long_history import LongHistory, S

from unilab_metrics.subscribe import earlier_runs
from unilab_metrics.subscribe.earlier_runs import EarlierRuns
from unilab_schema.identity import RunInfo


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    begins = {
        "d-own": (50, "reach"),
        "a-later": (60, "reach"),
        "b-other": (40, "push"),
        "c-first": (10, "reach"),
        "a-nameless": (20, ""),
        "e-second": (30, "reach"),
    }
    for name, (began_s, task) in begins.items():
        monkeypatch.setattr(long_history, "START_UNIX_NS", 1_770_000_000 * S + began_s * S)
        made = LongHistory(tmp_path / name, tags=("a",), run=RunInfo("sac", task))
        made.updates(3)
        made.write()
    (tmp_path / "a-nothing").mkdir()
    return tmp_path


def test_those_of_the_task_that_began_before_are_offered_the_newest_first(folder: Path) -> None:
    runs = EarlierRuns(folder / "d-own")
    assert runs.names() == ("e-second", "a-nameless", "c-first")
    assert runs.open("c-first") is not None
    assert EarlierRuns(folder / "d-own").open("a-later") is None
    assert EarlierRuns(folder / "c-first").names() == ()


def test_where_a_history_does_not_say_when_it_began_the_names_do(folder: Path) -> None:
    (folder / "b").mkdir()
    assert set(EarlierRuns(folder / "b").names()) == {"a-later", "a-nameless"}


def test_of_very_many_those_before_it_by_name_are_looked_at_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier_runs, "_MOST_LOOKS", 4)
    assert EarlierRuns(folder / "d-own").names() == ("a-nameless", "c-first")
