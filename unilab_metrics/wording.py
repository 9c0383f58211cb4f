"""Words that all commands and logs say alike. Pure."""

from __future__ import annotations


def counted(number: int, one: str, more: str = "") -> str:
    """``1 record``, ``2,000 records``. ``more``: where an ``s`` does not make the plural."""
    return f"{number:,} {agreeing(number, one, more)}"


def agreeing(number: int, one: str, more: str = "") -> str:
    """The word without its number: ``agreeing(2, "waits", "wait")``."""
    return one if number == 1 else more or f"{one}s"


def lost_how(ending: str) -> str:
    """What follows the name of a process that said no goodbye: ``was killed by SIGKILL``.
    ``ending``: as of ``outcome.SourceOutcome``."""
    if ending.startswith(("SIG", "signal")):
        return f"was killed by {ending}"
    return f"ended without close(), with {ending}" if ending else "ended without close()"
