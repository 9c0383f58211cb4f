"""The protocol model's source: a spool as lists of records, shipped by the real delivery rules."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from random import Random

from unilab_metrics.publish.delivery import Delivery
from unilab_metrics.storage.records import encode_record, scan
from unilab_metrics.storage.spool_reader import pass_over_damage
from unilab_schema.codec import (
    KIND_OF,
    decode_downward,
    decode_payload,
    encode_message,
    encode_payload,
)
from unilab_schema.control import Batch, Cursor, Hello
from unilab_schema.frames import End, EventFrame, IterationFrame, Layout
from unilab_schema.identity import LEARNER, Identity, RunInfo, SourceKey

SEGMENT_RECORDS = 5
BATCH_RECORDS = 4
QUOTA_RECORDS = 30
_RUN = RunInfo("sac")
REPEATED = 0.5
"""Added to the value of an iteration that is logged once more."""


def repeats(data: bytes) -> int:
    """How many values of these records were logged once more."""
    return sum(
        struct.unpack("<d", decode_payload(record.kind, record.payload).values)[0] % 1 == REPEATED
        for record in scan(data).records
        if record.kind == KIND_OF[IterationFrame]
    )


@dataclass
class Link:
    """A connection: messages under way in both directions, each in order."""

    up: deque[bytes] = field(default_factory=deque[bytes])
    down: deque[bytes] = field(default_factory=deque[bytes])


class ModelSource:
    """One incarnation. ``truth``: what each sequence said, for those whose ``log()`` returned."""

    def __init__(self, number: int, rank: int, role: str, learners: int, now: int) -> None:
        self.number = number
        self.identity = Identity(
            SourceKey(rank, role),
            number.to_bytes(16, "big"),
            100 + number,
            "host",
            "boot",
            "/s",
            "/s/lease",
            now,
            now,
            learners,
            _RUN,
        )
        self.delivery = Delivery()
        self.link = Link()
        self.old_links: list[Link] = []
        self.segments: list[list[bytearray]] = [[]]
        self.firsts = [1]
        self.stamps: dict[int, int] = {}
        self.last = 0
        self.iteration = 0
        self.is_alive = True
        self.is_hidden = False
        self.has_end = False
        self.drops = 0
        self.damaged: set[int] = set()
        self.truth: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self._layout = b""
        self.delivery.connected(now)

    # --- logging -------------------------------------------------------------------------

    def log_iteration(self, now: int) -> None:
        if not self._layout:
            layout = Layout(0, (f"v{self.number}",))
            payload = encode_payload(layout)
            if not self._append(payload, KIND_OF[Layout], now):
                return
            self._layout = encode_record(KIND_OF[Layout], 0, payload)
        k = self.iteration + 1
        frame = IterationFrame(0, k, None, now, now, struct.pack("<d", k))
        if self._append(encode_payload(frame), KIND_OF[IterationFrame], now, f"v{k}"):
            self.iteration = k
            self._numbers[k] = self.last
            if k % 4 == 0:
                self._repeat(k - k // 4 % 2, now)

    def _repeat(self, k: int, now: int) -> None:
        """Once more, with another value, which nobody may see while the first one is known."""
        frame = IterationFrame(0, k, None, now, now, struct.pack("<d", k + REPEATED))
        self._append(encode_payload(frame), KIND_OF[IterationFrame], now)

    def is_damaged(self, k: int) -> bool:
        """Whether the first record of an iteration may never have been read."""
        return self._numbers[k] in self.damaged

    def log_event(self, now: int) -> None:
        text = f"e{self.number}:{self.last + 1}"
        payload = encode_payload(EventFrame("status", text, now, now))
        self._append(payload, KIND_OF[EventFrame], now, text)

    def end(self, now: int) -> None:
        if self._append(encode_payload(End("completed", now, now)), KIND_OF[End], now):
            self.has_end = True

    def _append(self, payload: bytes, kind: int, now: int, truth: str = "") -> bool:
        if self.has_end:
            return False
        if self.last - self.first + 1 >= QUOTA_RECORDS and kind != KIND_OF[End]:
            self.drops += 1
            return False
        if len(self.segments[-1]) >= SEGMENT_RECORDS:
            self.segments.append([])
            self.firsts.append(self.last + 1)
        self.last += 1
        self.segments[-1].append(bytearray(encode_record(kind, self.last, payload)))
        self.stamps[self.last] = now
        if truth:
            self.truth[self.last] = truth
        return True

    # --- the spool -----------------------------------------------------------------------

    @property
    def first(self) -> int:
        return self.firsts[0]

    @property
    def held(self) -> range:
        """Sequences that are still in the spool."""
        return range(self.first, self.last + 1)

    def damage(self, sequence: int, rng: Random) -> None:
        """Flip a bit of a record on the disk."""
        record = self._record(sequence)
        record[rng.randrange(len(record))] ^= 1 << rng.randrange(8)
        self.damaged.add(sequence)

    def crash(self, rng: Random) -> None:
        """Killed, perhaps in the middle of an append that never returned."""
        self.is_alive = False
        self.old_links.append(self.link)
        if rng.random() < 0.3:
            torn = encode_record(KIND_OF[EventFrame], self.last + 1, bytes(30))
            self.segments[-1].append(bytearray(torn[: rng.randrange(1, len(torn))]))

    def leftovers(self, after: int) -> bytes:
        """What an adopter reads, a torn tail included."""
        data = b"".join(bytes(record) for segment in self.segments for record in segment)
        return pass_over_damage(data, after, self.last, self._announcements())

    def trim(self, durable: int) -> None:
        while len(self.segments) > 1 and self.firsts[1] - 1 <= durable:
            del self.segments[0], self.firsts[0]

    def _record(self, sequence: int) -> bytearray:
        index = max(n for n, first in enumerate(self.firsts) if first <= sequence)
        return self.segments[index][sequence - self.firsts[index]]

    def _announcements(self) -> list[bytes]:
        return [self._layout] if self._layout else []

    def _take(self, after: int, upto: int) -> tuple[bytes, int]:
        if after + 1 < self.first:
            return pass_over_damage(b"", after, self.first - 1), self.first - 1
        last = min(upto, after + BATCH_RECORDS)
        data = b"".join(bytes(self._record(n)) for n in range(after + 1, last + 1))
        if self.delivery.must_verify:
            data = pass_over_damage(data, after, last, self._announcements())
        return data, last

    # --- shipping ------------------------------------------------------------------------

    def connect(self, now: int) -> None:
        """A new socket; what is under way on the old one may still arrive."""
        self.old_links.append(self.link)
        self.link = Link()
        self.delivery.connected(now)

    def receive(self, data: bytes, now: int) -> None:
        message = decode_downward(data)
        if isinstance(message, Cursor):
            self.delivery.take_cursor(message, self.last, now)
        else:
            self.delivery.take_reject(message, now)

    def ship(self, now: int) -> None:
        """One turn of the shipper."""
        delivery = self.delivery
        while self.link.down:
            self.receive(self.link.down.popleft(), now)
        delivery.resend_if_stuck(now)
        if delivery.hello_due(now):
            self.link.up.append(
                encode_message(Hello(self.identity, self.first, self.last, now, now))
            )
            delivery.hello_sent(now)
        if delivery.greeted:
            if delivery.sendable(self.last) <= delivery.sent:
                self._send(b"", delivery.sent, now)
            while (upto := delivery.sendable(self.last)) > delivery.sent:
                self._send(*self._take(delivery.sent, upto), now)
        self.trim(self.trim_limit())

    def trim_limit(self) -> int:
        return self.delivery.durable

    def _send(self, records: bytes, last: int, now: int) -> None:
        watermark = now if last >= self.last else self.stamps[last + 1]
        incarnation = self.identity.incarnation
        self.link.up.append(encode_message(Batch(incarnation, watermark, now, now, records)))
        self.delivery.sent_upto(last, now)

    @property
    def is_learner(self) -> bool:
        return self.identity.key.role == LEARNER
