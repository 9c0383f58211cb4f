"""What a user looked at last, and pictures of the screen: files of the user's own."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sample_run import whole_run
from series_records import SAC as SAC_RUN
from series_records import picture, update
from still_sidecar import drive, screen_text
from textual.pilot import Pilot

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.identity import RunInfo
from unilab_sidecar.app import SidecarApp
from unilab_sidecar.charting.state import ChartState
from unilab_sidecar.looking.saved_view import (
    KeptView,
    Saved,
    SavedPlace,
    load_saved,
    restored,
    save,
    saved_of,
    state_place,
    with_charts,
)
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Picture
from unilab_sidecar.terminal.snapshot import place_words, shortened, write_snapshot

CHOSEN = ViewState(
    view="charts",
    theme="light",
    filters=("x", "", "", "", ""),
    paused_unix_s=3.0,
    chart=ChartState(("Loss/任务", "b"), x_axis="time", log_y=True, overlay="scaled"),
)
SAC = "/logs/sac/task sac"
KEPT = saved_of(CHOSEN, Saved(), SAC)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_looked_at_is_there_the_next_time(environ: dict[str, str]):
    assert load_saved(environ) == Saved()
    save(KEPT, environ)
    saved = load_saved(environ)
    again = restored(ViewState(), saved)
    chart = with_charts(again.chart, saved.projects[SAC], CHOSEN.chart.tags, ())
    assert (saved.projects[SAC].view, again.theme, chart) == ("charts", "light", CHOSEN.chart)
    # Nothing is hidden or held from somebody who does not remember it.
    assert (again.filter, again.paused_unix_s) == ("", None)


def test_the_file_is_private_and_whole(environ: dict[str, str]):
    os.umask(umask := os.umask(0))
    save(KEPT, environ)
    save(structs.replace(KEPT, theme="ansi"), environ)
    place = state_place(environ)
    assert place is not None
    assert [path.name for path in place.iterdir()] == ["sidecar.json"]
    assert mode(place / "sidecar.json") == 0o600
    assert mode(place) == 0o700 & ~umask
    assert load_saved(environ).theme == "ansi"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000, b'{"theme": 3}',
        b'{"projects": [3]}', b'{"projects": {"sac": {"tags": "Loss"}}}', b'{"projects": {"a": null}}',
        b'{"projects": {"sac": {"log_y": "yes"}}}', b'{"projects": {"sac": {"x_axis": null}}}',
    ],
)  # fmt: skip
def test_a_damaged_file_counts_as_none(environ: dict[str, str], content: bytes):
    place = state_place(environ)
    assert place is not None
    place.mkdir(parents=True)
    (place / "sidecar.json").write_bytes(content)
    assert load_saved(environ) == Saved()
    save(KEPT, environ)
    assert load_saved(environ) == KEPT


def test_what_exists_no_more_is_left_out_and_what_is_new_is_ignored(environ: dict[str, str]):
    place = state_place(environ)
    assert place is not None
    place.mkdir(parents=True)
    tags = '", "'.join(f"t{n}" for n in range(99))
    (place / "sidecar.json").write_text(
        f'{{"theme": "gone", "later": 1, "projects": {{"sac": {{"tags": ["{tags}"]}}}}}}', "utf-8"
    )
    saved = load_saved(environ)
    assert restored(ViewState(), saved).theme == ViewState().theme
    known = tuple(f"t{n}" for n in range(99))
    assert len(with_charts(ChartState(), saved.projects["sac"], known, ()).tags) == 16


def test_charts_are_remembered_for_runs_of_the_same_project():
    ppo = ViewState(chart=ChartState(("Loss/value",)))
    both = saved_of(ppo, KEPT, "ppo")
    assert both.projects[SAC] == KEPT.projects[SAC]
    assert both.projects["ppo"] == SavedPlace(("Loss/value",))
    # A run that ended before anybody knew of it changes nothing.
    assert saved_of(ViewState(), both, None).projects == both.projects
    many = Saved()
    for number in range(40):
        many = saved_of(ppo, many, f"own{number}")
    assert list(many.projects) == [f"own{number}" for number in range(24, 40)]


def test_the_view_and_its_charts_do_not_follow_into_runs_of_other_projects(
    environ: dict[str, str],
):
    here = replace(
        picture(update(1, {"b": 1.0})), run=SAC_RUN, run_dir_there="/logs/sac/task/2026-a"
    )
    first = KeptView(environ)
    state = replace(first.of_run(ViewState(), here), view="charts", theme="light")
    first.keep(replace(state, chart=ChartState(("b",))), "dark")
    again = KeptView(environ).of_run(
        ViewState(), replace(here, run_dir_there="/logs/sac/task/2026-b")
    )
    assert (again.view, again.chart.tags) == ("charts", ("b",))
    elsewhere = replace(here, run_dir_there="/logs/sac/other/2026-a")
    ppo = replace(here, run=RunInfo("ppo"))
    for other in (elsewhere, ppo, replace(here, run_dir="", run_dir_there="")):
        kept = KeptView(environ)
        state = kept.of_run(kept.restored(ViewState()), other)
        assert (state.view, state.theme, state.chart) == ("overview", "light", ChartState())


def test_the_view_waits_for_the_run_and_gives_way_to_what_somebody_has_chosen(
    environ: dict[str, str],
):
    save(saved_of(ViewState(view="ranks"), Saved(), SAC), environ)
    waiting = replace(picture(), run=RunInfo(), run_dir_there="/logs/sac/task/2026-a")
    known = replace(waiting, run=SAC_RUN)
    kept = KeptView(environ)
    assert kept.of_run(ViewState(), waiting) == ViewState()
    assert kept.of_run(ViewState(), known).view == "ranks"
    assert kept.of_run(ViewState(), known).view == "overview"
    assert KeptView(environ).of_run(ViewState(view="bus"), known).view == "bus"


def test_a_run_that_lacks_the_remembered_tags_has_the_usual_charts_drawn_in_the_usual_way():
    kept = KEPT.projects[SAC]
    other = with_charts(ChartState(), kept, ("losses/q",), ("losses/q",))
    assert other == ChartState(("losses/q",))
    part = with_charts(ChartState(), kept, ("b", "losses/q"), ())
    assert (part.tags, part.log_y) == (("b",), True)
    late = SavedPlace(("Train/mean_reward", "gone", "b"))
    assert with_charts(ChartState(), late, ("b",), ()).tags == ("Train/mean_reward", "b")
    other = ("b", "rollout/ep_rew_mean")
    assert with_charts(ChartState(), late, other, ()).tags == ("rollout/ep_rew_mean", "b")
    only = SavedPlace(("Train/mean_reward",))
    assert with_charts(ChartState(), only, ("b",), ("b",)).tags == ("b",)


def test_charts_wait_for_the_run_and_give_way_to_what_somebody_has_chosen(environ: dict[str, str]):
    save(saved_of(ViewState(chart=ChartState(("Loss/actor",), log_y=True)), Saved(), SAC), environ)

    def picture_of(*records: HistoryRecord) -> Picture:
        return replace(picture(*records), run=SAC_RUN, run_dir_there="/logs/sac/task/2026-a")

    first = KeptView(environ)
    start = first.restored(ViewState())
    assert start.chart == ChartState()
    assert first.of_run(start, picture_of()) == start
    shown = first.of_run(start, picture_of(update(1, {"Loss/actor": 1.0})))
    assert shown.chart == ChartState(("Loss/actor",), log_y=True)
    cleared = replace(shown, chart=ChartState())
    assert first.of_run(cleared, picture_of(update(1, {"Loss/actor": 1.0}))) is cleared
    chosen = ViewState(chart=ChartState(("b",)))
    record = update(1, {"Loss/actor": 1.0, "b": 2.0})
    assert KeptView(environ).of_run(chosen, picture_of(record)) == chosen


def test_a_place_that_cannot_be_used_troubles_nobody(tmp_path: Path):
    (tmp_path / "file").write_text("", "utf-8")
    environ = {"XDG_STATE_HOME": str(tmp_path / "file")}
    save(KEPT, environ)
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


def test_where_a_picture_lies_is_said_as_wholly_as_the_terminal_has_room():
    path = "~/.local/state/unilab-metrics/snapshots/2026-11-30_13-26-13_overview.svg"
    words = place_words(path)
    assert words[:3] == [
        f"saved {path} and .txt",
        path,
        "saved ~/.local/state/unilab-metrics/…/2026-11-30_13-26-13_overview.svg",
    ]
    # At 80 columns, of which 73 are for this, the whole path.
    assert next(said for said in words if len(said) <= 73) == path
    assert next(said for said in words if len(said) <= 63) == (
        "saved ~/.local/state/…/2026-11-30_13-26-13_overview.svg"
    )
    assert words[-1] == "2026-11-30_13-26-13_overview.svg"
    assert [len(said) for said in words[2:]] == sorted(map(len, words[2:]), reverse=True)
    assert "/state/a.svg" in place_words("/state/a.svg")


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

    save(KEPT, environ)
    drive([], nothing, environ=environ | {"TERM": "xterm", "NO_COLOR": "1"}, remembers=True)
    assert load_saved(environ).theme == "light"
