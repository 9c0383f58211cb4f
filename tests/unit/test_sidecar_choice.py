"""Who shows a run: what was asked for, and what the surroundings allow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unilab_metrics.config import CONSOLE_VARIABLE, SIDECAR_VARIABLE
from unilab_metrics.run import arguments, session
from unilab_metrics.run.launching import own_view, tmux
from unilab_metrics.run.launching.announced_runs import (
    AnnouncedRuns,
    LauncherPlace,
    announce_to_launcher,
    is_launched,
)
from unilab_metrics.run.launching.own_view import open_own_view
from unilab_metrics.run.launching.show import Kind, Show, kind_for
from unilab_metrics.run.launching.tmux import split_command
from unilab_metrics.run.meeting.ranks import Place
from unilab_metrics.run.output.live_output import LiveOutput

TMUX = {"TMUX": "/tmp/tmux-0/default,1,0", "TMUX_PANE": "%7", "TERM": "screen"}


def test_only_the_known_choices_are_taken() -> None:
    assert arguments.sidecar("auto") == "auto"
    assert arguments.sidecar(None) is None
    with pytest.raises(ValueError, match="off, auto, tmux"):
        arguments.sidecar("yes")


@pytest.mark.parametrize(("said", "taken"), [("", "off"), ("AUTO", "auto"), ("nonsense", "off")])
def test_a_user_may_ask_for_a_training_that_does_not_say_it(said: str, taken: str) -> None:
    assert session._sidecar({SIDECAR_VARIABLE: said}) == taken


def test_without_a_terminal_or_a_tmux_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unilab_metrics.run.launching.tmux.shutil.which", lambda _: "/usr/bin/tmux")
    assert kind_for("off", TMUX) is Kind.NOTHING
    assert kind_for("tmux", TMUX) is Kind.TMUX
    assert kind_for("tmux", {}) is kind_for("auto", {"TERM": "dumb"}) is Kind.LINES


def test_a_pane_has_our_packages_and_leaves_the_keyboard(run_dir: Path) -> None:
    command = split_command(run_dir / "with space", TMUX | {"NO_COLOR": "1"})
    assert command[:2] == ["sh", "-c"]
    assert command[-2] == "%7"
    assert "split-window -d " in command[2]
    assert "NO_COLOR=1" in command[-1]
    assert "with space'" in command[-1]
    assert "--allow-control" not in command[-1]
    assert split_command(run_dir, TMUX, "--allow-control")[-1].endswith(" --allow-control")


def test_what_the_screen_may_do_it_may_do_in_a_pane_too(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, ...]] = []
    monkeypatch.setattr(tmux, "open_pane", lambda _, *options: opened.append(options) or "%9")
    monkeypatch.setattr(tmux, "close_pane", lambda _: None)
    for may_stop in (True, False):
        show = Show(Kind.TMUX, LiveOutput(None), may_stop=may_stop)
        show.begin(run_dir, 0)
        show.end()
    assert opened == [("--allow-control",), ()]


def test_under_a_launcher_or_a_debugger_nothing_is_opened(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LauncherPlace() as place:
        under = {CONSOLE_VARIABLE: str(place)}
        assert is_launched(under)
        assert open_own_view("auto", run_dir, Place(0, 1, "none"), under) is None
    assert not is_launched(under)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert open_own_view("auto", run_dir, Place(0, 1, "none"), {}) is None
    assert open_own_view("auto", run_dir, Place(1, 2, "none"), {}) is None


@pytest.mark.parametrize(("has_terminal", "is_said"), [(True, True), (False, False)])
def test_several_ranks_on_a_terminal_are_told_why_there_are_lines(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, *, has_terminal: bool, is_said: bool
) -> None:
    said: list[str] = []
    monkeypatch.setattr(own_view, "can_take_terminal", lambda _: has_terminal)
    monkeypatch.setattr(
        own_view.View, "lines", lambda _, *, interval_s, first_line: said.append(first_line)
    )
    assert open_own_view("auto", run_dir, Place(0, 2, "none"), {"LOCAL_WORLD_SIZE": "2"})
    assert said == [own_view.SEVERAL_RANKS if is_said else ""]
    assert "unilab-metrics run -- " in own_view.SEVERAL_RANKS


def test_a_launcher_hears_of_each_run_once_and_leaves_nothing(tmp_path: Path) -> None:
    strange = tmp_path / "new\nline \udcff"
    with LauncherPlace() as place:
        runs, environ = AnnouncedRuns(place), {CONSOLE_VARIABLE: str(place)}
        assert runs.poll() == []
        announce_to_launcher(environ, tmp_path)
        announce_to_launcher(environ, strange)
        assert runs.poll() == [tmp_path, strange]
        assert runs.poll() == []
    assert not place.exists()
    announce_to_launcher(environ, tmp_path)
    assert not place.exists()
