"""GPUs, processors and memory of the node on the screen, read as text."""

from __future__ import annotations

import math

import pytest
from msgspec import structs
from sample_run import SampleRun
from screen_text import find, text
from series_records import SAC, head, update

from unilab_schema.identity import RunInfo
from unilab_sidecar.drawing.text import line_width, plain
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.picture import Picture
from unilab_sidecar.series import Series
from unilab_sidecar.views.bus import view as bus_view

GIB = 2.0**30
HOST = {
    "Node/0/cpu_percent": 43.4,
    "Node/0/memory_used_bytes": 12.1 * GIB,
    "Node/0/memory_total_bytes": 24 * GIB,
}


def gpu(index: int | str, util: float = 87.0, heat: float = 64.0) -> dict[str, float]:
    place = f"Node/0/gpu{index}"
    return {
        f"{place}/util_percent": util,
        f"{place}/memory_used_bytes": 21.3 * GIB,
        f"{place}/memory_total_bytes": 80 * GIB,
        f"{place}/temperature_c": heat,
        f"{place}/power_w": 231.0,
    }


def shown(values: dict[str, float], *, seconds_later: float = 0.0) -> Picture:
    sample = SampleRun()
    series = Series()
    series.add(sample.batch(sample.update(values)))
    if seconds_later:
        sample.mono_ns += round(seconds_later * 1e9)
        series.add(sample.batch(sample.update()))
    return series.picture()


def bus_screen(picture: Picture, columns: int) -> list[str]:
    return [plain(row) for row in bus_view(picture, None, ViewState(), columns, 40).lines]


def system_rows(picture: Picture, columns: int) -> list[str]:
    rows = text(picture, columns).splitlines()
    top, left = find("\n".join(rows), "System ─")
    column = [" ".join(row[left:].split()) for row in rows[top + 1 :]]
    end = next((at for at, row in enumerate(column) if not row or row[0] == "─"), len(column))
    return column[:end]


def test_the_system_column_has_a_row_for_each_gpu_and_for_cpu_and_memory():
    rows = system_rows(shown(HOST | gpu(0) | gpu(1, 5.0)), 140)
    assert "GPU 0 87 % 21.3/80 GiB 64 °C 231 W" in rows
    assert "GPU 1 5 % 21.3/80 GiB 64 °C 231 W" in rows
    assert "CPU 43 %" in rows
    assert "Memory 12.1/24 GiB" in rows
    places = [next(i for i, r in enumerate(rows) if r.startswith(w))
              for w in ("Buffer", "CUDA MPS", "GPU 0", "GPU 1", "CPU", "Memory")]  # fmt: skip
    assert places == sorted(places)


@pytest.mark.parametrize(("quota", "said"), [(4.0, "of 4"), (2.5, "of 2.5"), (0.5, "of 0.5")])
def test_a_share_of_a_containers_processors_says_of_how_many(quota: float, said: str):
    picture = shown(HOST | {"Node/0/cpu_quota_processors": quota})
    assert f"CPU 43 % {said}" in system_rows(picture, 120)
    rows = [" ".join(row.split()) for row in bus_screen(picture, 80)]
    assert f"CPU 43 % {said} Memory 12.1/24 GiB" in rows


@pytest.mark.parametrize("columns", [120, 121, 130])
def test_what_does_not_fit_beside_a_gpus_name_gives_way_from_the_end(columns: int):
    rows = system_rows(shown(HOST | gpu(0)), columns)
    assert any(row.startswith("GPU 0 87 % 21.3/80 GiB 64 °C") for row in rows)
    assert not any("…" in row for row in rows)


@pytest.mark.parametrize("columns", [70, 80, 95, 96, 119])
def test_narrower_screens_have_it_in_the_bus_view(columns: int):
    picture = shown(HOST | gpu(0) | gpu(1, 5.0))
    assert "CPU" not in text(picture, columns)
    rows = [" ".join(row.split()) for row in bus_screen(picture, columns)]
    at = next(i for i, row in enumerate(rows) if "Node ─" in row)
    for row, words in zip(
        rows[at + 1 : at + 4],
        (
            "GPU 0 87 % 21.3/80 GiB 64 °C 231 W",
            "GPU 1 5 % 21.3/80 GiB 64 °C 231 W",
            "CPU 43 % Memory 12.1/24 GiB",
        ),
        strict=True,
    ):
        assert row.endswith(words)


