"""What is pasted is no keys, however long it is, and a paste that does not end takes none away."""

from __future__ import annotations

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key, Paste

from unilab_sidecar.terminal.input import TerminalInput
from unilab_sidecar.terminal.open_paste import QUIET_S

BEGIN, END = b"\x1b[200~", b"\x1b[201~"


def heard(*pieces: tuple[float, bytes]) -> list[str]:
    """Keys by name, pastes by their text if they have any."""
    decoded, parser = TerminalInput(), XTermParser(False)
    found: list[str] = []
    for now_s, data in pieces:
        text = decoded.text(data, now_s)
        for event in parser.feed(text) if text else ():
            if isinstance(event, Key):
                found.append(event.key)
            elif isinstance(event, Paste) and event.text:
                found.append(f"<{event.text}>")
    return found


def test_a_whole_paste_is_no_keys():
    assert heard((0.0, b"a\x1b[200~quit\x1b[201~b")) == ["a", "b"]


@pytest.mark.parametrize("size", [0, 1, 4096, 65_537, 200_000])
def test_no_paste_is_too_long_to_be_left_out(size: int):
    whole = b"a" + BEGIN + b"Kyq" * (size // 3) + b"\x03" + END + b"b"
    assert heard((0.0, whole)) == ["a", "b"]
    pieces = [(n * 1e-6, whole[n : n + 4095]) for n in range(0, len(whole), 4095)]
    assert heard(*pieces) == ["a", "b"]


@pytest.mark.parametrize("key", [b"\x03", b"\x03\x03", b"\x1b[99;5u"])
def test_ctrl_c_that_comes_alone_ends_an_open_paste_and_is_heard(key: bytes):
    assert heard((0.0, BEGIN + b"abc"), (0.1, key))[-1:] == ["ctrl+c"]


def test_ctrl_c_among_pasted_text_is_pasted_too():
    assert heard((0.0, BEGIN + b"abc\x03"), (0.1, b"\x03de"), (0.2, END + b"f")) == ["f"]


def test_keys_after_a_pause_are_keys_again():
    assert heard((0.0, BEGIN + b"abc"), (QUIET_S, b""), (QUIET_S, b"q"))[-1:] == ["q"]


def test_a_pause_of_the_reader_is_none_of_the_writer():
    assert heard((0.0, BEGIN + b"abc"), (60.0, b"Kyq"), (60.1, END + b"b")) == ["b"]


def test_a_paste_that_goes_on_for_ever_is_never_typed():
    flood = [(n * 0.3, b"z" * 4096 if n % 2 else b"") for n in range(100)]
    assert heard((0.0, BEGIN), *flood) == []


def test_keys_without_a_paste_pass_as_they_are():
    assert heard((0.0, b"\x03"), (5.0, b"\x03q")) == ["ctrl+c", "ctrl+c", "q"]
    assert heard((0.0, b"\x1c")) == ["ctrl+backslash"]


@pytest.mark.parametrize("cut", range(1, 14))
def test_beginning_and_end_come_in_any_pieces(cut: int):
    whole = b"x" + BEGIN + b"ab" + END + b"\x03" + BEGIN + END + b"y"
    pieces = [(0.0, whole[n : n + cut]) for n in range(0, len(whole), cut)]
    assert heard(*pieces) == ["x", "ctrl+c", "y"]
    begun = [(0.0, BEGIN[n : n + cut]) for n in range(0, len(BEGIN), cut)]
    assert heard(*begun, (0.1, b"\x03"))[-1:] == ["ctrl+c"]
