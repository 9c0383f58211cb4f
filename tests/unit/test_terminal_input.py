"""What a terminal sends, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key

from unilab_sidecar.terminal.input import TerminalInput
from unilab_sidecar.terminal.key_parsing import key_parser
from unilab_sidecar.terminal.lone_escape import ESCAPE, WAIT_S

REPORTS = st.binary(min_size=3, max_size=3).map(lambda rest: b"\x1b[M" + rest)
WORDS = st.text(st.characters(exclude_characters="\x1b", codec="utf-8"), max_size=8)


@given(st.lists(st.tuples(WORDS, REPORTS)), st.data())
def test_mouse_reports_are_left_out_however_they_are_cut(
    parts: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    sent = b"".join(word.encode() + report for word, report in parts)
    # A report's first three bytes come at once.
    places = [n for n in range(1, len(sent)) if sent[n - 1 : n + 2] != b"\x1b[M"]
    places = [n for n in places if sent[n - 2 : n + 1] != b"\x1b[M"]
    cuts = data.draw(st.sets(st.sampled_from(places))) if places else set[int]()
    terminal, edges = TerminalInput(), [0, *sorted(cuts), len(sent)]
    text = "".join(terminal.text(sent[begin:end]) for begin, end in pairwise(edges))
    assert text == "".join(word for word, _ in parts)


@given(st.lists(st.binary(max_size=12)))
def test_any_bytes_give_some_text(chunks: list[bytes]) -> None:
    terminal = TerminalInput()
    for chunk in chunks:
        terminal.text(chunk).encode()


def test_keys_are_told_at_once_and_escape_a_moment_later() -> None:
    terminal = TerminalInput()
    assert [terminal.text(b"\x1b"), terminal.text(b"[A"), terminal.text(b"q")] == [
        "",
        "\x1b[A",
        "q",
    ]
    assert terminal.text(b"\x1b", 5.0) == ""
    assert terminal.text(b"", 5.0 + WAIT_S / 2) == ""
    assert terminal.text(b"", 5.0 + WAIT_S * 2) == ESCAPE
    assert terminal.text(b"", 9.0) == ""


def keys(*chunks: tuple[float, bytes]) -> list[tuple[str, str | None]]:
    """What Textual's parser makes of bytes that come at these times."""
    terminal, parser = TerminalInput(), key_parser()
    assert parser is not None
    texts = [terminal.text(data, now_s) for now_s, data in chunks]
    events = [event for text in texts if text for event in parser.feed(text)]
    return [(event.key, event.character) for event in events if isinstance(event, Key)]


@pytest.mark.parametrize("typed", ["m", "2", "é", "/", " ", "\r", "中", "b", "1", "\x17"])
@pytest.mark.parametrize("apart_s", [0.0, 0.03, 0.5])
def test_escape_and_a_key_soon_after_it_are_two_keys(typed: str, apart_s: float) -> None:
    alone = keys((0.0, typed.encode()))
    if apart_s:
        made = keys((1.0, b"\x1b"), (1.0 + apart_s, typed.encode()))
    else:
        made = keys((1.0, b"\x1b" + typed.encode()))
    assert [key for key, _ in made] == ["escape", *(key for key, _ in alone)]
    assert [character for _, character in made[1:]] == [character for _, character in alone]


def test_sequences_of_other_keys_stay_whole_however_they_are_cut() -> None:
    sent = b"\x1b[A\x1b\x1b[1;2D\x1bOP\x1b\x7f\x1b\x1bq\x1b[200~x\x1b[201~"
    whole = keys((0.0, sent), (1.0, b""))
    assert [key for key, _ in whole] == [
        "up", "escape", "shift+left", "f1", "ctrl+w", "escape", "escape", "q",
    ]  # fmt: skip
    pieces = [(place / 1000, sent[place : place + 1]) for place in range(len(sent))]
    assert keys(*pieces, (1.0, b"")) == whole
    # What has begun and does not go on was typed.
    assert [key for key, _ in keys((0.0, b"\x1b["), (0.2, b""))] == [
        "escape",
        "left_square_bracket",
    ]
