"""A finding: what was looked at, whether it is well, and what to do if it is not. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

Level = Literal["ok", "info", "warning", "error", "unknown"]

OK: Final[Level] = "ok"
INFO: Final[Level] = "info"
"""Nothing is wrong, or it is said elsewhere what is; good to know."""
WARNING: Final[Level] = "warning"
ERROR: Final[Level] = "error"
UNKNOWN: Final[Level] = "unknown"
"""It could not be looked at."""

_MARKS: dict[Level, str] = {
    OK: "ok",
    INFO: "info",
    WARNING: "warning",
    ERROR: "ERROR",
    UNKNOWN: "unknown",
}


class Finding(NamedTuple):
    """``fix``: the exact command or the one thing to do; empty where nothing is to be done.
    ``on_one_line``: where there may be many of its kind. ``is_detail``: only for those who want
    to know all."""

    subject: str
    level: Level
    text: str
    fix: str = ""
    on_one_line: bool = False
    is_detail: bool = False

    def lines(self) -> list[str]:
        """For people."""
        first = f"{_MARKS[self.level]:<8} {self.subject:<10} {self.text}"
        if self.on_one_line and self.fix:
            return [f"{first} -> {self.fix}"]
        return [first, f"{'':<19} -> {self.fix}"] if self.fix else [first]

    def fields(self) -> dict[str, Any]:
        """For programs."""
        return {
            "subject": self.subject,
            "level": self.level,
            "finding": self.text,
            "fix": self.fix or None,
        }


def worst(findings: Iterable[Finding]) -> Level:
    """The level of the whole."""
    levels = {finding.level for finding in findings}
    order: tuple[Level, ...] = (ERROR, WARNING, UNKNOWN)
    for level in order:
        if level in levels:
            return level
    return OK
