"""What is looked at before a screen is taken: whether there is a history at all, and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from long_history import LongHistory

from unilab_metrics.subscribe.replay import Replay
from unilab_metrics.subscribe.segment_chain import has_entries
from unilab_schema.updates import AttemptOpened, Update


@pytest.fixture
def made(tmp_path: Path) -> LongHistory:
    made = LongHistory(tmp_path / "run", segment_bytes=60_000)
    made.updates(1500)
    made.end()
    made.write()
    return made


def test_one_readable_entry_is_a_history(made: LongHistory) -> None:
    assert has_entries(made.bus_dir)
    segments = sorted(made.bus_dir.glob("history-*"))
    assert len(segments) > 2
    for path in segments[1:]:
        path.write_bytes(path.read_bytes()[:100])
    assert has_entries(made.bus_dir)


def test_bytes_that_nobody_can_read_are_none(made: LongHistory, tmp_path: Path) -> None:
    assert not has_entries(tmp_path / "elsewhere")
    for path in made.bus_dir.glob("history-*"):
        path.write_bytes(b"\0" * 1000)
    assert not has_entries(made.bus_dir)


def test_what_waits_for_the_screen_loads_no_arrays() -> None:
    code = (
        "import sys, unilab_metrics.cli.root, unilab_metrics.cli.replay, unilab_metrics.cli.watch;"
        "import unilab_metrics.run.launching.guard, unilab_metrics.run.launching.view;"
        "import unilab_metrics.subscribe.segment_chain, unilab_metrics.subscribe.ssh.target;"
        "import unilab_metrics.transport.registry;"
        "print({'numpy', 'zmq', 'textual', 'rich', 'asyncio', 'psutil'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()", done.stderr


def test_a_replay_begins_with_the_first_update(made: LongHistory) -> None:
    replay = Replay(made.run_dir, speed=0.1)
    records = replay.poll(0)
    assert isinstance(records[0].entry, AttemptOpened)
    assert isinstance(records[-1].entry, Update)
    assert records[-1].entry.iteration == 1
    # The next one lies 0.1 s of the run later, a second of ours.
    assert replay.poll(0) == []


def test_a_replay_that_stands_still_hands_over_nothing_beyond(made: LongHistory) -> None:
    replay = Replay(made.run_dir, iteration=700, is_still=True)
    entry = replay.poll(0)[-1].entry
    assert isinstance(entry, Update)
    assert entry.iteration == 700
