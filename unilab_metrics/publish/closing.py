"""The end of a publisher: its last record, the wait for delivery, and a word on the rest."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from unilab_metrics import crash_points
from unilab_metrics.publish import unsent
from unilab_metrics.publish.runless import NO_RUN_TIMEOUT_S, LacksRun, abandon
from unilab_metrics.publish.shipper import Shipper
from unilab_metrics.publish.spool import Spool
from unilab_metrics.publish.tags import clean_text
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.frames import End


class Closing:
    """Of several threads that close a publisher one does it; the others wait for the outcome."""

    def __init__(self) -> None:
        self.delivered: bool | None = None
        """``None`` until somebody closes, then false until everything is delivered."""
        self.afterwards: list[Callable[[], None]] = []
        """Called by the thread that has closed, before the others hear of the outcome."""
        self._begun = threading.Lock()
        self._ended = threading.Event()
        self._thread = 0

    def begin(self) -> bool:
        """Whether the caller is to do it; only once."""
        if not self._begun.acquire(blocking=False):
            return False
        self._thread = threading.get_ident()
        self.delivered = False
        return True

    def end(self, *, is_exiting: bool = False) -> None:
        """Whatever came of it is known. What a signal handler raises meanwhile is raised when all
        is done, unless the exit or another interrupt is what closes."""
        interrupted: BaseException | None = None
        while self.afterwards:
            try:
                self.afterwards.pop()()
            except Exception:  # noqa: BLE001, S110 (nobody can do anything about it now)
                pass
            except BaseException as error:  # noqa: BLE001 - signal handlers raise what they like
                interrupted = error
        self._ended.set()
        is_first = isinstance(sys.exc_info()[1], Exception | None)
        if interrupted is not None and is_first and not is_exiting:
            raise interrupted

    def wait(self, timeout_s: float) -> bool:
        """For another's end; one who interrupts that thread itself does not wait. False if the
        time was too short."""
        return self._thread == threading.get_ident() or self._ended.wait(max(timeout_s, 0.0))


def deliver_and_close(
    spool: Spool,
    shipper: Shipper | None,
    lacks_run: LacksRun,
    *,
    timeout_s: float,
    status: str,
    is_exiting: bool,
) -> bool:
    """What ``Publisher.close()`` does, the first time; the warning is its caller's. Whether
    everything was delivered. ``is_exiting``: what is to be said goes to the error output.

    Ctrl+C, and whatever else a signal handler raises, cuts the wait short and is raised then."""
    if crash_points.armed:
        crash_points.reach("publisher.ending")
    interrupted: BaseException | None = None
    before: int | None = None
    try:
        if shipper is not None:
            shipper.tell_drops()
        before = spool.last
        _append_end(spool, status)
        if lacks_run():
            timeout_s = min(timeout_s, NO_RUN_TIMEOUT_S)
        delivered = shipper is not None and shipper.finish(timeout_s)
    except BaseException as error:  # noqa: BLE001 - signal handlers raise what they like
        # Whoever waits is told not to; what is left is to be said all the same.
        interrupted = error
        if before in (None, spool.last):
            _append_end(spool, status)
        delivered = shipper is not None and shipper.finish(0.0)
    if not delivered and (reason := lacks_run()):
        abandon(spool, spool.last, f"nothing of this process is logged: {reason}")
    elif (
        not delivered
        and shipper is not None
        and (removed := shipper.prospects.removed_run) is not None
    ):
        count = shipper.prospects.unsent
        text = f"{removed} was removed, and with it the last {count} records of this process"
        abandon(spool, count, text)
    elif not delivered and shipper is not None:
        text = shipper.prospects.left_behind
        spool.losses.keep(text)
        # Who ends before its aggregator has had time to take the rest need not say anything.
        if not (is_exiting and shipper.prospects.is_in_hand):
            unsent.say(text, is_exiting=is_exiting)
    spool.close(remove=delivered)
    if shipper is not None:
        shipper.prospects.close()
    if interrupted is not None and not is_exiting:  # otherwise the exit has its status
        raise interrupted
    return delivered


def _append_end(spool: Spool, status: str) -> None:
    spool.append(
        RecordKind.END,
        lambda mono, unix: encode_payload(
            End(clean_text(str(status)), mono, unix, spool.losses.counts, spool.losses.troubles)
        ),
    )
