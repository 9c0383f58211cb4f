"""BR-57, BR-61: names are shown as they are, do nothing to a terminal, and stand in line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from sample_run import SampleRun
from shown_screens import seen, shown_of, typed
from still_sidecar import drive, screen_text
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from unilab_sidecar.app import SidecarApp
from unilab_sidecar.drawing.text import cut, fit, plain, width_of
from unilab_sidecar.feeding.batch import Batch
from unilab_sidecar.looking.showing import Shown, screen
from unilab_sidecar.looking.viewing import ViewState
from unilab_sidecar.printed.metric_lines import MetricTeller

MARKUP = ("[/x]", "reward[left]", "a[0]", "[@click=app.quit]q")
CONTROL = "evil\x1b]52;c;aGk=\x07\x9b31m\r\nname"
LITERAL = "evil\\x1b]52;c;aGk=\\x07\\x9b31m\\r\\nname"
CJK = "损失函数值x"
SIZE = (160, 100)


def batches() -> list[Batch]:
    run = SampleRun()
    names = {name: float(n) for n, name in enumerate((*MARKUP, CONTROL, CJK, "loss/value"))}
    batch = run.batch(run.open_attempt(), run.update(names), run.event("status", CONTROL))
    assert batch.head is not None
    info = structs.replace(batch.head.run, task=f"{MARKUP[1]} {CONTROL}")
    first = structs.replace(batch.head.sources[0], host=MARKUP[0], troubles={CONTROL: 1})
    head = structs.replace(batch.head, run=info, sources=(first, *batch.head.sources[1:]))
    return [replace(batch, head=head)]


@pytest.fixture(scope="module")
def shown() -> Shown:
    return shown_of(SampleRun(), batches())


def test_br57_names_are_literal_in_every_view(shown: Shown) -> None:
    for name in (*MARKUP, LITERAL, CJK):
        for keys in ("", "2/", "3/", "tab"):
            assert name in seen(shown, *([keys] if keys == "tab" else keys), size=SIZE), (
                name,
                keys,
            )
    assert LITERAL in seen(shown, "4", size=SIZE)
    assert MARKUP[0] in seen(shown, "5", size=SIZE)
    assert MARKUP[1] in screen(shown, ViewState(), *SIZE).title
    lines = MetricTeller(5.0).once(shown.picture)
    for name in (*MARKUP, LITERAL, CJK):
        assert any(line.startswith(f"{name} ") for line in lines)


def test_br57_nothing_in_a_name_reaches_the_terminal_as_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    monkeypatch.setattr(HeadlessDriver, "is_headless", property(lambda _driver: False))
    monkeypatch.setattr(HeadlessDriver, "write", lambda _driver, data: written.append(data))

    async def look(app: SidecarApp, pilot: Pilot[Any]) -> None:
        app.refresh()
        for key in ("1", "2", "slash", "escape", "3", "4", "5"):
            await pilot.press(key)
            await pilot.pause()
            assert app.is_running
        await pilot.press("1")
        await pilot.pause()
        for name in MARKUP:
            assert name in screen_text(app)

    drive(batches(), look, size=SIZE)
    output = "".join(written)
    assert "evil" in output
    for raw in ("\x1b]52", "aGk=\x07", "\x9b", "evil\x1b"):
        assert raw not in output


def test_br61_widths_are_those_of_cells() -> None:
    assert [width_of(text) for text in ("任务名", "🚀", "\u0301", "\u200b")] == [6, 2, 0, 0]
    assert width_of("e\u0301") == 1
    assert fit("损失函数值", 5) == "损失…"
    assert cut("损失函数值", 5) == "损失"


def test_br61_values_stand_in_line_beside_names_of_any_script(shown: Shown) -> None:
    assert width_of(CJK) == 11
    for columns in (40, 80, 120):
        state = typed(shown, ViewState(), "/", *"/loss.value|损/", "enter", size=(columns, 40))
        lines = [plain(line) for line in screen(shown, state, columns, 40).lines]
        ends = [
            width_of(
                line[: line.index(name)]
                + name
                + line[line.index(name) + len(name) :].split("  ")[0]
            )
            for name in ("loss/value", CJK)
            for line in lines
            if name in line and "Filter" not in line
        ]
        assert len(ends) == 2
    one = next(line for line in lines if CJK in line and "Filter" not in line)
    assert width_of(one) <= columns
