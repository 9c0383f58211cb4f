"""What a user looked at last, and pictures of the screen: files of the user's own."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_run import whole_run
from still_sidecar import drive, screen_text
from textual.pilot import Pilot

from unilab_sidecar.app import SidecarApp
from unilab_sidecar.chart_state import ChartState
from unilab_sidecar.saved_view import Saved, load_saved, restored, save, saved_of, state_place
from unilab_sidecar.snapshot import shortened, write_snapshot
from unilab_sidecar.viewing import ViewState

CHOSEN = ViewState(
    view="charts",
    theme="light",
    filters=("x", "", "", "", ""),
    paused_unix_s=3.0,
    chart=ChartState(("Loss/任务", "b"), x_axis="time", log_y=True, overlay="scaled"),
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_looked_at_is_there_the_next_time(environ: dict[str, str]):
    assert load_saved(environ) == Saved()
    save(CHOSEN, environ)
    again = restored(ViewState(), load_saved(environ))
    assert (again.view, again.theme, again.chart) == ("charts", "light", CHOSEN.chart)
    # Nothing is hidden or held from somebody who does not remember it.
    assert (again.filter, again.paused_unix_s) == ("", None)


def test_the_file_is_private_and_whole(environ: dict[str, str]):
    os.umask(umask := os.umask(0))
    save(CHOSEN, environ)
    save(replace(CHOSEN, theme="ansi"), environ)
    place = state_place(environ)
    assert place is not None
    assert [path.name for path in place.iterdir()] == ["sidecar.json"]
    assert mode(place / "sidecar.json") == 0o600
    assert mode(place) == 0o700 & ~umask
    assert load_saved(environ).theme == "ansi"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000, b'{"view": "gone"}',
        b'{"tags": [3]}', b'{"tags": "Loss"}', b'{"log_y": "yes"}', b'{"x_axis": null}',
    ],
)  # fmt: skip
def test_a_damaged_file_counts_as_none(environ: dict[str, str], content: bytes):
    place = state_place(environ)
    assert place is not None
    place.mkdir(parents=True)
    (place / "sidecar.json").write_bytes(content)
    assert load_saved(environ) == Saved()
    save(CHOSEN, environ)
    assert load_saved(environ) == saved_of(CHOSEN)


def test_what_exists_no_more_is_left_out_and_what_is_new_is_ignored(environ: dict[str, str]):
    place = state_place(environ)
    assert place is not None
    place.mkdir(parents=True)
    tags = '", "'.join(f"t{n}" for n in range(99))
    (place / "sidecar.json").write_text(
        f'{{"theme": "gone", "later": 1, "tags": ["{tags}"]}}', "utf-8"
    )
    again = restored(ViewState(), load_saved(environ))
    assert again.theme == ViewState().theme
    assert len(again.chart.tags) == 16


def test_a_place_that_cannot_be_used_troubles_nobody(tmp_path: Path):
    (tmp_path / "file").write_text("", "utf-8")
    environ = {"XDG_STATE_HOME": str(tmp_path / "file")}
    save(CHOSEN, environ)
    assert load_saved(environ) == Saved()
    with pytest.raises(OSError, match="file"):
        write_snapshot("", "", "bus", environ)


def test_pictures_are_never_overwritten(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("time.strftime", lambda _form: "2026-03-09_18-30-00")
    paths = [write_snapshot(f"<svg>{n}", f"text {n}", "bus", environ) for n in range(3)]
    assert [path.name for path in paths] == [
        "2026-03-09_18-30-00_bus.svg",
        "2026-03-09_18-30-00_bus_2.svg",
        "2026-03-09_18-30-00_bus_3.svg",
    ]
    for n, path in enumerate(paths):
        assert path.read_text("utf-8") == f"<svg>{n}"
        assert path.with_suffix(".txt").read_text("utf-8") == f"text {n}"
        assert mode(path) == mode(path.with_suffix(".txt")) == 0o600


def test_a_path_below_the_home_is_short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert shortened(Path("/home/me/a/b.svg")) == "~/a/b.svg"
    assert shortened(Path("/data/b.svg")) == "/data/b.svg"


def test_the_app_saves_pictures_where_it_says_and_remembers(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    said: list[str] = []

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        await pilot.press("5", "t", "s")
        await pilot.pause()
        said.extend(screen_text(app).splitlines()[-1:])
        await pilot.press("q")

    environ = environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    drive(whole_run(30)[1], look, size=(120, 30), environ=environ, remembers=True)
    match = re.search(r"saved (~/state/unilab-metrics/snapshots/\S+\.svg) and", said[0])
    assert match
    path = tmp_path / match[1].removeprefix("~/")
    assert "<svg" in path.read_text("utf-8")
    text = path.with_suffix(".txt").read_text("utf-8")
    assert text.startswith("Bus · SAC · cart_pole_balance")
    assert "tensorboard" in text
    # Nothing beside it, and nothing where the viewer was started.
    assert [one.name for one in tmp_path.iterdir()] == ["state"]
    shown: list[str] = []

    async def again(app: SidecarApp, pilot: Pilot[Any]) -> None:
        shown.append(screen_text(app))
        assert app.theme == "light"

    drive(whole_run(30)[1], again, environ=environ, remembers=True)
    assert "Positions" in shown[0]


def test_a_theme_that_only_the_terminal_needs_is_not_kept(environ: dict[str, str]):
    async def nothing(app: SidecarApp, pilot: Pilot[Any]) -> None:
        assert app.theme == "ansi"

    save(CHOSEN, environ)
    drive([], nothing, environ=environ | {"TERM": "xterm", "NO_COLOR": "1"}, remembers=True)
    assert load_saved(environ).theme == "light"
