"""Pieces of ``console.log``: bounded, over rotation and truncation, own regular files only."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from unilab_metrics.config import CONSOLE_FILE, EARLIER_CONSOLE_FILE
from unilab_metrics.run.output.console_file import ConsoleFile
from unilab_metrics.storage import console_pieces
from unilab_metrics.storage.console_pieces import MOST_BYTES, console_piece
from unilab_schema.requests import Console, ConsolePiece


def follow(run_dir: Path, piece: ConsolePiece, most_bytes: int = 64) -> ConsolePiece:
    place = piece.offset + len(piece.data)
    return console_piece(run_dir, Console(7, piece.file, place, most_bytes=most_bytes))


def test_nothing_is_kept(tmp_path: Path) -> None:
    assert console_piece(tmp_path, Console(7)) == ConsolePiece(7, begins=True)


def test_the_end_then_what_is_added_then_what_lies_before(tmp_path: Path) -> None:
    path = tmp_path / CONSOLE_FILE
    path.write_bytes(b"0123456789")
    end = console_piece(tmp_path, Console(1, most_bytes=4))
    assert (end.data, end.offset, end.begins, end.moved) == (b"6789", 6, False, False)
    assert follow(tmp_path, end).data == b""
    with path.open("ab") as file:
        file.write(b"abcdef")
    more = follow(tmp_path, end, 4)
    assert (more.data, more.passed_over_bytes) == (b"cdef", 2)
    before = console_piece(tmp_path, Console(2, end.file, end.offset, True, 4))
    assert (before.data, before.offset, before.begins) == (b"2345", 2, False)
    first = console_piece(tmp_path, Console(2, before.file, before.offset, True, 4))
    assert (first.data, first.begins) == (b"01", True)


def test_a_file_that_was_truncated_or_replaced_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / CONSOLE_FILE
    path.write_bytes(b"0123456789")
    end = console_piece(tmp_path, Console(1))
    path.write_bytes(b"new")
    assert follow(tmp_path, end).moved
    assert follow(tmp_path, end).data == b"new"
    gone = elsewhere(end)
    assert follow(tmp_path, gone).moved


def elsewhere(piece: ConsolePiece) -> ConsolePiece:
    return ConsolePiece(0, "ffffffff", piece.offset, piece.data)


@pytest.mark.parametrize("seed", range(5))
def test_who_keeps_up_gets_every_byte_over_all_rotations(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    file = ConsoleFile(tmp_path, file_bytes=300)
    file.append(b"start ")
    piece = console_piece(tmp_path, Console(1))
    printed, got = b"start ", piece.data
    for number in range(200):
        text = b"%d " % number * chance.randrange(1, 9)
        file.append(text)
        printed += text
        if chance.random() < 0.7:
            for _ in range(2):
                piece = follow(tmp_path, piece, 1000)
                assert not piece.passed_over_bytes
                assert not piece.moved
                got += piece.data
    for _ in range(3):
        piece = follow(tmp_path, piece, 1000)
        got += piece.data
    file.close()
    assert got == printed


def test_reading_back_goes_over_into_the_earlier_file(tmp_path: Path) -> None:
    (tmp_path / EARLIER_CONSOLE_FILE).write_bytes(b"earlier")
    (tmp_path / CONSOLE_FILE).write_bytes(b"later")
    at = console_piece(tmp_path, Console(1))
    assert (at.data, at.begins) == (b"later", False)
    at = console_piece(tmp_path, Console(1, at.file, at.offset, True))
    assert (at.data, at.begins) == (b"earlier", True)
    at = console_piece(tmp_path, Console(1, at.file, at.offset, True))
    assert (at.data, at.begins) == (b"", True)


def test_only_regular_files_of_our_own_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    path = tmp_path / CONSOLE_FILE
    path.symlink_to(secret)
    assert "is a symlink" in named(tmp_path) or "symbolic" in named(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert "no regular file" in named(tmp_path) or named(tmp_path)
    path.unlink()
    path.write_bytes(b"x")
    monkeypatch.setattr(console_pieces.os, "geteuid", lambda: path.stat().st_uid + 1)
    assert "another user" in named(tmp_path)
    assert console_piece(tmp_path, Console(1), own_only=False).data == b"x"


def named(run_dir: Path) -> str:
    piece = console_piece(run_dir, Console(1))
    assert piece.data == b""
    assert piece.file == ""
    return piece.problem


def test_a_piece_is_bounded_whatever_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / CONSOLE_FILE).write_bytes(b"x" * (MOST_BYTES + 10))
    for most_bytes in (-5, 0, 1, MOST_BYTES, 2**62):
        piece = console_piece(tmp_path, Console(1, most_bytes=most_bytes))
        assert len(piece.data) == min(max(most_bytes, 0), MOST_BYTES)
    for offset in (-1, 2**62):
        piece = console_piece(tmp_path, Console(1, piece.file, offset, True))
        assert piece.moved
