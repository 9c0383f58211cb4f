"""Whatever is logged, and whatever happens to messages and aggregators, nothing is lost."""

from __future__ import annotations

import math
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from spooled import spooled_publisher, values_of

from unilab_metrics.publish.delivery import Delivery
from unilab_metrics.publish.scalars import convert, to_step
from unilab_schema.control import Cursor, Epoch, Reject

S = 1_000_000_000

_numbers = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.floats(width=32).map(np.float32),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.floats().map(np.array),
    st.floats().map(lambda value: np.array([[value]])),
)
_junk = st.one_of(
    st.none(), st.text(), st.binary(), st.complex_numbers(), st.lists(st.floats()), st.just(object)
)


@given(st.dictionaries(st.text(max_size=20), st.one_of(_numbers, _junk), max_size=12))
def test_numbers_are_exact_and_everything_else_is_named(values: dict[str, Any]) -> None:
    scalars = convert(values)
    refused = {refusal.tag for refusal in scalars.refused}
    assert set(scalars.values) | refused == set(values)
    assert not set(scalars.values) & refused
    for tag, number in scalars.values.items():
        expected = float(np.asarray(values[tag], dtype=object).reshape(-1)[0])
        assert struct.pack("<d", number) == struct.pack("<d", expected) or (
            math.isnan(number) and math.isnan(expected)
        )


@given(st.one_of(_numbers, _junk))
def test_a_step_is_the_same_number_or_none(value: Any) -> None:
    step = to_step(value)
    if step is not None:
        assert type(step) is int
        assert -(2**63) <= step < 2**63
        assert step == (value.item() if hasattr(value, "item") else value)


@settings(max_examples=25)
@given(
    st.lists(
        st.dictionaries(st.text(max_size=8), st.one_of(_numbers, _junk), max_size=6), max_size=8
    )
)
def test_log_never_raises_and_keeps_every_number(calls: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        publisher = spooled_publisher(Path(directory))
        for iteration, values in enumerate(calls):
            publisher.log(values, iteration=iteration)
        logged = values_of(publisher)
        assert publisher.dropped.get("internal_error", 0) == 0
        assert len(logged) == len(calls)
        for values, kept in zip(calls, logged, strict=True):
            usable = {tag for tag in values if tag and not tag.isspace() and tag.isascii()}
            numbers = convert({tag: values[tag] for tag in usable}).values
            assert {tag: struct.pack("<d", kept[tag]) for tag in numbers} == {
                tag: struct.pack("<d", number) for tag, number in numbers.items()
            }
        publisher.close(0)


PING = (1, 0)
"""A batch of no records."""


class Aggregator:
    """Accepts in sequence; may die and come back with what was durable."""

    def __init__(self) -> None:
        self.journal: list[int] = []
        self.durable = 0
        self.epoch = 1
        self.knows = False

    def restart(self, durable: int) -> None:
        self.durable = durable
        del self.journal[durable:]
        self.epoch += 1
        self.knows = False

    def answer(self, message: tuple[int, int] | None) -> Cursor | Reject:
        if message is None:
            self.knows = True
        elif not self.knows:
            return Reject("unknown_source", "")
        first, last = message or PING
        for sequence in range(first, last + 1):
            if sequence == len(self.journal) + 1:
                self.journal.append(sequence)
            elif sequence > len(self.journal):
                return self.cursor(rewind=True)
        return self.cursor()

    def cursor(self, *, rewind: bool = False) -> Cursor:
        epoch = Epoch(b"j" * 16, self.epoch)
        return Cursor(epoch, len(self.journal), self.durable, 64, 0, 0, rewind)


class Source:
    """What the shipper does with a delivery, without a socket."""

    def __init__(self, chance: random.Random) -> None:
        self.delivery = Delivery()
        self.last = 0
        self._chance = chance
        self.delivery.connected(0)

    def messages(self, now: int) -> list[tuple[int, int] | None]:
        """Hello (``None``), batches as ranges of sequences, a ping."""
        delivery = self.delivery
        made: list[tuple[int, int] | None] = []
        if delivery.hello_due(now):
            delivery.hello_sent(now)
            made.append(None)
        while (upto := delivery.sendable(self.last)) > delivery.sent:
            upto = min(upto, delivery.sent + self._chance.randint(1, 30))
            made.append((delivery.sent + 1, upto))
            delivery.sent_upto(upto, now)
        delivery.resend_if_stuck(now)
        return [*made, PING] if delivery.greeted else made

    def take(self, answer: Cursor | Reject, now: int) -> None:
        if isinstance(answer, Cursor):
            self.delivery.take_cursor(answer, self.last, now)
        else:
            self.delivery.take_reject(answer, now)


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_every_schedule_of_losses_and_restarts_ends_with_every_frame_once(seed: int) -> None:
    chance = random.Random(seed)
    source, aggregator = Source(chance), Aggregator()
    trimmed = 0
    for turn in range(300):
        now = turn * S
        if turn < 200:
            source.last += chance.choice((0, 0, 1, 5, 90))
            if chance.random() < 0.05:
                aggregator.restart(chance.randint(aggregator.durable, len(aggregator.journal)))
            if chance.random() < 0.05:
                source.delivery.connected(now)
        loss = 0.1 if turn < 200 else 0.0
        for message in source.messages(now):
            # What is trimmed can never be asked for again.
            assert not message or message == PING or message[0] > trimmed
            if chance.random() >= loss:
                answer = aggregator.answer(message)
                if chance.random() >= loss:
                    source.take(answer, now)
        synced = len(aggregator.journal)
        aggregator.durable = chance.randint(aggregator.durable, synced) if loss else synced
        trimmed = max(trimmed, source.delivery.durable)
    assert aggregator.journal == list(range(1, source.last + 1))
    assert source.delivery.durable == source.last
