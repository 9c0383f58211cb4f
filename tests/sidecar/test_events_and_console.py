"""Key 4: events and console on one screen, each with its own place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shown_screens import NOON, sample_shown, text_of

from unilab_schema.requests import ConsolePiece
from unilab_sidecar.drawing.text import line_width, width_of
from unilab_sidecar.events.console_lines import ConsoleText
from unilab_sidecar.events.console_store import ConsoleStore
from unilab_sidecar.events.event_state import EventsContext, EventsState
from unilab_sidecar.events.event_state import press as press_events
from unilab_sidecar.looking.showing import Shown, context, screen
from unilab_sidecar.looking.viewing import ViewState, press
from unilab_sidecar.picture import Note

SIZES = [(70, 24), (80, 24), (100, 30), (120, 40), (160, 48)]


class Printed:
    def __init__(self) -> None:
        self.store, self._size_bytes = ConsoleStore(), 0

    def add(self, data: bytes, top: int | None = None) -> ConsoleText:
        question = self.store.question(top, is_between=False)
        assert question is not None
        piece = ConsolePiece(0, "a", self._size_bytes, data, begins=not self._size_bytes)
        self._size_bytes += len(data)
        self.store.answer(question, piece)
        return self.store.text()


@pytest.fixture(scope="module")
def still() -> Shown:
    return sample_shown(60)


def numbered(first: int, count: int) -> bytes:
    return b"".join(b"printed %04d\n" % n for n in range(first, first + count))


def after(shown: Shown, state: ViewState, keys: str, size: tuple[int, int]) -> ViewState:
    for key in keys.split():
        state = press(state, key, context(shown, state, *size, NOON))
    return state


def looked(shown: Shown, state: ViewState, size: tuple[int, int]) -> str:
    return text_of(screen(shown, state, *size))


@pytest.mark.parametrize("size", SIZES)
def test_both_are_on_one_screen_and_the_newest_line_is_shown(still: Shown, size: tuple[int, int]):
    shown = replace(still, console=Printed().add(numbered(0, 500)))
    text = looked(shown, ViewState(view="events"), size)
    assert "Alerts" in text
    assert "training started" in text
    assert "▸ Console" in text
    assert "printed 0499" in text
    assert "500 lines, following" in text


@pytest.mark.parametrize("size", SIZES)
def test_a_place_does_not_move_when_lines_are_added(still: Shown, size: tuple[int, int]):
    printed = Printed()
    shown = replace(still, console=printed.add(numbered(0, 500)))
    state = after(shown, ViewState(view="events"), "enter pageup up up", size)
    before = screen(shown, state, *size).lines
    shown = replace(still, console=printed.add(numbered(500, 7), state.events.top))
    now = screen(shown, state, *size).lines
    assert now[1:-1] == before[1:-1]
    assert "↓ 7 new lines below" in looked(shown, state, size)
    state = after(shown, state, "end", size)
    assert "printed 0506" in looked(shown, state, size)
    assert state.events.top is None


TOLD = "evaluation over 16 episodes: mean 118.4"


def divided(shown: Shown, size: tuple[int, int]) -> tuple[int, str]:
    """Where the console begins, and the whole screen."""
    text = looked(shown, ViewState(view="events"), size)
    return next(row.index("▸ Console") for row in text.splitlines() if "▸ Console" in row), text


def test_events_beside_a_narrow_console_are_whole_and_beside_a_wide_one_it_is(still: Shown):
    notes = (*still.picture.notes, Note("status", TOLD, 1.0))
    shown = replace(still, picture=replace(still.picture, notes=notes))
    narrow = replace(shown, console=Printed().add(numbered(0, 300)))
    place, text = divided(narrow, (120, 40))
    assert TOLD in text
    assert place > 60
    wide = b"".join(b"[%04d] %sEND\n" % (n, b"x" * 90) for n in range(300))
    place, text = divided(replace(shown, console=Printed().add(wide)), (160, 48))
    assert "…" not in text
    assert "xEND" in text
    assert place >= 40
    # What is cut has all the cells that the events can spare, and they can still be read.
    huge = wide.replace(b"END", b"y" * 400)
    place, text = divided(replace(shown, console=Printed().add(huge)), (120, 40))
    assert 40 <= place <= 44
    assert TOLD in " ".join(row[:place].strip() for row in text.splitlines()[1:]).replace("  ", " ")


def test_the_halves_stand_still_while_lines_are_printed(still: Shown):
    printed, places = Printed(), set[int]()
    for n in range(60):
        lines = b"".join(b"step %d loss %.*f\n" % (n, 2 + n % 9, 1 / (n + 1)) for _ in range(40))
        shown = replace(still, console=printed.add(lines + b"x" * 300 + b"\n"))
        places.add(divided(shown, (120, 40))[0])
    assert len(places) == 1


def test_tab_goes_over_enter_zooms_and_escape_comes_back(still: Shown):
    size = (80, 24)
    shown = replace(still, console=Printed().add(numbered(0, 500)))
    state = after(shown, ViewState(view="events"), "enter", size)
    assert "Alerts" not in looked(shown, state, size)
    assert "printed 0478" not in looked(shown, after(shown, state, "escape", size), size)
    assert "printed 0480" in looked(shown, state, size)
    state = after(shown, state, "tab", size)
    assert "printed" not in looked(shown, state, size)
    assert "Alerts" in looked(shown, state, size)
    state = after(shown, state, "escape", size)
    assert "▸ Alerts" in looked(shown, state, size)
    assert "Console" in looked(shown, state, size)


def test_the_filter_is_for_both_and_long_lines_move_sideways(still: Shown):
    size = (100, 30)
    wide = b"x" * 90 + b"MIDDLE" + b"y" * 200 + b"LAST\n"
    shown = replace(still, console=Printed().add(numbered(0, 50) + wide))
    state = ViewState(view="events").filtered_by("/00[12]5/")
    text = looked(shown, state, size)
    assert "printed 0015" in text
    assert "printed 0016" not in text
    assert "No event passes" in text
    state = ViewState(view="events")
    assert "LAST" not in looked(shown, state, size)
    state = after(shown, state, "right " * 14, size)
    assert "LAST" in looked(shown, state, size)
    assert state.events.left == 14 * 16
    assert after(shown, state, "left " * 20, size).events.left == 0


def test_arrows_sideways_go_through_the_run_while_the_display_stands_still(still: Shown):
    shown = replace(still, console=Printed().add(numbered(0, 500)))
    state = after(shown, ViewState(view="events"), "space left", (100, 30))
    assert state.events.left == 0
    assert state.at is not None
    assert "when it was printed is not kept" in looked(shown, state, (100, 30))
    # Beside the events, and on the smallest screens.
    for columns in (40, 41, 59, 60, 79, 80, 119, 120, 125, 140, 160):
        for rows in (12, 24, 40):
            text = looked(shown, state, (columns, rows))
            heading = next(one for one in text.splitlines() if "Console ─" in one)
            assert heading.rstrip().endswith("kept"), (columns, rows)
            assert "…" not in heading


def test_a_run_that_keeps_no_output_says_how_to_keep_it(still: Shown):
    store = ConsoleStore()
    question = store.question(None, is_between=False)
    assert question is not None
    store.answer(question, ConsolePiece(0, begins=True))
    shown = replace(still, console=store.text())
    for size in SIZES:
        text = " ".join(looked(shown, ViewState(view="events"), size).split())
        assert "`unilab-metrics run -- CMD` keeps it" in text


CONSOLES = [
    ConsoleText(),
    Printed().add(b""),
    Printed().add("界界🙂 e\u0301\x1b[31mred\u202eside\x00\n".encode() * 40 + b"\xff\xfe" * 500),
    Printed().add(numbered(0, 3000)),
]


@given(
    st.sampled_from(CONSOLES),
    st.integers(1, 300),
    st.integers(1, 100),
    st.lists(
        st.sampled_from(
            [
                "tab",
                "enter",
                "escape",
                "up",
                "down",
                "pageup",
                "pagedown",
                "home",
                "end",
                "left",
                "right",
                "space",
            ]
        ),
        max_size=12,
    ),
)
@settings(max_examples=80, deadline=None)
def test_no_size_and_no_keys_raise_and_nothing_is_wider_than_the_screen(
    console: ConsoleText, columns: int, rows: int, keys: list[str]
):
    shown = replace(STILL, console=console)
    state = after(shown, ViewState(view="events"), " ".join(keys), (columns, rows))
    made = screen(shown, state, columns, rows)
    assert all(line_width(parts) <= max(columns - 5, 1) for parts in made.lines)
    assert len(made.lines) <= max(rows - 2, 1)
    assert width_of(made.title) <= columns


STILL = sample_shown(10)


@given(
    st.integers(0, 200),
    st.integers(-50, 50),
    st.integers(1, 40),
    st.lists(st.sampled_from(["up", "down", "pageup", "pagedown", "home", "end"]), max_size=20),
)
def test_the_console_can_be_scrolled_to_both_ends_and_no_further(
    count: int, begin: int, space: int, keys: list[str]
):
    numbers = range(begin, begin + count)
    told = EventsContext(numbers, begin, begin + count, space, has_console=True)
    state = EventsState()
    for key in keys:
        state = press_events(state, key, told)
        assert state.top is None or begin <= state.top <= max(begin + count - space, begin)
    assert press_events(state, "end", told).top is None


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_the_columns_of_events_are_stands_above_them_at_every_size(
    still: Shown, *, is_kept: bool
):
    shown = replace(still, console=Printed().add(numbered(0, 50))) if is_kept else still
    for columns in (32, 50, 64, 70, 80, 90, 119, 120, 140, 160, 220):
        for rows in (24, 30, 40, 60):
            lines = looked(shown, ViewState(view="events"), (columns, rows)).splitlines()
            at = next(n for n, one in enumerate(lines) if one.startswith("Events ─"))
            assert lines[at + 1].split()[:2] == ["age", "what"]
            assert " s " in lines[at + 2]
            # A blank row is for screens that have some to spare.
            assert bool(lines[at - 1][:20].strip()) == (rows < 32)
