"""Who closes a publisher waits: for whom, for how long, and what it is told meanwhile."""

from __future__ import annotations

import operator
import signal
import threading
import time
import warnings
from collections.abc import Callable
from itertools import dropwhile
from pathlib import Path

import pytest
from closing_publishers import Keeper, warning_of_close
from receiving_end import ReceivingEnd
from spooled import payloads, spooled_publisher

from unilab_metrics.publish import long_wait, prospects, shipper
from unilab_schema.codec import RecordKind
from unilab_schema.control import Reject


def test_what_is_delivered_needs_no_word(tmp_path: Path, short_path: Path) -> None:
    end = ReceivingEnd(short_path)
    publisher = spooled_publisher(tmp_path, find_bus=end.find_bus)
    closing = threading.Thread(target=publisher.close)
    closing.start()
    end.serve(lambda: not closing.is_alive())
    closing.join()
    end.close()


def test_closing_asks_for_the_aggregator_at_once_and_in_a_hurry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "_BEGINNING_NS", 0)
    keeper = Keeper()
    publisher = spooled_publisher(tmp_path, supervise=keeper)
    while not keeper.calls:
        time.sleep(0.01)
    # The next regular call never comes, so those that come are due to the closing. Not from the
    # start: on a machine that has been up for less there would be no first one.
    monkeypatch.setattr(shipper, "_SECOND_NS", 3600 * 10**9)
    warning_of_close(publisher, 1.0)
    calls = [hurry for _, hurry in keeper.calls]
    assert not calls[0]
    hurried = list(dropwhile(operator.not_, calls))
    assert len(hurried) >= 2
    assert all(hurried)


def test_who_starts_no_aggregator_does_not_wait_for_long_when_none_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prospects, "ABANDONED_AFTER_NS", 300_000_000)
    publisher = spooled_publisher(tmp_path, rank=1)
    began_s = time.monotonic()
    warning_of_close(publisher, 20.0)
    assert 0.25 < time.monotonic() - began_s < 5.0
    keeping = spooled_publisher(tmp_path, supervise=Keeper())
    began_s = time.monotonic()
    warning_of_close(keeping, 1.0)
    assert time.monotonic() - began_s > 0.9


def test_who_is_not_taken_in_while_it_closes_does_not_wait_for_long(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prospects, "ABANDONED_AFTER_NS", 300_000_000)
    end = ReceivingEnd(short_path)
    end.reject = Reject("held", "rank 0 has said goodbye", retry_after_s=0.1)
    publisher = spooled_publisher(tmp_path, rank=1, find_bus=end.find_bus)
    end.serve(lambda: len(end.hellos) >= 3)
    texts: list[str] = []
    closing = threading.Thread(target=lambda: texts.append(warning_of_close(publisher, 20.0)))
    closing.start()
    began_s = time.monotonic()
    end.serve(lambda: texts)
    assert 0.25 < time.monotonic() - began_s < 8.0
    closing.join()
    end.close()
    assert "(held: rank 0 has said goodbye)" in texts[0]


def test_while_an_aggregator_answers_it_is_waited_for(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prospects, "ABANDONED_AFTER_NS", 800_000_000)
    end = ReceivingEnd(short_path)
    end.durable_lag = 1
    publisher = spooled_publisher(tmp_path, rank=1, find_bus=end.find_bus)
    end.serve(lambda: end.hellos)
    result: list[bool] = []
    closing = threading.Thread(target=lambda: result.append(publisher.close(20.0)))
    closing.start()
    end.serve_for(1.5)
    assert result == []
    end.durable_lag = 0
    end.serve(lambda: result)
    closing.join()
    end.close()
    assert result == [True]


def test_nothing_follows_the_end_record(tmp_path: Path) -> None:
    publisher = spooled_publisher(tmp_path)
    closing = threading.Thread(target=lambda: warning_of_close(publisher, 0.5))
    closing.start()
    while not publisher._spool.has_end:
        time.sleep(0.005)
    assert publisher.is_closing
    publisher.log({"a": 1.0}, iteration=0)
    publisher.event("warning", "too late")
    closing.join()
    kinds = [kind for _, kind, _ in payloads(Path(publisher.identity.spool_path))]
    assert kinds == [RecordKind.END]
    # The frame and its layout, and the event.
    assert publisher.dropped == {"closed": 3}


def test_where_only_we_could_open_the_run_and_cannot_nobody_is_waited_for(tmp_path: Path) -> None:
    keeper = Keeper("has no run directory: /logs: read-only file system")
    publisher = spooled_publisher(
        tmp_path, supervise=keeper, unopened=lambda: "/logs: read-only file system"
    )
    publisher.log({"a": 1.0}, iteration=0)
    began_s = time.monotonic()
    text = warning_of_close(publisher, 30.0)
    assert time.monotonic() - began_s < 5.0
    assert keeper.calls[-1][1]
    assert "(there is no run directory: /logs: read-only file system)" in text
    assert f"--spool {tmp_path / 'launch'}`" in text


