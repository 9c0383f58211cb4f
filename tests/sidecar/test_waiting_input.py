"""However much is typed, little of it waits, and what ends a view overtakes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.events import AppFocus, Key, Resize
from textual.geometry import Size
from textual.message import Message

from unilab_sidecar.looking.for_a_while import READ_S, ShownQuestion
from unilab_sidecar.terminal.bounded_input import MOST_AHEAD, BoundedInput
from unilab_sidecar.terminal.waiting_input import MOST_KEYS, WaitingInput


def key(name: str) -> Key:
    return Key(name, name if len(name) == 1 else None)


def names(messages: list[Message]) -> list[str]:
    return [one.key if isinstance(one, Key) else type(one).__name__ for one in messages]


def test_keys_come_out_as_they_were_typed_and_only_the_first_is_told() -> None:
    waiting = WaitingInput()
    assert [waiting.put(key(name)) for name in "abc"] == [True, False, False]
    assert names(waiting.take(2)) == ["a", "b"]
    assert waiting
    assert not waiting.put(key("d"))
    assert names(waiting.take(9)) == ["c", "d"]
    assert not waiting
    assert waiting.put(key("e"))


def test_of_too_many_keys_the_newest_wait() -> None:
    waiting = WaitingInput()
    for number in range(MOST_KEYS + 1000):
        waiting.put(key(str(number)))
    taken = names(waiting.take(10**6))
    assert taken == [str(number) for number in range(1000, MOST_KEYS + 1000)]


@pytest.mark.parametrize("closing", ["ctrl+c", "ctrl+backslash"])
def test_what_always_closes_does_not_wait_behind_keys(closing: str) -> None:
    waiting = WaitingInput()
    for name in ("q", "K", closing, "y"):
        waiting.put(key(name))
    assert names(waiting.take(1)) == [closing]
    assert names(waiting.take(9)) == ["y"]


def test_of_sizes_the_newest_is_told_whatever_is_typed() -> None:
    waiting = WaitingInput()
    for number in range(1, MOST_KEYS + 1000):
        size = Size(number, number)
        waiting.put(Resize(size, size))
        waiting.put(AppFocus())
        waiting.put(key("x"))
    first = waiting.take(0)
    assert names(first) == ["Resize", "AppFocus"]
    assert [one.size.width for one in first if isinstance(one, Resize)] == [MOST_KEYS + 999]
    assert len(waiting.take(10**6)) == MOST_KEYS


def test_a_question_is_answered_by_what_is_typed_once_it_can_have_been_read() -> None:
    question = ShownQuestion()
    assert not question.is_read(9.0)
    question.show(10.0, is_asked=True)
    question.show(10.4, is_asked=True)
    assert not question.is_read(9.9)
    assert not question.is_read(10.0 + READ_S / 2)
    assert question.is_read(10.0 + READ_S)
    question.show(20.0, is_asked=False)
    assert not question.is_read(30.0)


class Typing(BoundedInput):
    """A driver without a terminal."""

    def write(self, data: str) -> None:
        """Nowhere."""

    def start_application_mode(self) -> None:
        """Nothing to start."""

    def disable_input(self) -> None:
        """Nothing to stop."""

    def stop_application_mode(self) -> None:
        """Nothing to stop."""


class BusyApp:
    """Has what a driver asks for, and hears only when it is told to."""

    def __init__(self) -> None:
        self.queue: list[Message] = []

    @property
    def message_queue_size(self) -> int:
        return len(self.queue)

    def post_message(self, message: Message) -> bool:
        self.queue.append(message)
        return True


def test_an_app_has_few_keys_before_it_and_ctrl_c_overtakes_the_others() -> None:
    async def run() -> list[str]:
        app: Any = BusyApp()
        driver = Typing(app)
        for _ in range(5000):
            driver.send_message(key("x"))
        for _ in range(10):
            await asyncio.sleep(0.002)
        assert names(app.queue) == ["x"] * MOST_AHEAD
        driver.send_message(key("ctrl+c"))
        app.queue.clear()
        for _ in range(1000):
            if app.queue:
                break
            await asyncio.sleep(0.005)
        return names(app.queue)

    assert asyncio.run(run()) == ["ctrl+c"]
