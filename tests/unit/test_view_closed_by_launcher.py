"""A screen that its launcher has closed has not ended by itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from unilab_metrics.run.launching import show as show_module
from unilab_metrics.run.launching.show import AFTER_CTRL_C, AFTER_Q, Kind, Show


class Screen:
    """In the place of a ``View``: ends with ``status`` when it is closed."""

    owns_screen, is_kept = True, False

    def __init__(self, status: int) -> None:
        self.exit_status: int | None = None
        self._status = status

    def close(self, _linger_s: float) -> None:
        if self.exit_status is None:
            self.exit_status = self._status


class Terminal:
    """In the place of a ``TerminalState``."""

    def restore(self, *, modes: bool) -> None:
        """Nothing has changed."""

    def keep_keys(self, *, is_starting: bool = False) -> None:
        """There are none."""

    def told(self) -> str:
        return ""


class Lines(Screen):
    owns_screen = False
    process = SimpleNamespace(stdout=None)


@pytest.mark.parametrize(
    ("is_interrupted", "status", "said"),
    [
        (True, 143, [AFTER_CTRL_C]),
        (True, -15, [AFTER_CTRL_C]),
        (True, 0, [AFTER_CTRL_C]),
        (False, 130, [AFTER_CTRL_C]),
        (False, 0, [AFTER_Q]),
        (False, 143, ["the sidecar ended with 143", AFTER_Q]),
    ],
)
def test_what_is_said_when_a_screen_is_gone(
    is_interrupted: bool,
    status: int,
    said: list[str],
    run_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screens, lines = [Screen(status)], [Lines(0)]
    views = SimpleNamespace(sidecar=lambda *_, **__: screens[0], lines=lambda *_, **__: lines[0])
    monkeypatch.setattr(show_module, "View", views)
    terminal = Terminal()
    monkeypatch.setattr(show_module, "TerminalState", lambda: terminal)
    monkeypatch.setattr(show_module, "_RUN_END_GRACE_S", 0.0)
    spoken: list[str] = []
    output = SimpleNamespace(
        pump=lambda _s: None,
        say=lambda *words: spoken.extend(words),
        take_kept_back=lambda _n: [],
        is_shown=True,
    )
    show = Show(Kind.SCREEN, cast("Any", output))
    show.begin(run_dir, 0)
    if is_interrupted:
        assert show.interrupt_view()
    else:
        screens[0].exit_status = status
    show.tick()
    assert spoken == said


class Lingering(Screen):
    """Shows the run's end until it has shown it ``times``."""

    def __init__(self, *, owns_screen: bool, times: int = 5) -> None:
        super().__init__(0)
        self.owns_screen, self.times = owns_screen, times
        self.process = SimpleNamespace(stdout=SimpleNamespace(fileno=lambda: 9, close=int))

    def show(self) -> None:
        self.times -= 1
        if not self.times:
            self.exit_status = 0


@pytest.mark.parametrize(
    ("kind", "is_watched", "has_shown"),
    [
        (Kind.SCREEN, True, True),
        (Kind.SCREEN, False, False),
        (Kind.LINES, True, True),
        (Kind.LINES, False, True),
    ],
)
def test_a_screen_stays_after_the_end_unless_we_are_ended_from_outside_and_lines_always_do(
    kind: Kind, is_watched: bool, has_shown: bool, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = Lingering(owns_screen=kind is Kind.SCREEN)
    views = SimpleNamespace(sidecar=lambda *_, **__: view, lines=lambda *_, **__: view)
    terminal = Terminal()
    monkeypatch.setattr(show_module, "TerminalState", lambda: terminal)
    monkeypatch.setattr(show_module, "View", views)
    monkeypatch.setattr(show_module, "has_new_summary", lambda _run_dir, _earlier: True)
    output = SimpleNamespace(pump=lambda _s: view.show(), listen=int, forget=int, is_shown=True)
    show = Show(kind, cast("Any", output))
    show.begin(run_dir, 0)
    show.end_run(is_hurried=False, is_watched=is_watched)
    assert (view.times == 0) is has_shown
