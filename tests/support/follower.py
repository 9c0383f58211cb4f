"""A subscriber in a process of its own, which says after each poll how far it is.

``python follower.py RUN_DIR`` or ``python follower.py tcp://HOST:PORT KEY_FILE``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_schema.updates import RunEnded, Update


class Said(NamedTuple):
    """``first_s``: from the start of joining to the first picture. ``missing``: iterations that
    should have come since, counted here; ``lost``: by the subscriber itself."""

    seen: int
    newest: int
    missing: int
    lost: int
    connected: bool
    age_s: float
    first_s: float


class Follower:
    """What the process says, from the file that its output goes to."""

    def __init__(self, log: Path) -> None:
        self._log = log

    @staticmethod
    def command(*arguments: str | Path) -> list[str]:
        return [sys.executable, __file__, *map(str, arguments)]

    def said(self) -> Said:
        lines = self._log.read_bytes().split(b"\n")[:-1]
        if not lines:
            return Said(0, -1, 0, 0, connected=False, age_s=0.0, first_s=0.0)
        seen, newest, missing, lost, connected, age_s, first_s = lines[-1].split()
        counts = (int(seen), int(newest), int(missing), int(lost))
        return Said(*counts, connected == b"1", float(age_s), float(first_s))

    def is_current(self, newest: int) -> bool:
        """Whether it has this iteration, and every one before it since it joined."""
        said = self.said()
        return said.newest >= newest and (said.missing, said.lost) == (0, 0)


def main() -> None:
    where, *key = sys.argv[1:]
    began_s = time.monotonic()
    if key:
        subscriber = Subscriber.attach_remote(where, Path(key[0]))
    else:
        subscriber = Subscriber.attach(Path(where))
    seen, newest, first, first_s, ended = 0, -1, 0, 0.0, False
    with subscriber:
        while not ended:
            for record in subscriber.poll(200):
                ended = ended or isinstance(record.entry, RunEnded)
                if isinstance(record.entry, Update):
                    first = first if seen else record.entry.iteration
                    seen, newest = seen + 1, record.entry.iteration
            if not first_s and seen and subscriber.snapshot() is not None:
                first_s = time.monotonic() - began_s
            missing = newest - first + 1 - seen if seen else 0
            age_s = subscriber.data_age_s or 0.0
            print(
                seen, newest, missing, subscriber.lost_entries, int(subscriber.connected), age_s,
                first_s, flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
