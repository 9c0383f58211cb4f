"""What a terminal sends, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unilab_sidecar.terminal_input import TerminalInput

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


def test_keys_are_told_at_once_also_escape() -> None:
    terminal = TerminalInput()
    assert [terminal.text(b"\x1b"), terminal.text(b"[A"), terminal.text(b"q")] == [
        "\x1b",
        "[A",
        "q",
    ]
