"""A signal handler may raise at any line of a ``close()``: the last record is there once, what is left
is said, and the spool is closed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unilab_metrics.publish.closing import deliver_and_close
from unilab_schema.codec import RecordKind

LEFT = "2 records unsent: these frames wait in /spool"


class Spool:
    """Of two records. ``raises``: what the next append raises, ``written`` or not."""

    def __init__(self, raises: BaseException | None = None, *, written: bool = False) -> None:
        self.last, self.kinds, self.closed = 2, list[int](), list[bool]()
        self.kept: list[str] = []
        self.losses = SimpleNamespace(counts={}, troubles=(), keep=self.kept.append)
        self._raises, self._written = raises, written

    def append(self, kind: int, payload_at: object) -> None:
        del payload_at
        error, self._raises = self._raises, None
        if error is None or self._written:
            self.kinds.append(kind)
            self.last += 1
        if error is not None:
            raise error

    def close(self, *, remove: bool) -> None:
        self.closed.append(remove)


class Shipper:
    """One to whom nobody listens."""

    prospects = SimpleNamespace(
        left_behind=LEFT, removed_run=None, is_in_hand=False, close=lambda: None
    )

    def __init__(self, raises: BaseException | None = None) -> None:
        self._raises = raises

    def tell_drops(self) -> None:
        error, self._raises = self._raises, None
        if error is not None:
            raise error

    def finish(self, timeout_s: float) -> bool:
        del timeout_s
        return False


def close(spool: Any, shipper: Any) -> bool:
    return deliver_and_close(
        spool, shipper, lambda: "", timeout_s=1.0, status="completed", is_exiting=False
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), ValueError("of a handler")])
@pytest.mark.parametrize("where", ["before it", "behind it", "in the drops"])
def test_wherever_it_is_raised_the_rest_is_done_and_then_it_is_raised(
    where: str, error: BaseException
) -> None:
    is_of_drops = where == "in the drops"
    spool = Spool(None if is_of_drops else error, written=where == "behind it")
    with (
        pytest.raises(type(error)) as raised,
        pytest.warns(RuntimeWarning, match="these frames wait in /spool"),
    ):
        close(spool, Shipper(error if is_of_drops else None))
    assert raised.value is error
    assert spool.kinds == [RecordKind.END]
    assert spool.closed == [False]
    assert spool.kept == [LEFT]


def test_without_one_it_is_said_and_closed_as_well() -> None:
    spool = Spool()
    with pytest.warns(RuntimeWarning, match="these frames wait in /spool"):
        assert not close(spool, Shipper())
    assert (spool.kinds, spool.closed) == ([RecordKind.END], [False])
