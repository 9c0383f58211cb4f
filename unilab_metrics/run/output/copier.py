"""The process between a training's output and everybody who keeps or shows it.

    python -m unilab_metrics.run.output.copier SOURCE_FD DIRECTORY [--runs] [--tee FD]

A file as the training's output would fail it on a full disk, and a pipe that a launcher reads
would break with the launcher. So it is a pipe that this small process empties, whatever happens:
a disk that is full or hangs costs lines, which are counted, and the launcher's death costs the
view only. It ends when nobody can write into the pipe any more, and takes no signal but SIGKILL,
after which its parent, who has the pipe open too, starts it again.

``--runs``: ``DIRECTORY`` is a launcher's place, and each run that is announced there gets what
comes from then on; the first one, what came before too. Until then who reads the tee may hold the
command up, as in any pipeline; later nobody can.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from unilab_metrics.config import CONSOLE_FILE, EARLIER_CONSOLE_FILE
from unilab_metrics.run.launching.announced_runs import RUNS_FILE, AnnouncedRuns
from unilab_metrics.run.output.console_file import ConsoleFile
from unilab_metrics.run.output.output_queue import OutputQueue
from unilab_metrics.storage.standard_streams import lowest

_READ_BYTES = 64 * 1024
_LOOK_S = 0.5
_LAST_WRITE_S = 10.0
_LAST_SHOW_S = 2.0
_MOST_SPOOLED_BYTES = 16 * 1024 * 1024
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGPIPE")


def main(arguments: Sequence[str] | None = None) -> int:
    """Copy until the end of the source."""
    parser = argparse.ArgumentParser(prog="copier")
    parser.add_argument("source", type=int)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--tee", type=int)
    options = parser.parse_args(arguments)
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    place: Path | None = options.directory if options.runs else None
    tee = None if options.tee is None else lowest(options.tee)
    copier = _Copier(lowest(options.source), options.directory, place, tee)
    copier.run()
    return 0


class _Copier:
    def __init__(self, source: int, directory: Path, place: Path | None, tee: int | None) -> None:
        self._source = source
        self._directory = directory
        self._place = place
        self._announced = None if place is None else AnnouncedRuns(place)
        self._launcher = os.getppid()
        self._kept = OutputQueue()
        self._shown = OutputQueue()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._teller = threading.Thread(target=self._tell, args=(tee,), daemon=True)
        if tee is None:
            self._shown.close()

    def run(self) -> None:
        self._writer.start()
        self._teller.start()
        while (data := self._read()) != b"":
            self._look()
            if data is not None:
                self._shown.put(data, "", wait=self._directory == self._place)
                self._kept.put(data, os.fspath(self._directory))
        self._look()
        self._kept.put(b"", os.fspath(self._directory))
        self._shown.end()
        self._kept.end()
        self._teller.join(None if self._directory == self._place else _LAST_SHOW_S)
        self._writer.join(_LAST_WRITE_S)

    def _read(self) -> bytes | None:
        """Nothing at the end, ``None`` if nothing has come for a while."""
        if self._announced is not None and not select.select([self._source], [], [], _LOOK_S)[0]:
            return None
        return os.read(self._source, _READ_BYTES)

    def _look(self) -> None:
        found = [] if self._announced is None else self._announced.poll()
        if found:
            self._directory = found[-1]
            # Nobody who reads slowly may hold up a training.
            self._shown.let_go()

    def _write(self) -> None:
        file: ConsoleFile | None = None
        while (item := self._kept.take()) is not None:
            directory = Path(item.target)
            if file is None or file.directory != directory:
                file = self._go_over(file, directory)
            if item.lost_bytes:
                file.lose(item.lost_bytes, "the disk was too slow")
            if item.data:
                file.append(item.data)
        if file is not None:
            self._end(file)

    def _go_over(self, before: ConsoleFile | None, directory: Path) -> ConsoleFile:
        if before is not None and before.directory != self._place:
            before.close()
        if directory == self._place:
            return ConsoleFile(directory, file_bytes=_MOST_SPOOLED_BYTES)
        file = ConsoleFile(directory)
        if self._place is not None:
            spooled = before or ConsoleFile(self._place)
            spooled.close()
            for name in (EARLIER_CONSOLE_FILE, CONSOLE_FILE):
                with contextlib.suppress(OSError), (self._place / name).open("rb") as spool:
                    while data := spool.read(_READ_BYTES):
                        file.append(data)
            ConsoleFile(self._place).remove()
        return file

    def _end(self, file: ConsoleFile) -> None:
        file.close()
        if self._place is not None and os.getppid() != self._launcher:
            # The launcher has died and left its place behind.
            ConsoleFile(self._place).remove()
            with contextlib.suppress(OSError):
                (self._place / RUNS_FILE).unlink()
                self._place.rmdir()

    def _tell(self, tee: int | None) -> None:
        while tee is not None and (item := self._shown.take()) is not None:
            remaining = memoryview(item.data)
            if item.lost_bytes:
                note = f"\n[unilab-metrics: {item.lost_bytes:,} bytes are not shown]\n"
                remaining = memoryview(note.encode() + item.data)
            try:
                while remaining:
                    remaining = remaining[os.write(tee, remaining) :]
            except OSError:
                # Nobody looks any more.
                self._shown.close()
                return


if __name__ == "__main__":
    sys.exit(main())
