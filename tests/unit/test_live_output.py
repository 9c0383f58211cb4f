"""What is printed of a training and of its plain view, each line whole and none of them empty."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from unilab_metrics.run.output import live_output
from unilab_metrics.run.output.live_output import LiveOutput


class Ends:
    """A training's pipe, a place for what is printed, and what passes on."""

    def __init__(self) -> None:
        source, self._training = os.pipe()
        self._printed, output = os.pipe()
        self._all = [source, self._training, self._printed, output]
        for fd in (source, self._printed):
            os.set_blocking(fd, False)
        self.live = LiveOutput(source, output=output)

    def prints(self, text: str) -> None:
        os.write(self._training, text.encode())
        self.live.pump(0.02)

    @property
    def read_end(self) -> int:
        """Of what is printed."""
        return self._printed

    def write(self, text: str) -> None:
        """Of the training, which nobody has passed on yet."""
        os.write(self._training, text.encode())

    def ends(self) -> None:
        """The training does."""
        self._all.remove(self._training)
        os.close(self._training)

    def printed(self) -> str:
        self.live.pump(0.02)
        return os.read(self._printed, 65536).decode()

    def close(self) -> None:
        for fd in self._all:
            os.close(fd)


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_line_that_ours_has_broken_off_does_not_end_twice(ends: Ends, newline: str) -> None:
    # Without a buffer Python writes a line and its end one after the other.
    ends.prints("iteration 1")
    ends.live.say("ours")
    ends.live.say("ours too")
    ends.prints(newline)
    ends.prints("iteration 2\n")
    assert ends.printed() == "iteration 1\nours\nours too\niteration 2\n"


def test_an_empty_line_of_the_training_stays(ends: Ends) -> None:
    ends.prints("iteration 1\n")
    ends.live.say("ours")
    ends.prints("\nafter an empty one")
    ends.live.say("ours")
    ends.prints("\n\nafter another\n")
    assert ends.printed() == ("iteration 1\nours\n\nafter an empty one\nours\n\nafter another\n")


def test_a_bar_that_goes_on_in_its_line_goes_on(ends: Ends) -> None:
    ends.prints("\r10 %")
    ends.live.say("ours")
    ends.prints("\r20 %")
    ends.prints("\n")
    assert ends.printed() == "\r10 %\nours\n\r20 %\n"


@pytest.mark.parametrize("is_late", [False, True])
def test_only_who_is_waited_for_gets_all_that_he_reads_late(ends: Ends, is_late: bool) -> None:
    text = "x" * 9999 + "\n"
    for _ in range(16):
        ends.prints(text)
    read, asked = b"", 0

    def is_patient() -> bool:
        nonlocal read, asked
        asked += 1
        if asked > 10:
            read += os.read(ends.read_end, 65536)
        return is_late

    ends.ends()
    ends.live.drain(0.05, is_patient)
    while True:
        try:
            read += os.read(ends.read_end, 65536)
        except BlockingIOError:
            break
    assert (read.decode() == text * 16) == is_late


def test_what_never_ends_is_not_waited_for(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_output, "_MOST_DRAINED_BYTES", 100_000)

    def read_and_write_on() -> bool:
        os.read(ends.read_end, 4096)
        ends.write("x" * 4096)
        return True

    for _ in range(10):
        ends.prints("x" * 16384)
    ends.live.drain(0.05, read_and_write_on)
    assert not ends.live.is_over
