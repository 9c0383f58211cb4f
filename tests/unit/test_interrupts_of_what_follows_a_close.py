"""What is called at the end of a ``close()`` may be interrupted: the rest is done all the same."""

from __future__ import annotations

import pytest

from unilab_metrics.publish.closing import Closing


def closing_with(*calls: BaseException) -> tuple[Closing, list[str]]:
    """Calls that raise these, and behind them one that tells."""
    closing, told = Closing(), ["not yet"]
    assert closing.begin()

    def raising(error: BaseException) -> None:
        raise error

    closing.afterwards.append(told.clear)
    closing.afterwards += [lambda error=error: raising(error) for error in calls]
    return closing, told


def test_ctrl_c_is_raised_when_all_is_done() -> None:
    closing, told = closing_with(KeyboardInterrupt(), OSError())
    with pytest.raises(KeyboardInterrupt):
        closing.end()
    assert told == []
    assert closing.wait(0.0)


def test_a_failure_alone_is_nobodys_business() -> None:
    closing, told = closing_with(OSError())
    closing.end()
    assert told == []


def test_a_second_ctrl_c_adds_nothing_to_the_first() -> None:
    closing, told = closing_with(KeyboardInterrupt("second"))

    def interrupted() -> None:
        try:
            raise KeyboardInterrupt("first")
        finally:
            closing.end()

    with pytest.raises(KeyboardInterrupt, match="first"):
        interrupted()
    assert told == []


def test_at_the_exit_nothing_is_raised() -> None:
    closing, told = closing_with(KeyboardInterrupt())
    closing.end(is_exiting=True)
    assert told == []
