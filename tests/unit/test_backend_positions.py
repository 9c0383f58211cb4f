"""A backend goes on from any position of the history: nothing twice, and blobs whole."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from told_history import History, take

from unilab_metrics.write.items import Image, Item, Restart, Text
from unilab_metrics.write.position import Position, decode_position, encode_position
from unilab_metrics.write.selection import Selection


@pytest.fixture
def history() -> History:
    return History()


def test_chunks_become_a_blob_only_when_whole(history: History) -> None:
    history.open()
    history.chunk(1, 0, 3, "image")
    history.chunk(2, 0, 2)
    history.chunk(1, 1, 3, "image")
    history.chunk(2, 1, 2)
    history.chunk(1, 2, 3, "image")
    history.chunk(3, 0, 1, "json")
    assert take(history) == [
        Text(3, 5, "blob/2", "01"),
        Image(3, 5, "blob/1", b"012", "image/png"),
        Text(3, 5, "blob/3", "```\n0\n```"),
    ]


@pytest.mark.parametrize("cut", range(1, 12))
def test_going_on_from_any_position_writes_everything_once(history: History, cut: int) -> None:
    history.open("sac", "env_steps")
    history.chunk(1, 0, 2)
    history.update(1, env_steps=8)
    history.chunk(2, 0, 3)
    history.chunk(1, 1, 2)
    history.chunk(2, 1, 3)
    history.update(2, env_steps=16)
    history.chunk(2, 2, 3)
    history.open("sac", "env_steps")
    history.event("config", "second")
    history.update(1, env_steps=8)
    history.end()
    whole = take(history)

    first = Selection(Position())
    before = [item for record in history.records[:cut] for item in first.take(record)]
    position = decode_position(encode_position(first.position))
    resumed = take(history, Selection(position), after=min(position.replay, position.update))
    assert [_comparable(item) for item in before + resumed] == list(map(_comparable, whole))


def _comparable(item: Item) -> Any:
    return tuple(part.tolist() if isinstance(part, np.ndarray) else part for part in item)


def test_a_blob_whose_source_died_is_given_up_with_the_attempt(history: History) -> None:
    history.open()
    history.chunk(1, 0, 2)
    history.end()
    selection = Selection(Position())
    take(history, selection)
    assert selection.given_up_blobs == 1
    history.open()
    history.update(0)
    history.end()
    take(history, selection, after=3)
    assert selection.given_up_blobs == 1
    assert selection.position.replay == selection.position.update == 6


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_blob_whose_rest_is_found_after_the_end_is_whole(history: History, cut: int) -> None:
    history.open()
    history.chunk(1, 0, 2)
    history.end()
    history.event("reopened", "more has come")
    history.chunk(1, 1, 2)
    history.end()
    first = Selection(Position())
    items = [item for record in history.records[:cut] for item in first.take(record)]
    resumed = Selection(decode_position(encode_position(first.position)))
    items += take(history, resumed, after=min(first.position.replay, first.position.update))
    assert items == [Text(3, 5, "blob/1", "01")]
    assert resumed.given_up_blobs == 0


def test_another_history_starts_from_its_beginning_and_restarts(history: History) -> None:
    position = Position(update=500, replay=500, journal="aa", attempt=3, iteration=99, step=99)
    selection = Selection(position.of_journal("bb"))
    history.open()
    history.update(0)
    assert take(history, selection)[0] == Restart(0, 0)
    assert selection.position.journal == "bb"


def test_a_position_survives_its_text_form() -> None:
    position = Position(update=5, replay=4, journal="00ff", algorithm="sac", iteration=None)
    assert decode_position(encode_position(position)) == position
    with pytest.raises(msgspec.MsgspecError):
        decode_position("{")
