"""Every decoder of ours as a function of bytes that returns, whatever the bytes are.

``TARGETS``: name to function. A function swallows the exceptions that its decoder documents, so
whatever comes out of it is a finding. ``seeds``: good bytes to start from.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from unilab_metrics.aggregate.announcing.rank_table import Moment, Told, rank_values
from unilab_metrics.aggregate.folding.entries import Notice, encode_entry
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.journaling import recovery
from unilab_metrics.aggregate.receiving.accepting import accept
from unilab_metrics.aggregate.receiving.peers import Peer, source_status
from unilab_metrics.aggregate.receiving.receiver import admit
from unilab_metrics.errors import StorageError, UnknownVersionError
from unilab_metrics.run.bus_settings import SETTINGS_FILE, BusSettings, read_settings
from unilab_metrics.run.meeting import launch_file
from unilab_metrics.storage.console_pieces import console_piece
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.storage.segments import (
    SegmentHeader,
    encode_segment_header,
    read_segment_header,
    segment_name,
)
from unilab_metrics.storage.spool_reader import SpoolReader, pass_over_damage
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.transport import rendezvous
from unilab_metrics.transport.rendezvous import BUS_DIRECTORY, ConnectionFile
from unilab_metrics.write.backends.event_files import find_mark, read_records
from unilab_schema import codec
from unilab_schema.codec import FrameDecodeError
from unilab_schema.control import Epoch, Hello
from unilab_schema.identity import Identity, SourceKey
from unilab_schema.requests import Console, Ranks

VECTORS = Path(__file__).parents[2] / "schema" / "vectors" / "v1"
IDENTITY = Identity(SourceKey(0, "learner"), b"i" * 16, 1, "h", "b", "/s", "/s/lease", 0, 0)
HEADER = SegmentHeader(1, "history", Epoch(b"j" * 16, 1), 0)

Target = Callable[[bytes], None]


def vectors(prefix: str) -> dict[str, bytes]:
    """The golden vectors whose names begin with ``prefix``, by the rest of the name."""
    found: dict[str, bytes] = {}
    for path in sorted(VECTORS.glob(f"{prefix}-*.hex")):
        lines = [line for line in path.read_text("ascii").splitlines() if line[:1] != "#"]
        found[path.stem.removeprefix(f"{prefix}-")] = bytes.fromhex("".join(lines))
    return found


def kinds() -> dict[str, int]:
    """Vector names of record payloads to their kinds; variants of one kind share it."""
    names = {kind.name.lower().replace("_", "-"): int(kind) for kind in codec.RecordKind}
    return {
        name: next(k for n, k in sorted(names.items(), reverse=True) if name.startswith(n))
        for name in vectors("record")
    }


def records() -> bytes:
    """All payload vectors as one stream of records with rising sequences."""
    by_name = kinds()
    return b"".join(
        encode_record(by_name[name], number, payload)
        for number, (name, payload) in enumerate(vectors("record").items(), 1)
    )


def _is_named(reason: str) -> None:
    assert reason


def _message(decode: Callable[[bytes], Any]) -> Target:
    def target(data: bytes) -> None:
        try:
            decode(data)
        except FrameDecodeError as error:
            _is_named(error.reason)

    return target


def _payload(data: bytes) -> None:
    for kind in (data[0] if data else 0, *codec.PAYLOADS):
        try:
            codec.decode_payload(kind, data[1:])
        except FrameDecodeError as error:
            _is_named(error.reason)


def _scan(data: bytes) -> None:
    for complete in (True, False):
        found = scan(data, complete=complete)
        assert 0 <= found.valid_bytes <= len(data)
        assert all(data[r.start : r.start + 3] == b"um\x01" for r in found.records)
    pass_over_damage(data, 0, 3)


def _batch(data: bytes) -> None:
    """Records from an admitted source: accepted, folded, sealed."""
    state = AggregatorState()
    hello = Hello(IDENTITY, 1, 0, 0, 0)
    for entry in admit(state, hello, lambda _: False).entries:
        state.handle(entry)
    source = state.data.sources[0]
    cursor = source.cursor
    accepted = accept(source, data, 1)
    if accepted.entry is not None:
        state.handle(accepted.entry, accepted.records)
        assert source.cursor >= cursor
    AggregatorState(state.snapshot())


def _ranks(data: bytes) -> None:
    """Whatever is asked about the ranks, the answer fits a message."""
    try:
        request = codec.decode_request(data)
    except FrameDecodeError:
        return
    if isinstance(request, Ranks):
        state = AggregatorState()
        for entry in admit(state, Hello(IDENTITY, 1, 0, 0, 0), lambda _: False).entries:
            state.handle(entry)
        source = state.data.sources[0]
        accepted = accept(source, records(), 1)
        if accepted.entry is not None:
            state.handle(accepted.entry, accepted.records)
        told = [Told(source, source_status(source, Peer(), 1))]
        reply = rank_values(state, request, told, Moment(HEADER.epoch, 1, "b"))
        encoded = codec.encode_message(reply)
        assert len(encoded) < codec.MAX_MESSAGE_BYTES
        assert repr(codec.decode_reply(encoded)) == repr(reply)


def _console(data: bytes) -> None:
    """Whatever piece of the console is asked for, it is of its files and fits a message."""
    try:
        request = codec.decode_request(data)
    except FrameDecodeError:
        return
    if isinstance(request, Console):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "console.log").write_bytes(data)
            reply = console_piece(Path(folder), request)
        assert reply.data in data
        encoded = codec.encode_message(reply)
        assert len(encoded) < codec.MAX_MESSAGE_BYTES
        assert codec.decode_reply(encoded) == reply


def _hello(data: bytes) -> None:
    try:
        message = codec.decode_upward(data)
    except FrameDecodeError:
        return
    if isinstance(message, Hello):
        state = AggregatorState()
        for entry in admit(state, message, _nobody_is_dead).entries:
            state.handle(entry)


def _nobody_is_dead(_: SourceState) -> bool:
    return False


def _in_file(name: str, use: Callable[[Path], Any], *documented: type[Exception]) -> Target:
    def target(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            os.chmod(path, 0o600)
            try:
                use(path)
            except documented as error:
                _is_named(str(error))

    return target


def _read_spool(path: Path) -> None:
    reader = SpoolReader(path.parent)
    reached = 0
    for batch in reader.batches():
        assert batch.last >= reached
        reached = batch.last
    reader.last()


def _read_history(path: Path) -> None:
    with HistoryReader(path.parent) as reader:
        while reader.poll(10):
            pass
        reader.damaged_at_end()
        assert reader.damaged >= 0
        assert reader.lost_entries >= 0


def _read_events(path: Path) -> None:
    find_mark(path)
    for record in read_records(path):
        assert record


def _read_settings(path: Path) -> None:
    (path.parent / BUS_DIRECTORY).mkdir(mode=0o700)
    path.rename(path.parent / BUS_DIRECTORY / SETTINGS_FILE)
    assert read_settings(path.parent).version == 1


def _read_launch(path: Path) -> None:
    found = launch_file._read(path)
    assert found is None or found.version == 1


def _wal(data: bytes) -> None:
    wal = encode_segment_header(SegmentHeader(1, "wal", Epoch(b"j" * 16, 1), 0))
    _recover(wal + data)


_recover = _in_file(
    segment_name("wal", 1, 0), lambda path: recovery.recover(path.parent), UnknownVersionError
)

TARGETS: dict[str, Target] = {
    "upward": _message(codec.decode_upward),
    "downward": _message(codec.decode_downward),
    "head": _message(codec.decode_head),
    "request": _message(codec.decode_request),
    "reply": _message(codec.decode_reply),
    "ranks": _ranks,
    "console": _console,
    "payload": _payload,
    "scan": _scan,
    "hello": _hello,
    "batch": _batch,
    "wal": _wal,
    "segment": _in_file(segment_name("history", 1, 0), read_segment_header, StorageError),
    "spool": _in_file(segment_name("spool", 1, 1), _read_spool),
    "history": _in_file(segment_name("history", 1, 0), _read_history, UnknownVersionError),
    "connection": _in_file("bus.json", lambda path: rendezvous.read(path.parent), StorageError),
    "settings": _in_file("settings.json", _read_settings),
    "launch": _in_file("launch.json", _read_launch),
    "events": _in_file("events.out.tfevents.1.h.1.unilab", _read_events),
}


def seeds(name: str) -> list[bytes]:
    """Good bytes for a target."""
    messages = list(vectors("message").values())
    match name:
        case "upward" | "downward" | "head" | "request" | "reply" | "hello" | "ranks" | "console":
            return messages
        case "payload":
            by_name = kinds()
            return [bytes([by_name[n]]) + data for n, data in vectors("record").items()]
        case "scan" | "batch":
            return [records()]
        case "wal":
            kind, payload = encode_entry(Notice("status", "text", 1, 1))
            snapshot = encode_record(72, 0, AggregatorState().snapshot())
            return [snapshot + encode_record(kind, 0, payload)]
        case "segment" | "history" | "spool":
            header = encode_segment_header(HEADER) if name != "spool" else b""
            return [header + records()]
        case "connection" | "settings" | "launch":
            file = ConnectionFile(
                run_dir="/r",
                journal="00",
                pid=1,
                started_unix_ns=1,
                boot_id="b",
                host="h",
                ingest="ipc://i",
                announce="ipc://a",
                fetch="ipc://f",
            )
            settings = BusSettings(launch="k", spools=("/s",))
            return [msgspec.json.encode(file), msgspec.json.encode(settings)]
        case _:
            return [_event_file()]


def _event_file() -> bytes:
    from unilab_metrics.write.backends.event_encoding import file_version_event, mark_event
    from unilab_metrics.write.backends.event_records import frame
    from unilab_metrics.write.position import Position

    return b"".join(map(frame, (file_version_event(1), mark_event(Position(update=3), 2))))
