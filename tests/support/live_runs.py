"""A small training with its aggregator, watched through its announcements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from real_runs import start, until

from unilab_metrics.run.verifying.verify import verify_run
from unilab_metrics.transport import rendezvous, sockets
from unilab_metrics.transport.rendezvous import ConnectionFile, bus_directory
from unilab_schema.codec import decode_head
from unilab_schema.control import Head

TRAINING = """
import sys, time
from pathlib import Path
import unilab_metrics as um

run_dir, stop = Path(sys.argv[1]), Path(sys.argv[2])
with um.init(algorithm="ppo", run_dir=run_dir) as publisher:
    iteration = 0
    while not stop.exists():
        publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
        iteration += 1
        time.sleep(0.01)
print(iteration)
"""


class Watcher:
    """Reads announcements; knows the newest one."""

    def __init__(self, endpoint: str) -> None:
        self._context = sockets.context()
        self._socket = sockets.listen(self._context, endpoint)
        self.longest_still_s = 0.0
        self._update, self._moved_ns = -1, 0
        self._head: Head | None = None

    def head(self) -> Head:
        """The newest announcement; notes for how long the updates stood still, by the
        aggregator's clock: what lies here unread while others have the processor is no standstill."""
        wait_ms = 30_000 if self._head is None else 0
        while self._socket.poll(wait_ms):
            wait_ms = 0
            self._head = decode_head(self._socket.recv())
            if self._head.update > self._update:
                if self._update >= 0:
                    still_s = (self._head.mono_ns - self._moved_ns) / 1e9
                    self.longest_still_s = max(self.longest_still_s, still_s)
                self._update, self._moved_ns = self._head.update, self._head.mono_ns
        assert self._head is not None
        return self._head

    def close(self) -> None:
        sockets.terminate(self._context, [self._socket])


@contextmanager
def live_run(tmp_path: Path) -> Iterator[tuple[ConnectionFile, Watcher]]:
    """A training at 100 iterations a second; its run must end whole and verified."""
    run_dir, stop = tmp_path / "run", tmp_path / "stop"
    training = start(TRAINING, str(run_dir), str(stop))
    try:
        until((bus_directory(run_dir) / "bus.json").exists, 60)
        connection = rendezvous.read(bus_directory(run_dir))
        watcher = Watcher(connection.announce)
        try:
            until(lambda: watcher.head().update > 20, 60)
            yield connection, watcher
        finally:
            watcher.close()
            stop.touch()
            output, errors = training.communicate(timeout=60)
    finally:
        training.kill()
        training.communicate()
    assert errors == ""
    until(lambda: verify_run(run_dir).history.ended is not None, 60)
    verified = verify_run(run_dir)
    assert verified.points_per_tag["Loss/value"] == int(output)
    assert verified.lost_frames == 0
