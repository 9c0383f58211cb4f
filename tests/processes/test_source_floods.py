"""An authorised source that sends as fast as it can holds no other one up."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import psutil
import pytest
import zmq
from garbage import RawPeer, identity
from live_runs import live_run

from unilab_metrics.storage.lease import Lease
from unilab_metrics.storage.records import encode_record
from unilab_schema.codec import RecordKind, encode_message, encode_payload
from unilab_schema.control import Batch
from unilab_schema.frames import Layout, ReportFrame

FLOOD_S = 6.0
PER_BATCH = 400
MAX_GROWTH_BYTES = 50_000_000


@pytest.mark.slow
def test_a_flood_of_one_source_delays_nobody_beyond_a_bound(tmp_path: Path) -> None:
    lease = Lease.create(tmp_path, "lease", b"")
    who = identity(lease.path, role="watch")
    layout = encode_payload(Layout(0, ("Flood/a", "Flood/b")))
    report = encode_payload(ReportFrame(0, None, 1, 1, bytes(16)))
    try:
        with (
            live_run(tmp_path) as (connection, watcher),
            RawPeer(zmq.DEALER, connection.ingest) as peer,
        ):
            peer.greet(who)
            process = psutil.Process(connection.pid)
            before_bytes = process.memory_info().rss
            records = encode_record(RecordKind.LAYOUT, 1, layout)
            began_s, first = time.monotonic(), watcher.head().update
            for batch in count():
                if time.monotonic() - began_s > FLOOD_S:
                    break
                start = 2 + batch * PER_BATCH
                records += b"".join(
                    encode_record(RecordKind.REPORT, start + n, report) for n in range(PER_BATCH)
                )
                peer.send(encode_message(Batch(who.incarnation, 0, 0, 0, records)))
                records = b""
                watcher.head()
            assert watcher.head().update - first > 30
            # Whoever takes the flood in first stands still for as long as that lasts, and longer.
            assert watcher.longest_still_s < FLOOD_S / 2
            assert process.memory_info().rss - before_bytes < MAX_GROWTH_BYTES
            lease.release()
    finally:
        lease.release()
