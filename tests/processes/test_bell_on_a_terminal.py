"""``--bell`` on a terminal: rung once for what opens while somebody looks, never for the rest."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from alert_runs import alert_run
from pty_terminals import PtyTerminal
from real_runs import until

_TITLES = re.compile(rb"\x1b\][^\x07\x1b]*(\x07|\x1b\\)")


def _rings(terminal: PtyTerminal) -> int:
    """Of the bell itself; the same byte also ends a title."""
    return _TITLES.sub(b"", bytes(terminal.screen.written)).count(b"\x07")


@pytest.mark.slow
def test_the_bell_rings_once_for_what_opens_and_not_for_what_was_open(tmp_path: Path):
    command = [sys.executable, "-m", "unilab_metrics", "attach", str(tmp_path / "run")]
    with alert_run(tmp_path, "Loss/a > 5", "Loss/b > 5") as run:
        run.set("a")
        until(lambda: run.told() == [("alert", "rule")])
        rings = PtyTerminal(*command, "--bell")
        silent = PtyTerminal(*command)
        try:
            for terminal in (rings, silent):
                terminal.until_shown("Loss/a = 9")
            rings.quiet_for(1.0)
            assert _rings(rings) == 0
            run.set("b")
            for terminal in (rings, silent):
                terminal.until_shown("Loss/b = 9")
            rings.until(lambda: _rings(rings) == 1)
            run.unset("b")
            until(lambda: run.told()[-1] == ("alert_over", "rule"))
            rings.quiet_for(1.0)
            silent.read()
            assert (_rings(rings), _rings(silent)) == (1, 0)
        finally:
            for terminal in (rings, silent):
                terminal.type("q")
                terminal.wait()
                terminal.close()
