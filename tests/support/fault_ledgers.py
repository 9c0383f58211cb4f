"""What the processes of a training that is killed at will have published, by what they wrote down
themselves; see ``fault_rank.py``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Ledger:
    """What one process has published. ``started_ns``: of its identity, 0 if it did not come to
    say so. ``iterations`` to values; ``spans_ns``: before and after each iteration's or report's
    ``log()``. ``delivered``: what its ``close()`` said."""

    name: str
    started_ns: int = 0
    iterations: dict[int, float] = field(default_factory=dict[int, float])
    spans_ns: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    reports: int = 0
    points: list[int] = field(default_factory=list[int])
    delivered: bool | None = None

    @property
    def place(self) -> str:
        return "-".join(self.name.split("-")[:2])

    @property
    def attempt(self) -> int:
        """With which rank 0 it was started, from 1 on."""
        return int(self.name.split("-")[2])


def read_ledgers(folder: Path) -> list[Ledger]:
    return [_ledger(path) for path in sorted(folder.glob("*.ledger"))]


def _ledger(path: Path) -> Ledger:
    ledger = Ledger(path.stem)
    with suppress(OSError, ValueError):  # killed before, or on the way
        ledger.started_ns = int(path.with_suffix(".started").read_text())
    # A kill may tear the last line; that call counts as not returned.
    for line in path.read_text().split("\n")[:-1]:
        match line.split():
            case ["iteration", number, value, before, after]:
                ledger.iterations[int(number)] = float(value)
                ledger.spans_ns[int(number)] = (int(before), int(after))
            case ["report", number, before, after]:
                ledger.reports = int(number)
                ledger.spans_ns[int(number)] = (int(before), int(after))
            case ["point", number]:
                ledger.points.append(int(number))
            case ["closed", delivered]:
                ledger.delivered = delivered == "1"
            case words:
                raise AssertionError(f"{path.name}: {words}")
    return ledger
