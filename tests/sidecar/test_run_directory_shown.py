"""Where a run lies, as the view of the bus says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unilab_sidecar.drawing.text import line_width, plain
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Picture
from unilab_sidecar.views import bus

RUN_DIR = "/data/logs/sac/cart_reach/2026-03-09_18-30-00_numpy"


def first_line(picture: Picture, columns: int = 120) -> str:
    made = bus.view(picture, None, ViewState(view="bus"), columns, 40)
    assert all(line_width(parts) <= max(columns - 5, 1) for parts in made.lines)
    return plain(made.lines[0]).rstrip()


def test_the_bus_view_begins_with_the_run_directory() -> None:
    shown = Picture(run_dir=RUN_DIR)
    assert first_line(shown) == f"run directory  {RUN_DIR}"
    assert first_line(replace(shown, host="box")) == f"run directory  {RUN_DIR} on box"


def test_of_a_directory_that_is_too_long_the_end_is_shown() -> None:
    shown = Picture(run_dir="/data/任务" + RUN_DIR)
    assert first_line(shown, 60).startswith("run directory  …")
    assert first_line(shown, 60).endswith("reach/2026-03-09_18-30-00_numpy")


@pytest.mark.parametrize("columns", [1, 7, 20, 30])
def test_it_is_cut_on_the_narrowest_screens(columns: int) -> None:
    first_line(Picture(run_dir=RUN_DIR + "\x1b[31m"), columns)


def test_a_run_of_which_only_an_address_is_known_has_that() -> None:
    assert first_line(Picture(target="tcp://10.0.0.5:7400")) == "run  tcp://10.0.0.5:7400"
    assert not first_line(Picture()).startswith("run directory")
