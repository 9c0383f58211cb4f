"""Earlier runs beside one: those of its task in the same folder."""

from __future__ import annotations

import json
from collections import deque
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

from unilab_metrics.config import RUN_CONFIG_FILE
from unilab_metrics.errors import UnilabMetricsError
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.history import HISTORY_PREFIX
from unilab_metrics.subscribe.past_files import PastFiles, Stretch
from unilab_metrics.subscribe.small_files import read_small
from unilab_metrics.transport.rendezvous import bus_directory
from unilab_schema.requests import Blocks
from unilab_schema.updates import AttemptOpened

_MOST = 20
_MOST_LOOKS = 100
"""At beginnings of histories."""
_CONFIG_BYTES = 1024 * 1024
_MOST_PARTS = 1000
_SEED_CHARS = 20
_ALGORITHM_CHARS = 40


class PastRun:
    """The files of another run. Owned by one thread."""

    def __init__(self, run_dir: Path) -> None:
        """Raises ``UnknownVersionError`` and ``OSError``."""
        self._past = PastFiles(bus_directory(run_dir))
        self.cursor: int | None = self._past.last()

    def newest(self) -> int:
        """Its last update sequence."""
        return self.cursor or 0

    def bins(self, tags: tuple[str, ...], after: int) -> Blocks | NoAnswer | None:
        """As of a ``Subscriber``."""
        return self._past.bins(tags, after)

    def stretch(
        self, after: int, limit: int, tags: tuple[str, ...] = (), kinds: tuple[int, ...] = ()
    ) -> Stretch | NoAnswer | None:
        """As of a ``Subscriber``."""
        return self._past.stretch(after, limit, tags, kinds)


class _Begin(NamedTuple):
    """Of a run, as its history begins. ``task``: empty if it has none."""

    unix_ns: int
    task: str

    def is_of_task(self, task: str) -> bool:
        return not self.task or not task or self.task == task


class EarlierRuns:
    """Owned by one thread; keeps the one that was opened last."""

    def __init__(self, run_dir: Path | None) -> None:
        """``run_dir``: of the run, ``None`` where it is not on this machine."""
        self._run_dir = run_dir
        self._opened: tuple[str, PastRun] | None = None
        self._found: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """Of the runs of this task that began before this one, the newest first. Where a history
        does not say when it began, the names of the directories do, which begin with the time.
        Raises ``OSError``."""
        if self._run_dir is None:
            return ()
        own = self._run_dir.resolve()
        began = _begin_of(own)
        others = sorted((p for p in own.parent.iterdir() if p.name != own.name), reverse=True)
        # Of a folder with very many, those that are earlier by their names.
        others.sort(key=lambda path: path.name > own.name)
        found: list[tuple[int, str]] = []
        with_history = (p for p in others if list_segments(bus_directory(p), HISTORY_PREFIX))
        for path in islice(with_history, _MOST_LOOKS):
            begin = _begin_of(path)
            if begin is None or began is None:
                is_earlier = path.name < own.name
            else:
                is_earlier = (begin.unix_ns, path.name) < (began.unix_ns, own.name)
                is_earlier = is_earlier and begin.is_of_task(began.task)
            if is_earlier:
                found.append((0 if begin is None else begin.unix_ns, path.name))
        self._found = tuple(name for _began, name in sorted(found, reverse=True)[:_MOST])
        return self._found

    def about(self, name: str) -> str:
        """What tells the run of that name from others of its task, as far as it has written that
        down: ``seed 7, ppo``. Empty if nothing; never raises."""
        if self._run_dir is None:
            return ""
        data = read_small(self._run_dir.resolve().parent / name / RUN_CONFIG_FILE, _CONFIG_BYTES)
        return "" if data is None else run_in_words(data)

    def open(self, name: str) -> PastRun | None:
        """The run of that name; ``None`` if there is none. Raises as :class:`PastRun` does."""
        if self._opened is None or self._opened[0] != name:
            if self._run_dir is None or name not in (self._found or self.names()):
                return None
            self._opened = name, PastRun(self._run_dir.resolve().parent / name)
        return self._opened[1]


def _begin_of(run_dir: Path) -> _Begin | None:
    try:
        told = PastFiles(bus_directory(run_dir)).stretch(0, 1).records
    except (OSError, UnilabMetricsError):
        return None
    entry = told[0].entry if told else None
    return _Begin(entry.unix_ns, entry.run.task) if isinstance(entry, AttemptOpened) else None


def run_in_words(data: bytes) -> str:
    """Seed and algorithm out of the text of a ``run_config.json``. The unexpected is passed over."""
    try:
        told: object = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    algorithm = _part(_part(told, "run"), "algo")
    seed = _seed(_part(told, "config"))
    words = [f"seed {seed}"] if seed else []
    if isinstance(algorithm, str) and algorithm:
        words.append(algorithm[:_ALGORITHM_CHARS])
    return ", ".join(words)


def _part(told: object, key: str) -> object:
    return cast("dict[str, object]", told).get(key) if isinstance(told, dict) else None


def _seed(config: object) -> str:
    """The outermost one: every library keeps it in a part of its own."""
    parts = deque([config])
    for _ in range(_MOST_PARTS):
        if not parts:
            break
        part = parts.popleft()
        seed = _part(part, "seed")
        if isinstance(seed, int | str) and not isinstance(seed, bool) and seed != "":
            return str(seed)[:_SEED_CHARS]
        if isinstance(part, dict):
            parts.extend(cast("dict[str, object]", part).values())
    return ""
