"""What we put into torch.distributed's store: the names and the values. Pure.

Rank 0 says there where its aggregator listens; a process of another node puts the public half
of its own key there, and learns that it has been put on the run's list. Below a prefix of the
training's own: ``bus`` (:class:`StoredBus`), ``asked`` (a counter), ``key/<n>``
(:class:`StoredKey`), ``answer/<n>`` (``ok``, or why not). No secret key is ever among them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from unilab_metrics.errors import EndpointError
from unilab_metrics.transport.addresses import parse_tcp
from unilab_metrics.transport.allow_list import is_public_key
from unilab_metrics.transport.rendezvous import ConnectionFile, DistantBus

STORE_VERSION = 1
MAX_VALUE_BYTES = 8 * 1024
MAX_ASKED = 65_536
ADMITTED = b"ok"
_MAX_TEXT = 200
_SAME_ON_EVERY_NODE = (
    "TORCHELASTIC_RUN_ID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMIX_NAMESPACE",
    "OMPI_MCA_orte_ess_jobid",
)
_WORD = re.compile(r"[0-9A-Za-z_.:\-]{1,255}")
_JOURNAL = re.compile(r"[0-9a-f]{32}")


class StoreEntryError(ValueError):
    """A value that none of ours can have put there, or that another version has."""


class StoredBus(msgspec.Struct, frozen=True, kw_only=True):
    """Where the aggregator of a run listens for other nodes; see ``ConnectionFile``.

    ``journal`` names the run; ``pid`` and ``started_unix_ns`` tell one life of its aggregator
    from the next. ``run_dir``: as rank 0 sees it.
    """

    version: int = STORE_VERSION
    run_dir: str
    journal: str
    pid: int
    started_unix_ns: int
    boot_id: str
    host: str
    tcp_ingest: str
    server_key: str


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """The public half of the pair that a process has made for itself."""

    version: int = STORE_VERSION
    rank: int
    role: str
    host: str
    public: str


class _VersionOnly(msgspec.Struct, frozen=True):
    version: int


class StoreNames:
    """The keys that the processes of one training use in its store."""

    def __init__(self, environ: Mapping[str, str], opened: int) -> None:
        """``opened``: how many runs the process has opened before, the same on every rank."""
        parts = [str(opened), *(environ.get(name, "") for name in _SAME_ON_EVERY_NODE)]
        text = "\0".join(parts).encode(errors="surrogateescape")
        self.prefix = f"unilab-metrics/{STORE_VERSION}/{hashlib.sha256(text).hexdigest()[:20]}/"
        self.bus = f"{self.prefix}bus"
        self.asked = f"{self.prefix}asked"

    def key(self, number: int) -> str:
        """Of a :class:`StoredKey`; numbers begin with 1."""
        return f"{self.prefix}key/{number}"

    def answer(self, number: int) -> str:
        """What has become of it."""
        return f"{self.prefix}answer/{number}"


_Stored = TypeVar("_Stored", StoredBus, StoredKey)
_version_decoder = msgspec.json.Decoder(_VersionOnly)
_bus_decoder = msgspec.json.Decoder(StoredBus)
_key_decoder = msgspec.json.Decoder(StoredKey)


def encode(stored: StoredBus | StoredKey) -> str:
    """The text for the store."""
    return msgspec.json.encode(stored).decode()


def decode_bus(data: bytes) -> StoredBus:
    """Raises :class:`StoreEntryError` for anything that rank 0 would not have put there."""
    found = _decode(data, _bus_decoder)
    try:
        address = parse_tcp(found.tcp_ingest)
    except EndpointError as error:
        raise StoreEntryError(f"an address that {error.reason}") from error
    if not address.port or address.host == "*" or not is_public_key(found.server_key):
        raise StoreEntryError("an address that nobody can connect to")
    is_path = found.run_dir.startswith("/") and found.run_dir.isprintable()
    if not (is_path and _JOURNAL.fullmatch(found.journal) and found.boot_id.isprintable()):
        raise StoreEntryError("a run that cannot be")
    return found


def decode_key(data: bytes, world_size: int) -> StoredKey:
    """Raises :class:`StoreEntryError` unless it is a key of a rank other than 0."""
    found = _decode(data, _key_decoder)
    if not 1 <= found.rank < world_size:
        raise StoreEntryError(f"a key for rank {found.rank} of {world_size}")
    if not is_public_key(found.public):
        raise StoreEntryError("no public key")
    if not (_WORD.fullmatch(found.role) and _WORD.fullmatch(found.host)):
        raise StoreEntryError("a key of nobody")
    return found


def word(text: str) -> str:
    """A name as :class:`StoredKey` has them."""
    return re.sub(r"[^0-9A-Za-z_.:\-]", "_", text)[:64] or "_"


def read_answer(data: bytes) -> str:
    """Why the key was not taken; empty if it was."""
    if data == ADMITTED:
        return ""
    text = data[:_MAX_TEXT].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text) or "for no reason"


def stored_of(file: ConnectionFile) -> StoredBus:
    """What other nodes may know of a connection file."""
    return StoredBus(
        run_dir=file.run_dir,
        journal=file.journal,
        pid=file.pid,
        started_unix_ns=file.started_unix_ns,
        boot_id=file.boot_id,
        host=file.host,
        tcp_ingest=file.tcp_ingest,
        server_key=file.server_key,
    )


def distant_bus(stored: StoredBus, keys: str, rank: int) -> DistantBus:
    """The way to an aggregator whose run directory cannot be seen here. ``keys``: directory of the
    pairs of this node's ranks are; ``rank``: ours."""
    return DistantBus(
        run_dir=stored.run_dir,
        journal=stored.journal,
        pid=stored.pid,
        started_unix_ns=stored.started_unix_ns,
        boot_id=stored.boot_id,
        host=stored.host,
        ingest="",
        announce="",
        fetch="",
        tcp_ingest=stored.tcp_ingest,
        server_key=stored.server_key,
        keys=keys,
        rank=rank,
    )


def _decode(data: bytes, decoder: msgspec.json.Decoder[_Stored]) -> _Stored:
    if len(data) > MAX_VALUE_BYTES:
        raise StoreEntryError(f"{len(data)} bytes, which are too many")
    try:
        version = _version_decoder.decode(data).version
        if version != STORE_VERSION:
            raise StoreEntryError(f"version {version}, this program knows {STORE_VERSION}")
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreEntryError(f"no entry of ours: {error}") from error