def test_a_node_without_a_gpu_has_no_row_for_one_and_a_run_without_figures_none_at_all():
    screen = text(shown(HOST), 120)
    find(screen, "CPU")
    for word in ("GPU", "°C"):
        assert word not in screen
    bare = shown({})
    assert "Memory" not in text(bare, 120)
    assert not [row for row in bus_screen(bare, 120) if "Node ─" in row]


def test_a_sensor_that_a_gpu_lacks_takes_no_place():
    values = gpu("0:7")
    del values["Node/0/gpu0:7/util_percent"], values["Node/0/gpu0:7/power_w"]
    assert "GPU 0:7 21.3/80 GiB 64 °C" in system_rows(shown(values), 120)


def test_many_gpus_are_told_together_and_each_in_the_bus_view():
    values = HOST.copy()
    for index in range(16):
        values |= gpu(index, 10.0 + index, 40.0 + index)
    picture = shown(values)
    rows = system_rows(picture, 120)
    assert "16 GPUs 10 to 25 %" in rows
    assert "GPU Memory 340.8/1280 GiB" in rows
    assert "GPU Heat 40 to 55 °C" in rows
    assert not any(row.startswith("GPU 0") for row in rows)
    named = [row.split()[1] for row in bus_screen(picture, 80) if row.startswith("GPU ")]
    assert named == [str(index) for index in range(16)]


def test_its_tags_are_no_metrics_of_the_training():
    assert "Node/" not in text(shown(HOST | gpu(0)), 160)


def test_figures_that_are_not_renewed_show_their_age():
    picture = shown(HOST | gpu(0), seconds_later=12.0)
    assert "CPU 43 % (12 s)" in system_rows(picture, 130)
    assert any("87 %" in row and "(12 s)" in row for row in bus_screen(picture, 80))


def test_before_the_first_update_and_between_long_iterations_the_announcement_says_it():
    series = Series()
    waiting = structs.replace(head(1.0), node=HOST | gpu(0))
    series.add(Batch((), waiting, connected=True))
    find(text(series.picture(), 120), "CPU")
    series.add(Batch((update(1, {**HOST, "Loss/actor": 1.0}),), head(1.0), connected=True))
    later = structs.replace(head(40.0), node=HOST | {"Node/0/cpu_percent": 7.0})
    series.add(Batch((), later, connected=True))
    assert "CPU 7 %" in system_rows(series.picture(), 120)
    series.add(Batch((), later, connected=True, head_age_s=9.0))
    assert "CPU 7 % (9.0 s)" in system_rows(series.picture(), 120)


def test_figures_of_the_node_are_means_over_two_seconds_like_all_others():
    series = Series()
    for second, percent in enumerate([10.0, 20.0, 60.0, 70.0], start=1):
        values = {"Node/0/cpu_percent": percent, "Loss/actor": 1.0}
        series.add(Batch((update(second, values),), head(second), connected=True))
    assert "CPU 50 %" in system_rows(series.picture(), 120)


def test_every_algorithm_has_the_node():
    for algorithm in ("ppo", "appo", "sac", "mine"):
        series = Series()
        run = RunInfo(algorithm, "walk", max_iterations=10)
        series.add(Batch((update(1, HOST | {"Loss/value": 1.0}),), head(1.0, run=run)))
        assert "Memory 12.1/24 GiB" in system_rows(series.picture(), 120), algorithm


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1.0])
def test_strange_figures_never_raise(value: float):
    values = dict.fromkeys(HOST | gpu(0) | gpu("x"), value)
    picture = shown(values)
    for columns in (1, 30, 80, 120, 300):
        text(picture, columns)
        rows = bus_view(picture, None, ViewState(), columns, 40).lines
        assert all(line_width(row) <= max(columns, 1) for row in rows)
    assert SAC.algorithm == "sac"
