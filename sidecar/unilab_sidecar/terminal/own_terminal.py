"""Whether there is a terminal to draw a screen on."""

from __future__ import annotations

import os
from collections.abc import Mapping


def can_show_screen(
    environ: Mapping[str, str], *, launched: bool, descriptors: tuple[int, ...] = (0, 1, 2)
) -> bool:
    """Whether input, output and errors are a terminal that is ours.

    Textual draws on the error stream and reads from the input; a background job that touched
    the terminal would be stopped. ``launched``: our launcher owns the terminal, which need not
    be the controlling one.
    """
    if environ.get("TERM", "dumb") in ("", "dumb"):
        return False
    if not all(os.isatty(descriptor) for descriptor in descriptors):
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return launched


def draws_elsewhere(environ: Mapping[str, str], *, launched: bool) -> bool:
    """Whether nothing keeps the screen from the terminal but an error stream that is another."""
    return not os.isatty(2) and can_show_screen(environ, launched=launched, descriptors=(0, 1))
