"""What is sent to the terminal shows the same picture as what Textual would send, and is small."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pyte
import pytest
from textual.app import App, ComposeResult

from unilab_sidecar.drawing.text import Block, Segment, line
from unilab_sidecar.terminal.escapes import squeezed
from unilab_sidecar.terminal.updates import ChangedCells, economical
from unilab_sidecar.widgets.sheet import Sheet, differences

COLUMNS, ROWS = 60, 12
CODES = ("0", "1", "2", "3", "4", "7", "9", "31", "92", "39", "44", "49", "38;5;17", "48;5;3",
         "38;2;1;2;3", "48;2;9;8;7", "1;38;2;9;9;9;48;2;0;0;0", "")  # fmt: skip


def shown(text: str) -> list[list[object]]:
    """Each cell of a terminal, blank ones without what cannot be seen of them."""
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(screen).feed(text)
    cells: list[list[object]] = []
    for y in range(ROWS):
        row: list[object] = []
        for x in range(COLUMNS):
            cell = screen.buffer[y][x]
            is_seen = cell.data != " " or cell.underscore or cell.strikethrough or cell.reverse
            row.append(cell if is_seen else cell.bg)
        cells.append(row)
    return cells


def scribbled(seed: int) -> str:
    chance = random.Random(seed)
    parts: list[str] = []
    for _ in range(200):
        kind = chance.randrange(4)
        if kind == 0:
            parts.append(f"\x1b[{chance.randrange(1, ROWS + 1)};{chance.randrange(1, 50)}H")
        elif kind == 1:
            parts.append(chance.choice(("abc", "  x ", "   ", "é", "0")))
        else:
            parts.append(f"\x1b[{chance.choice(CODES)}m")
    return "".join(parts)


@pytest.mark.parametrize("seed", range(40))
def test_squeezed_text_shows_the_same(seed: int) -> None:
    text = scribbled(seed)
    assert shown(squeezed(text)) == shown(text + "\x1b[0m")


@pytest.mark.parametrize("seed", range(10))
def test_squeezed_text_ends_in_the_style_of_the_terminal(seed: int) -> None:
    text = squeezed(scribbled(seed)) + "\x1b[1;1Hend"
    assert shown(text)[0][:3] == shown("\x1b[1;1Hend")[0][:3]


def test_styles_that_are_alike_are_sent_once() -> None:
    part = "\x1b[1;38;2;224;224;224;48;2;18;18;18m12.5\x1b[0m"
    assert squeezed(part * 10).count("\x1b[") == 2
    other = part.replace("224;224;224", "1;1;1")
    assert len(squeezed(part + other)) < len(part + other) - 20


def test_what_is_not_known_stays_as_it_is() -> None:
    for text in ("\x1b[1mbold\x1b[53mover\x1b[0m", "\x1b[38;7;1mx", "plain", ""):
        assert squeezed(text) == text


class Sheets(App[None]):
    CSS = "Sheet { scrollbar-size-vertical: 0; }"

    def compose(self) -> ComposeResult:
        self.sheet = Sheet()
        yield self.sheet


def lines_of(first: str, last: str) -> Block:
    return [
        line(
            Segment("Learner Wait   ", "label"), Segment(first, "value"), Segment(" " * 20),
            Segment("term  ", "label"), Segment(last, "good"),
        )
        for _ in range(4)
    ]  # fmt: skip


def sent(before: Block, after: Block) -> tuple[str, str]:
    """What Textual would send for the change, and what is sent."""

    async def run() -> tuple[str, str]:
        app = Sheets()
        async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
            app.sheet.show(before)
            await pilot.pause()
            whole: Any = app.screen._compositor.render_update(full=True)
            whole = whole.render_segments(app.console)
            # Nothing may paint before we do.
            with app.batch_update():
                app.sheet.show(after)
                app.screen._compositor.update_widgets({app.sheet})
                update = app.screen._compositor.render_update()
            assert update is not None
            changed = economical(update)
            assert isinstance(changed, ChangedCells)
            return whole, changed.render_segments(app.console)

    return asyncio.run(run())


def test_a_digit_that_changes_costs_little_more_than_its_cell() -> None:
    before, after = lines_of("12.34", "0.50"), lines_of("12.34", "0.50")
    after[2] = lines_of("12.35", "0.50")[0]
    whole, changed = sent(before, after)
    assert "12.3" not in changed
    assert len(changed) < 60
    assert shown(whole.replace("12.34", "12.35")) != shown(whole)
    picture = shown(whole + changed)
    assert picture[2] != picture[1]
    assert [row for y, row in enumerate(picture) if y != 2] == [
        row for y, row in enumerate(shown(whole)) if y != 2
    ]


def test_what_lies_between_two_changes_of_a_line_is_not_sent() -> None:
    before, after = lines_of("12.34", "0.50"), lines_of("12.35", "0.51")
    whole, changed = sent(before, after)
    expected = sent(after, before)[0]
    assert "term" not in changed
    assert len(changed) < 4 * 90
    assert shown(whole + changed) == shown(expected)


def test_differences_are_stretches_of_cells() -> None:
    before, after = lines_of("12.34", "0.50")[0], lines_of("12.35", "0.51")[0]
    assert differences(before, after, 60) == [(19, 20), (49, 50)]
    assert differences(before, before, 60) == []
    assert differences(before, after[:1], 60) == [(15, 20), (40, 50)]
    assert differences(line("ab漢cd"), line("ab漢ce"), 10) == [(2, 6)]
    assert differences((), line("ab"), 1) == [(0, 1)]
