"""What a training prints, as lines for a screen."""

from __future__ import annotations

import pytest

from unilab_metrics.console_tail import MAX_LINE_CHARS, plain_line, tail_lines


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07", "red link"),
        (b"10%\r20%\r100%", "100%"),
        (b"100%\r\x1b[K", "100%"),
        (b"line\r\n", "line"),
        (b"a\tb", "a       b"),
        (b"\xff\x00end", "\ufffdend"),
        (b"\x1b[2J\x1b[Hcleared", "cleared"),
        (b"\x1bPq pixels \x1b\\after", "after"),
        ("right \u202eto left".encode(), "right to left"),
        (b"cut off \x1b", "cut off "[:-1]),
        ("日本語 🙂".encode(), "日本語 🙂"),
        (b"[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_a_line_is_shown_as_text(printed: bytes, shown: str) -> None:
    assert tail_lines(printed, 5) == [shown]


def test_the_last_lines_of_many() -> None:
    assert tail_lines(b"1\n2\n\n3\n\n\n", 3) == ["2", "", "3"]
    assert tail_lines(b"ut off\nwhole\n", 9, is_cut=True) == ["whole"]
    assert tail_lines(b"", 3) == tail_lines(b"some\n", 0) == []


def test_a_long_line_is_cut_visibly() -> None:
    line = plain_line("x" * 3 * MAX_LINE_CHARS)
    assert len(line) == MAX_LINE_CHARS
    assert line.endswith("…")
