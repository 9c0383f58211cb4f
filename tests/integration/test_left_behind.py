"""A process that ends with records unsent says how many, where, why, and what to do."""

from __future__ import annotations

import errno
import os
import threading
import time
import warnings
from pathlib import Path

import pytest
from closing_publishers import Keeper, warning_of_close
from receiving_end import ReceivingEnd
from spooled import payloads, spooled_publisher

from unilab_metrics.publish import prospects
from unilab_metrics.publish.unsent import Rest, left_behind
from unilab_schema.control import Reject


def test_what_is_unsent_is_named_once(tmp_path: Path) -> None:
    run_dir = tmp_path / "logs" / "a run"
    (run_dir / "bus").mkdir(parents=True)
    publisher = spooled_publisher(tmp_path, find_run=lambda: run_dir)
    publisher.log({"a": 1.0}, iteration=0)
    assert warning_of_close(publisher) == (
        f"3 unsent: these frames wait in {publisher.identity.spool_path} (no aggregator has "
        f"answered); `unilab-metrics recover '{run_dir}'` delivers them"
    )


def test_a_run_that_was_not_found_has_no_name(tmp_path: Path) -> None:
    publisher = spooled_publisher(tmp_path)
    launch = Path(publisher.identity.spool_path).parent
    assert warning_of_close(publisher).endswith(
        "; on rank 0's node `unilab-metrics recover RUN_DIR` delivers them; on another one the "
        "launch's next attempt takes them in, or on rank 0's node "
        f"`unilab-metrics recover RUN_DIR --spool COPY` with a COPY of {launch}"
    )


def test_a_run_on_a_node_whose_files_are_not_seen_here_is_not_named_as_if_it_were_here(
    tmp_path: Path,
) -> None:
    spool, run_dir = tmp_path / "launch" / "spool", Path("/on/rank 0")
    text = left_behind(Rest(3), spool, run_dir, "the cable is cut", is_elsewhere=True)
    assert text == (
        f"3 unsent: these frames wait in {spool} (the cable is cut); the launch's next attempt "
        "takes them in, or on rank 0's node `unilab-metrics recover '/on/rank 0' --spool COPY` "
        f"with a COPY of {spool.parent}"
    )


def test_the_reason_is_what_is_wrong_with_our_aggregator(tmp_path: Path) -> None:
    keeper = Keeper("could not be started: no such interpreter")
    text = warning_of_close(spooled_publisher(tmp_path, supervise=keeper), 0.3)
    assert "(no aggregator: it could not be started: no such interpreter)" in text


def test_a_refusal_is_the_reason(tmp_path: Path, short_path: Path) -> None:
    end = ReceivingEnd(short_path)
    end.reject = Reject("version", "too new", final=True)
    publisher = spooled_publisher(tmp_path, find_bus=end.find_bus)
    end.serve(lambda: end.hellos)
    assert "(version: too new)" in warning_of_close(publisher, 5.0)
    end.close()


