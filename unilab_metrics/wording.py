"""Numbers in sentences, as all commands and logs say them. Pure."""

from __future__ import annotations


def counted(number: int, one: str, more: str = "") -> str:
    """``1 record``, ``2,000 records``. ``more``: where an ``s`` does not make the plural."""
    return f"{number:,} {agreeing(number, one, more)}"


def agreeing(number: int, one: str, more: str = "") -> str:
    """The word without its number: ``agreeing(2, "waits", "wait")``."""
    return one if number == 1 else more or f"{one}s"
