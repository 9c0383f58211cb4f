"""Signals that reach a launcher when its command has just ended."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from unilab_metrics.run.launching.command import _Command

# pyright: reportPrivateUsage=false


@pytest.mark.parametrize(
    ("number", "is_told"), [(signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGINT, False)]
)
def test_a_signal_that_comes_too_late_for_a_command_ends_its_screen_if_it_is_from_outside(
    tmp_path: Path, number: signal.Signals, *, is_told: bool
) -> None:
    command = _Command(["true"], tmp_path, None, "off", 1.0)
    command._requests.numbers.append(number)
    command._finish()
    assert command._is_told_to_end is is_told
    assert command._requests.numbers == []
