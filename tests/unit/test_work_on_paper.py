"""Who is at work on another machine, by reports on paper: one fact after the other."""

from __future__ import annotations

import pytest

from unilab_metrics.storage.records import encode_record
from unilab_metrics.subscribe.ssh.report import Holder, Report, Spool
from unilab_metrics.subscribe.ssh.work import places, who_is_gone
from unilab_schema.codec import RecordKind, encode_payload
from unilab_schema.identity import LEARNER, Identity, SourceKey

S = 1_000_000_000
NOW_S, UP_S = 2_000_000, 5_000
ALL_PIDS, CONTAINER = "pid:[4026531836]", "pid:[77]"
BEGAN_UP_S = 1_000
"""Of the learner, by the clock of its machine."""
ANOTHER, ITSELF = 2_000, 1_000


def identity(**changed: object) -> bytes:
    """As it begins a spool of a learner on this machine."""
    unix_s = NOW_S - UP_S + BEGAN_UP_S
    facts = {
        "key": SourceKey(0, LEARNER), "incarnation": b"i" * 16, "pid": 42, "host": "box",
        "boot_id": "b", "spool_path": "/s", "lease_path": "/s/lease",
        "started_mono_ns": BEGAN_UP_S * S, "started_unix_ns": unix_s * S, "pid_space": 4026531836,
    }  # fmt: skip
    made = Identity(**(facts | changed))  # type: ignore[arg-type]
    return encode_record(RecordKind.IDENTITY, 0, encode_payload(made))


def running(began_up_s: float, state: str = "S") -> str:
    """What the system says of a process that began then."""
    fields = ["0"] * 40
    fields[0], fields[19] = state, str(round(began_up_s * 100))
    return f"42 (python) {' '.join(fields)}"


def is_gone(
    holder: Holder, told: bytes | None = None, *, pids: str = ALL_PIDS, later_s: float = 0.0
) -> bool:
    """``later_s``: how much the wall clock was set since."""
    spool = Spool(holder, identity() if told is None else told)
    clock = f"{NOW_S + later_s} {UP_S}"
    report = Report(
        "b", "box", is_work=True, spools=(spool,), has_journal=True, pids=pids, clock=clock
    )
    return who_is_gone(report, None) is not None


def test_who_holds_its_lock_or_has_its_pid_is_at_work() -> None:
    assert not is_gone(Holder("held"))
    assert not is_gone(Holder("free", running(ITSELF)))
    assert is_gone(Holder("free"))
    assert is_gone(Holder("unknown"))
    assert is_gone(Holder("free", running(ITSELF, "Z")))


@pytest.mark.parametrize(
    ("began_up_s", "is_other"),
    [(ITSELF + 60.5, True), (ITSELF + 59.5, False), (ITSELF + 0.5, False)],
)
def test_a_process_that_began_a_minute_later_is_another(began_up_s: float, is_other: bool) -> None:
    assert is_gone(Holder("free", running(began_up_s))) is is_other


def test_both_clocks_have_to_say_that_it_is_another() -> None:
    # The wall clock was set forward since, and the machine's own says that it is the same one.
    assert not is_gone(Holder("free", running(ITSELF + 0.9)), later_s=3600.0)
    assert is_gone(Holder("free", running(ITSELF + 1.1)), later_s=3600.0)
    # It was set back since: by the wall clock nothing is later.
    assert not is_gone(Holder("free", running(ANOTHER)), later_s=-3600.0)


def test_whose_spool_does_not_tell_who_it_is_is_gone_if_nobody_has_its_pid() -> None:
    assert not is_gone(Holder("free", running(ANOTHER)), b"")
    assert is_gone(Holder("free"), b"")


def test_of_another_boot_nobody_is_left() -> None:
    assert is_gone(Holder("free", running(ITSELF)), identity(boot_id="before"))


@pytest.mark.parametrize(
    ("pids", "space", "gone"),
    [
        (ALL_PIDS, 77, True), (CONTAINER, 77, True), (CONTAINER, 4026531836, False),
        ("", 77, False), ("nonsense", 77, False),
    ],
)  # fmt: skip
def test_of_another_container_only_who_sees_all_can_tell(pids: str, space: int, gone: bool) -> None:
    # Its pid means somebody else here.
    holder = Holder("free", running(ITSELF)) if space == 77 and pids == ALL_PIDS else Holder("free")
    assert is_gone(holder, identity(pid_space=space), pids=pids) is gone


@pytest.mark.parametrize(("host", "gone"), [("box", True), ("node7", False)])
def test_without_names_of_containers_the_hosts_name_tells(host: str, gone: bool) -> None:
    assert is_gone(Holder("free"), identity(pid_space=0, host=host)) is gone


def test_a_run_of_which_only_the_journal_is_there_was_here() -> None:
    assert who_is_gone(Report("b", "box", is_work=True, has_journal=True), None) == ()
    assert who_is_gone(Report("b", "box", is_work=True), None) is None


def test_the_places_of_spools_are_few_and_whole_paths() -> None:
    told = b'{"spools": ["relative", "/a", %s]}' % b", ".join(b'"/s%d"' % n for n in range(99))
    found = places(told) or ()
    assert found[:2] == ("/a", "/s0")
    assert len(found) == 64
