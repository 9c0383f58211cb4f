"""What is wrong with a run: in the same words on the screen, whole at every size, and in lines."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec import structs
from sample_run import SampleRun
from screen_text import text

from unilab_schema.alerts import AlertStatus
from unilab_schema.control import BackendStatus, SourceStatus
from unilab_sidecar.alerting.alerts import alerts, missing_ranks
from unilab_sidecar.drawing.flow import flowed, wrapped
from unilab_sidecar.drawing.layout import FRAME_CELLS
from unilab_sidecar.drawing.text import Segment, line_width, plain
from unilab_sidecar.picture import BusFigures, Journal, Note, Picture, Reading
from unilab_sidecar.printed.plain import format_line
from unilab_sidecar.views.overview import layout

SIZES = [(80, 24), (100, 30), (120, 40), (160, 48)]
RUN_DIR = "/data/scratch/experiments/logs/sac/cart_pole_balance/2026-03-09_18-30-00_numpy"
FULL = f"journal: {RUN_DIR}/bus/wal-000001-000000: no room for 512 bytes (No space left on device)"
NO_ROOM = f"{RUN_DIR}: No space left on device"


def sources(run: SampleRun, *states: str, skew_s: float = 0.0) -> tuple[SourceStatus, ...]:
    """Learner and collector of rank 0, then of rank 1."""
    made = run.head(tuple(states)).sources  # type: ignore[arg-type]
    return (*made[:-1], structs.replace(made[-1], clock_skew_s=skew_s))


def dropping(run: SampleRun, drops: dict[str, int]) -> tuple[SourceStatus, ...]:
    made = sources(run, "live", "live", "live", "live")
    return (*made[:-1], structs.replace(made[-1], drops=drops))


def writer(state: str, update: int, said: str = "", age_s: float = 0.1) -> BackendStatus:
    return BackendStatus("tensorboard", state, update, 1, said, age_s)


def troubles(run: SampleRun, training: Picture) -> dict[str, tuple[Picture, list[str]]]:
    """Pictures, and what must be said of each."""
    fine = training
    lost = replace(
        fine,
        sources=sources(run, "live", "live", "lost", "lost"),
        ranks_reported=1,
        missing_ranks=(1,),
        notes=(Note("lost", "learner of rank 1 (pid 48225 on node-a) was killed by SIGKILL", 2.0),),
    )
    silent = replace(fine, sources=sources(run, "live", "live", "live", "silent"))
    skewed = replace(fine, sources=sources(run, "live", "live", "live", "live", skew_s=90.0))
    gone = ("the aggregator (pid 7)", "learner of rank 0 (pid 8)")
    behind = "writer of tensorboard is 4,997 updates and over 60 s behind"
    late = AlertStatus(9, "writer_behind", "writer of tensorboard", behind, "warn", None, 0)
    return {
        "disk": (replace(fine, journal=Journal(9, 9, problem=FULL)), [FULL]),
        "lost": (
            lost,
            [
                "n = 1 of 2 ranks, missing: rank 1",
                "learner of rank 1 (pid 48225 on node-a) was killed by SIGKILL",
                "lost: collector of rank 1",
            ],
        ),
        "silent": (silent, ["silent: collector of rank 1 for 41 s"]),
        "skewed": (skewed, ["clocks differ: collector of rank 1 +90 s"]),
        "dropped": (
            replace(fine, sources=dropping(run, {"spool_unavailable": 1200, "bad_tag": 3})),
            ["1,200 calls without a spool (collector of rank 1)", "3 unusable tag names (collector"],
        ),
        "failed writer": (
            replace(fine, backends=(writer("failed", 3, NO_ROOM),)),
            [f"writer of tensorboard failed: {NO_ROOM}"],
        ),
        "restarting writer": (
            replace(fine, backends=(writer("restarting", 3, "died of signal 9"),)),
            ["writer of tensorboard restarting: died of signal 9"],
        ),
        "silent writer": (
            replace(fine, backends=(writer("running", 3, age_s=12.0),)),
            ["writer of tensorboard silent for 12 s"],
        ),
        "late writer": (
            replace(fine, own_alerts=((late,), 1)),
            ["writer of tensorboard is 4,997 updates and over 60 s behind"],
        ),
        "backlog": (
            replace(fine, bus=BusFigures(Reading(12345.0))),
            ["12,345 frames wait in the spools"],
        ),
        "quarantine": (replace(fine, journal=Journal(quarantined=3)), ["3 frames quarantined"]),
        "no aggregator": (replace(fine, silent_s=math.inf), ["no aggregator"]),
        "silent aggregator": (replace(fine, silent_s=7.0), ["aggregator silent for 7.0 s"]),
        "back": (replace(fine, restarted_s=6.0), ["training, aggregator back for 6 s"]),
        "failed": (
            replace(fine, ended="failed", ended_text="ended without close(): learner of rank 0"),
            ["ended without close(): learner of rank 0"],
        ),
        "cut off": (
            replace(fine, gone=gone, silent_s=math.inf, run_dir=RUN_DIR),
            ["run cut off", "the aggregator (pid 7), learner of rank 0 (pid 8)",
             f"`unilab-metrics recover {RUN_DIR}` completes it"],
        ),
    }  # fmt: skip


NAMES = list(troubles(SampleRun(), Picture()))


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_text_says_what_the_screen_says(name: str, run: tuple[SampleRun, Picture]):
    shown, said = troubles(*run)[name]
    line = format_line(shown)
    if name == "failed":
        # The line that follows says it.
        assert said[0] not in line
    else:
        assert [word for word in said if word not in line] == []
    fine = format_line(run[1])
    assert [word for word in said if word in fine] == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_the_top_of_the_screen_says_it_whole(
    name: str, size: tuple[int, int], run: tuple[SampleRun, Picture]
):
    shown, said = troubles(*run)[name]
    lines = [plain(line) for line in layout(shown, *size).lines[: size[1] - 2]]
    # Where a long word was broken, the line ends behind a slash.
    top = " ".join(lines).replace("/ ", "/")
    assert [word for word in said if word not in top] == []


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        ((1,), "n = 3 of 4 ranks, missing: rank 1"),
        ((1, 3), "n = 2 of 4 ranks, missing: ranks 1, 3"),
        ((), "n = 3 of 4 ranks, missing: unknown"),
    ],
)
def test_who_is_missing_is_no_number_of_ranks(absent: tuple[int, ...], said: str) -> None:
    there = 4 - max(len(absent), 1)
    shown = Picture(ranks_reported=there, ranks_expected=4, missing_ranks=absent)
    assert missing_ranks(shown) == said


def test_a_long_directory_is_named_once(training: Picture):
    full = f"{RUN_DIR}/events.out.tfevents.1.n.unilab: no room for 708 bytes (short write)"
    shown = replace(
        training,
        run_dir_there=RUN_DIR,
        journal=Journal(9, 9, problem=FULL),
        backends=(writer("failed", 3, full),),
    )
    line = format_line(shown)
    assert line.count(RUN_DIR) == 1
    assert FULL in line
    assert "writer of tensorboard failed: events.out.tfevents.1.n.unilab: no room" in line
    alone = format_line(replace(shown, journal=Journal(9, 9)))
    assert full in alone


def test_one_thing_is_not_told_in_the_plural(training: Picture):
    shown = replace(
        training,
        journal=Journal(9, 9, late_values=1, quarantined=1),
        bus=BusFigures(Reading(1.0), bad_messages=1),
    )
    line, screen = format_line(shown), text(shown, 160)
    for words in ("1 frame quarantined", "1 late value", "1 bad message"):
        assert f"{words} " in line + " "
        assert f"{words}s" not in line + screen
    assert "1 frame waits" in screen


@pytest.mark.parametrize(
    ("lagging", "words"),
    [
        (writer("running", 3), ["update 3", "15,733 behind", "running"]),
        (BackendStatus("tensorboard", "starting", 0), ["starting"]),
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_that_a_writer_is_behind_is_said_by_the_run_alone(
    lagging: BackendStatus, words: list[str], size: tuple[int, int], training: Picture
):
    shown = replace(training, journal=Journal(15_736, 15_736), backends=(lagging,))
    assert alerts(shown) == ()
    assert "behind" not in format_line(shown)
    screen = [plain(line) for line in layout(shown, *size).lines]
    row = next(line for line in screen if "tensorboard" in line)
    assert [word for word in words if word not in row] == []
    assert ("behind" in row) is ("15,733 behind" in words), "one that has not told where it is"


def test_a_healthy_run_raises_no_alert(training: Picture):
    assert alerts(training) == ()
    assert "!" not in text(training, 80)


def test_lines_count_what_the_panels_count(training: Picture):
    shown = replace(
        training,
        journal=Journal(9, 9, late_values=22),
        bus=BusFigures(bad_messages=5),
        refused=tuple(f"tag_{n}" for n in range(6)),
        refused_more=3,
    )
    line = format_line(shown)
    assert "22 late values  5 bad messages  refused tag_0, tag_1, tag_2, tag_3 and 5 more" in line


@pytest.mark.parametrize("size", SIZES)
def test_figures_of_the_bus_are_never_cut(size: tuple[int, int], training: Picture):
    bus = BusFigures(Reading(999.0), Reading(12345.0), Reading(1234.0), 123456)
    journal = Journal(1_000_400, 1_000_300, late_values=1234, quarantined=12)
    shown = replace(training, bus=bus, journal=journal, backends=(writer("running", 1_000_390),))
    screen = [plain(line) for line in layout(shown, *size).lines]
    for words in (
        "999 frames wait", "acked in 12,345 ms", "log() 1.23 ms", "123,456 bad messages",
        "update 1,000,400", "100 not on disk yet", "1,234 late", "! 12 quarantined",
        "update 1,000,390", "10 behind", "running",
    ):  # fmt: skip
        assert sum(words in row for row in screen) == 1, words
    assert all(len(row) <= size[0] - FRAME_CELLS for row in screen)


def test_a_run_without_a_learner_is_not_called_a_training(run: tuple[SampleRun, Picture]):
    def said(*states: str) -> str:
        shown = replace(run[1], sources=sources(run[0], *states))
        line, screen = format_line(shown), text(shown, 80).splitlines()[0]
        is_over = "ETA" not in screen
        assert ("eta" not in line) == is_over
        assert screen.startswith("● training") != is_over
        return screen.split("  ")[0]

    assert said("lost", "live", "lost", "live") == "✗ no learner left, 2 processes live on"
    assert said("lost", "live", "finished", "lost") == "✗ no learner left, 1 process lives on"
    assert said("finished", "finished", "lost", "lost") == "✗ no learner left"
    assert (
        said("finished", "live", "finished", "live") == "✓ learners finished, 2 processes live on"
    )
    assert said("silent", "live", "lost", "live") == "○ no learner heard for 41 s"
    assert said("live", "lost", "lost", "lost") == "● training"
    assert said("awaited", "live", "lost", "live") == "● training"


def test_an_event_that_an_alert_tells_is_not_told_twice(run: tuple[SampleRun, Picture]):
    shown, _ = troubles(*run)["lost"]
    top = text(shown, 100).splitlines()[:6]
    assert sum("SIGKILL" in row for row in top) == 1


def test_a_long_event_is_told_to_its_end(training: Picture):
    note = Note("warning", f"the writer of tensorboard failed: {NO_ROOM}; next start in 30 s", 1.0)
    shown = replace(training, notes=(Note("status", "one", 9.0), note))
    screen = text(shown, 80)
    assert "next start in 30 s" in screen
    assert "one" in screen


FAILED = "learner of rank 0 failed: RuntimeError: out of memory"
KILLED = "learner of rank 0 (pid 48211 on node-a) was killed by SIGKILL"


@pytest.mark.parametrize(("width", "event", "age_s", "shown"), [
    (160, FAILED, 0.3, f"{FAILED} (at the end)"),
    (160, FAILED, 3.0, f"{FAILED} (3.0 s before the end)"),
    (80, FAILED, 3.0, FAILED),
    (70, FAILED, 3.0, "RuntimeError: out of memory (learner"),
    (160, KILLED, 0.0, f"{KILLED} (at the end)"),
    (100, KILLED, 0.0, KILLED),
    (70, KILLED, 0.0, "killed by SIGKILL (learner of rank 0"),
])  # fmt: skip
def test_the_cause_is_seen_where_there_is_no_room_for_when_and_who(
    width: int, event: str, age_s: float, shown: str, training: Picture
):
    notes = (Note("status", event, age_s),)
    ended = replace(training, ended="failed", notes=notes, note_reference="end")
    assert shown in text(ended, width).splitlines()[2]


def test_how_long_ago_it_was_stays_while_the_run_goes_on(training: Picture):
    live = replace(training, notes=(Note("status", FAILED, 0.3),))
    assert "RuntimeError: out of memory (" in text(live, 80).splitlines()[2]
    assert "(0.3 s ago)" in text(live, 80).splitlines()[2]


@pytest.mark.parametrize("width", [1, 7, 20, 80])
def test_wrapping_loses_nothing_but_blanks(width: int):
    said = f"! {FULL}  数据 " + "x" * 90
    rows = wrapped(said, width)
    assert "".join(rows).replace(" ", "") == said.replace(" ", "")
    assert all(line_width([Segment(row)]) <= max(width, 2) for row in rows)


def test_flowed_parts_stay_whole_where_they_fit():
    parts = [Segment("one two"), Segment("three"), Segment("four five")]
    assert [plain(row) for row in flowed(Segment("label  "), parts, 21)] == [
        "label  one two  three",
        "       four five",
    ]
    assert [plain(row) for row in flowed(None, parts, 5)] == ["one", "two", "three", "four", "five"]