def test_several_threads_that_close_get_the_same_answer(tmp_path: Path, short_path: Path) -> None:
    end = ReceivingEnd(short_path)
    publisher = spooled_publisher(tmp_path, rank=1, find_bus=end.find_bus)
    answers: list[bool] = []
    closing = [
        threading.Thread(target=lambda: answers.append(publisher.close(20.0))) for _ in range(4)
    ]
    for thread in closing:
        thread.start()
    end.serve(lambda: len(answers) == 4)
    for thread in closing:
        thread.join()
    end.close()
    assert answers == [True] * 4


@pytest.mark.parametrize("is_exiting", [True, False])
@pytest.mark.parametrize("raised", [SystemExit(7), LookupError("a handler of the training")])
def test_who_interrupts_the_wait_is_told_what_is_left(
    raised: BaseException,
    is_exiting: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise raised

    wait = long_wait.join

    def interrupted(thread: threading.Thread, timeout_s: float, awaited: Callable[[], str]) -> None:
        # Not before the wait has begun, however long the way there takes.
        if timeout_s:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
        wait(thread, timeout_s, awaited)

    monkeypatch.setattr(long_wait, "join", interrupted)
    before = signal.signal(signal.SIGALRM, interrupt)
    publisher = spooled_publisher(tmp_path, rank=1)
    publisher._is_exiting = is_exiting
    try:
        if is_exiting:
            publisher.close(20.0)
            assert "1 unsent" in capsys.readouterr().err
        else:
            with pytest.warns(RuntimeWarning, match="1 unsent"), pytest.raises(type(raised)):
                publisher.close(20.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert publisher._spool.inactive == "closed"


def test_the_end_of_a_with_block_warns_at_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unilab_metrics.publish.publisher.CLOSE_TIMEOUT_S", 0.0)
    publisher = spooled_publisher(tmp_path, rank=1)
    with pytest.warns(RuntimeWarning, match="1 unsent") as caught, publisher:
        pass
    assert [only.filename for only in caught] == [__file__]


class Terminal:
    """In place of the error output, and a person who looks at it."""

    def __init__(self, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self.text = ""

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


@pytest.mark.parametrize(("is_rank_0", "is_terminal"), [(True, True), (True, False), (False, True)])
def test_rank_0_says_on_a_terminal_what_it_waits_for(
    is_rank_0: bool,
    is_terminal: bool,
    tmp_path: Path,
    short_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_wait, "TELL_AFTER_S", 0.3)
    monkeypatch.setattr(long_wait, "_WORTH_IT_S", 0.1)
    terminal = Terminal(is_terminal)
    monkeypatch.setattr("sys.stderr", terminal)
    end = ReceivingEnd(short_path)
    end.awaited = "tensorboard is at update 3 of 1,237"
    end.durable_lag = 0 if is_rank_0 else 1
    publisher = spooled_publisher(
        tmp_path,
        rank=0 if is_rank_0 else 1,
        find_bus=end.find_bus,
        supervise=Keeper() if is_rank_0 else None,
        wait_for_backends=is_rank_0,
    )
    wait = long_wait.join

    def wait_once_answered(
        thread: threading.Thread, timeout_s: float, awaited: Callable[[], str]
    ) -> None:
        while is_rank_0 and publisher.unsent:
            time.sleep(0.005)
        wait(thread, timeout_s, awaited)

    monkeypatch.setattr(long_wait, "join", wait_once_answered)
    texts: list[str] = []
    closing = threading.Thread(target=lambda: texts.append(warning_of_close(publisher, 0.9)))
    closing.start()
    end.serve(lambda: texts)
    closing.join()
    end.close()
    assert terminal.text == (
        "unilab-metrics: waiting for the end of the run (tensorboard is at update 3 of 1,237), at "
        "most 1 s more; Ctrl+C ends the wait and loses nothing\n"
        if is_rank_0 and is_terminal
        else ""
    )


def test_who_closes_soon_says_nothing_on_the_way(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(is_terminal=True)
    monkeypatch.setattr("sys.stderr", terminal)
    keeper = Keeper()
    publisher = spooled_publisher(tmp_path, supervise=keeper, wait_for_backends=True)
    warning_of_close(publisher, 0.5)
    assert terminal.text == ""


def test_a_thread_whose_time_is_over_while_another_one_closes_is_warned_too(
    tmp_path: Path,
) -> None:
    publisher = spooled_publisher(tmp_path, rank=1, supervise=Keeper())
    publisher.log({"a": 1.0}, iteration=0)
    first = threading.Thread(target=publisher.close, args=(1.0,))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first.start()
        while publisher.unsent < 3:
            time.sleep(0.005)
        assert not publisher.close(0.0)
        assert [warning.filename for warning in caught] == [__file__]
        first.join()
        # Afterwards everybody knows.
        assert not publisher.close(0.0)
    second, of_first = (str(warning.message) for warning in caught)
    assert second.startswith("3 records are not delivered yet: another thread is in close()")
    assert of_first.startswith("3 unsent: ")
