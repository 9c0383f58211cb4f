"""Versions of Textual whose inner parts are other ones: the view starts, and Textual paints."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from textual import _compositor
from textual.app import App, ComposeResult
from textual.drivers.linux_driver import LinuxDriver
from textual.widgets import Static

from unilab_sidecar.terminal import key_parsing
from unilab_sidecar.terminal import updates as terminal_updates
from unilab_sidecar.terminal.driver import TerminalDriver
from unilab_sidecar.terminal.shared_terminal import SharedTerminalApp


def _loaded_anew(name: str) -> ModuleType:
    spec = importlib.util.find_spec(f"unilab_sidecar.{name}")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class _Other:
    def __init__(self, lines: object) -> None:
        self.lines = lines


@pytest.mark.parametrize(
    "inner", [None, SimpleNamespace(), SimpleNamespace(ChopsUpdate=_Other, LayoutUpdate=object)]
)
def test_an_update_of_another_kind_stays_as_it_is(
    inner: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual._compositor", inner)
    economical = _loaded_anew("terminal.updates").economical
    update = _Other([])
    assert economical(update) is update
    assert economical(None) is None


def test_an_update_that_cannot_be_read_is_painted_as_textual_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def paint(_update: object, _console: object) -> str:
        return "painted by Textual"

    monkeypatch.setattr(_compositor.ChopsUpdate, "render_segments", paint)
    odd: Any = ["neither spans", "nor strips"]
    update = _compositor.ChopsUpdate(odd, odd, odd)
    made = terminal_updates.economical(update)
    assert made is not update
    assert made.render_segments(None) == "painted by Textual"


class _Words(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("words")


def test_a_screen_is_handed_on_with_all_that_textual_hands_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handed: list[object] = []

    def display(_app: object, *arguments: object, **more: object) -> None:
        handed.extend((*arguments, more))

    async def update_of() -> object:
        app = _Words()
        async with app.run_test(size=(20, 4)):
            return app.screen._compositor.render_update(full=True)

    update = asyncio.run(update_of())
    monkeypatch.setattr(App, "_display", display)
    SharedTerminalApp._display(SharedTerminalApp(), "screen", update, later=True)
    assert isinstance(handed[1], terminal_updates.WholeScreen)
    assert (handed[0], handed[2]) == ("screen", {"later": True})


@pytest.mark.parametrize("inner", [None, SimpleNamespace(), SimpleNamespace(XTermParser=object)])
def test_without_a_parser_that_is_known_textual_reads_the_keys(
    inner: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual._xterm_parser", inner)
    assert key_parsing.key_parser() is None
    read: list[str] = []
    monkeypatch.setattr(LinuxDriver, "run_input_thread", lambda _driver: read.append("keys"))
    object.__new__(TerminalDriver).run_input_thread()
    assert read == ["keys"]


@pytest.mark.parametrize(
    "name",
    ["terminal.driver", "terminal.updates", "terminal.shared_terminal", "terminal.key_parsing"],
)
def test_nothing_needs_an_inner_part_of_textual_to_be_loaded(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual._compositor", None)
    monkeypatch.setitem(sys.modules, "textual._xterm_parser", None)
    _loaded_anew(name)