def test_where_warnings_are_errors_close_raises_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publisher = spooled_publisher(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not publisher.close(0)
    assert capsys.readouterr().err.startswith("unilab-metrics: 1 unsent: ")


@pytest.mark.parametrize("is_first_start", [True, False])
def test_the_exit_says_it_in_a_line_unless_our_aggregator_is_about_to_come(
    is_first_start: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper = Keeper("" if is_first_start else "died of signal 9")
    publisher = spooled_publisher(tmp_path, supervise=keeper)
    publisher._at_exit()
    errors = capsys.readouterr().err
    assert errors.count("\n") == (0 if is_first_start else 1)
    assert is_first_start or "1 unsent" in errors


def test_a_run_that_nobody_completes_is_named_on_rank_zero(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unilab_metrics.publish.unsent._SILENT_AFTER_S", 0.3)
    end = ReceivingEnd(short_path)
    publisher = spooled_publisher(
        tmp_path, find_bus=end.find_bus, supervise=Keeper(), wait_for_backends=True
    )
    # What connecting takes is no part of the time to close.
    end.serve(lambda: end.hellos)
    texts: list[str] = []
    closing = threading.Thread(target=lambda: texts.append(warning_of_close(publisher, 1.0)))
    closing.start()
    end.serve(lambda: end.cursor == 1)
    end.mute = True
    end.serve(lambda: texts)
    closing.join()
    end.close()
    assert "not complete in every backend (the aggregator has been silent for" in texts[0]


def test_backends_that_are_behind_are_named_with_where_everything_is(
    tmp_path: Path, short_path: Path
) -> None:
    end = ReceivingEnd(short_path)
    end.awaited = "tensorboard is at update 3 of 5"
    run_dir = tmp_path / "run"
    publisher = spooled_publisher(
        tmp_path,
        find_bus=end.find_bus,
        find_run=lambda: run_dir,
        supervise=Keeper(),
        wait_for_backends=True,
    )
    # What connecting takes is no part of the time to close.
    end.serve(lambda: end.hellos)
    texts: list[str] = []
    closing = threading.Thread(target=lambda: texts.append(warning_of_close(publisher, 1.0)))
    closing.start()
    end.serve(lambda: texts)
    closing.join()
    end.close()
    assert texts[0] == (
        "the run is not complete in every backend yet (tensorboard is at update 3 of 5): "
        f"everything of this process is in the journal of {run_dir}, its aggregator goes on with "
        f"it; if that ends before, `unilab-metrics recover {run_dir}` completes it"
    )


def test_frames_that_the_disk_has_not_confirmed_are_counted(
    tmp_path: Path, short_path: Path
) -> None:
    end = ReceivingEnd(short_path)
    end.durable_lag = 1
    publisher = spooled_publisher(tmp_path, rank=1, find_bus=end.find_bus)
    # What connecting takes is no part of the time to close.
    end.serve(lambda: end.hellos)
    texts: list[str] = []
    closing = threading.Thread(target=lambda: texts.append(warning_of_close(publisher, 1.0)))
    closing.start()
    end.serve(lambda: texts)
    closing.join()
    end.close()
    assert texts[0].startswith("1 unsynced: ")
    assert publisher.identity.spool_path in texts[0]


def test_a_run_that_was_removed_takes_its_spool_along(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    keeper = Keeper("could not be started")
    publisher = spooled_publisher(tmp_path, supervise=keeper, find_run=lambda: run_dir)
    while not keeper.calls:
        time.sleep(0.01)
    run_dir.rmdir()
    publisher.log({"a": 1.0}, iteration=0)
    began_s = time.monotonic()
    text = warning_of_close(publisher, 30.0)
    assert time.monotonic() - began_s < 5.0
    assert text == f"{run_dir} was removed, and with it the last 3 records of this process"
    assert publisher.dropped == {"no_run": 3}
    assert not (tmp_path / "launch").exists()


def test_a_run_that_was_moved_can_still_be_completed(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    keeper = Keeper("could not be started")
    publisher = spooled_publisher(tmp_path, supervise=keeper, find_run=lambda: run_dir)
    while not keeper.calls:
        time.sleep(0.01)
    run_dir.rename(tmp_path / "archive")
    assert "1 unsent: these frames wait in " in warning_of_close(publisher, 0.5)
    assert [kind for _, kind, _ in payloads(Path(publisher.identity.spool_path))]


def test_a_process_without_descriptors_says_that_it_could_not_connect(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(prospects, "ABANDONED_AFTER_NS", 300_000_000)
    monkeypatch.setattr("unilab_metrics.publish.connection._check_descriptors", refuse)
    end = ReceivingEnd(short_path)
    publisher = spooled_publisher(tmp_path, find_bus=end.find_bus, supervise=Keeper())
    began_s = time.monotonic()
    text = warning_of_close(publisher, 20.0)
    end.close()
    assert time.monotonic() - began_s < 5.0
    assert "(this process cannot connect: Too many open files)" in text


def test_an_exit_says_nothing_of_a_run_that_is_about_to_end(
    tmp_path: Path, short_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = ReceivingEnd(short_path)
    publisher = spooled_publisher(
        tmp_path, find_bus=end.find_bus, supervise=Keeper(), wait_for_backends=True
    )
    publisher._is_exiting = True
    closing = threading.Thread(target=publisher.close, args=(0.5,))
    closing.start()
    end.serve(lambda: not closing.is_alive())
    closing.join()
    end.close()
    assert capsys.readouterr().err == ""


NO_ROOM = f"/run/bus/wal-1: no room for 512 bytes ({os.strerror(errno.ENOSPC)})"
QUOTA = f"/run/bus/wal-1: {os.strerror(errno.EDQUOT)}"
LIMIT = "/run/bus/wal-1: the process may write no larger file (file-size limit, ulimit -f)"


@pytest.mark.parametrize(
    ("why", "first", "once"),
    [
        (NO_ROOM, "make room there, then ", ", once there is room"),
        (QUOTA, "make room there, then ", ", once there is room"),
        (LIMIT, "raise that limit, then ", ", once that limit is raised"),
        ("the aggregator has been silent for 9 s", "", ""),
    ],
)
def test_where_there_is_no_room_that_comes_first(
    why: str, first: str, once: str, tmp_path: Path
) -> None:
    spool, run_dir = tmp_path / "launch" / "spool", Path("/run")
    recover = "`unilab-metrics recover /run`"
    assert left_behind(Rest(3), spool, run_dir, why).endswith(f"; {first}{recover} delivers them")
    assert left_behind(Rest(0), spool, run_dir, why).endswith(f"; {first}{recover} completes it")
    assert left_behind(Rest(0, 2), spool, run_dir, why).endswith(f"{recover} completes that{once}")
    text = left_behind(Rest(0, 0, why), spool, run_dir, "")
    assert text.endswith(f"{recover} ends the run{once}")


@pytest.mark.parametrize("final", [True, False])
def test_who_is_not_understood_is_not_promised_that_recover_helps(
    final: bool, tmp_path: Path, short_path: Path
) -> None:
    end = ReceivingEnd(short_path)
    end.reject = Reject("bad_message", "hello: Invalid enum value 'global_step'", final=final)
    publisher = spooled_publisher(tmp_path, find_bus=end.find_bus)
    end.serve(lambda: end.hellos)
    text = warning_of_close(publisher, 0.5)
    end.close()
    assert "(bad_message: hello: Invalid enum value 'global_step')" in text
    assert "recover" not in text
    assert "see whether the run has one version everywhere" in text
