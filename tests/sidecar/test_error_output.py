"""Words of errors on a terminal, whoever wrote them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from unilab_sidecar.terminal.error_output import say_error
from unilab_sidecar.terminal.own_terminal import draws_elsewhere


def test_nothing_of_an_error_reaches_the_terminal_as_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_error("the node \x1b[31mEVIL\x1b]0;x\x07\n\u202e\x9bm 节点")
    assert capsys.readouterr().err == (
        "the node \\x1b[31mEVIL\\x1b]0;x\\x07\\n\\u202e\\x9bm 节点\n"
    )


def test_an_error_stream_that_takes_nothing_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "full"
    with path.open("w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        say_error("节点")
    assert path.read_text() == "\\u8282\\u70b9\n"
    monkeypatch.setattr(sys, "stderr", None)
    say_error("x")


def test_a_screen_that_only_the_error_stream_keeps_away_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "tcgetpgrp", lambda _descriptor: os.getpgrp())
    for terminals, expected in (((0, 1), True), ((0, 1, 2), False), ((0,), False), ((1,), False)):
        monkeypatch.setattr(os, "isatty", terminals.__contains__)
        assert draws_elsewhere({"TERM": "xterm"}, launched=False) is expected
    assert not draws_elsewhere({"TERM": "dumb"}, launched=False)
