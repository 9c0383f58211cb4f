"""Tags that come as points: in the blocks and in a part of the history, live as from files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from long_run import LongRun
from sources_on_paper import MS

from unilab_metrics.aggregate.announcing.serving import Server
from unilab_metrics.aggregate.folding.packed import unpack_values
from unilab_metrics.aggregate.journaling import blocks as blocks_module
from unilab_metrics.aggregate.journaling.point_bins import MOST_TAGS, PointBins
from unilab_metrics.storage.segments import list_segments
from unilab_metrics.subscribe.past_files import PastFiles
from unilab_metrics.subscribe.position import records_in
from unilab_metrics.subscribe.values_before import snapshot_of
from unilab_schema.codec import RecordKind
from unilab_schema.frames import Point, PointsFrame
from unilab_schema.identity import LEARNER, SourceKey
from unilab_schema.requests import Fetch, History
from unilab_schema.updates import BLOCK_ENTRIES, AttemptOpened, BinBlock, EventUpdate, PointsUpdate
from unilab_sidecar.charting.bins import Field
from unilab_sidecar.charting.store import ChartStore
from unilab_sidecar.feeding.past_questions import CourseQuestion

EPISODE = "Episode/return"
STEP = "Eval/return"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LongRun]:
    made = LongRun(tmp_path)
    yield made
    made.stop()


def points(run: LongRun, number: int, *tags: str, value: float = 1.0) -> None:
    at_ns = len(run.values) * MS
    frame = PointsFrame(tuple(Point(tag, value, number, at_ns) for tag in tags))
    run.fold(run.source.batch(frame))


def played(run: LongRun, count: int) -> None:
    """A point every tenth update, and one of another kind every hundredth."""
    for number in range(count // 10):
        run.iterate(10)
        points(run, number, EPISODE, value=float(number))
        if number % 10 == 0:
            points(run, 1000 * number, STEP, STEP + "/std", value=math.nan if number else -1.0)


def told(run: LongRun, *tags: str) -> list[BinBlock]:
    found: list[BinBlock] = []
    after = 0
    while True:
        reply = run.blocks.history(History(1, after, tags))
        found += reply.blocks
        if reply.complete:
            return found
        after = reply.last


@pytest.mark.parametrize("lose", [False, True])
def test_blocks_tell_points_too(run: LongRun, lose: bool) -> None:
    played(run, BLOCK_ENTRIES)
    run.stop()
    if lose:
        for path in list_segments(run.directory, blocks_module.BLOCKS):
            path.unlink()
    run.start()
    (of_episodes,) = told(run, EPISODE)
    assert of_episodes.points
    assert of_episodes.env_steps_range is None
    count = int(unpack_values(of_episodes.count)[0])
    assert 85 < count < 100
    assert of_episodes.iteration_range == (0, count - 1)
    assert unpack_values(of_episodes.maximum)[0] == count - 1
    assert unpack_values(of_episodes.mean)[0] == pytest.approx((count - 1) / 2)
    assert of_episodes.elapsed_s_range[1] == pytest.approx(10 * count * MS / 1e9)
    (others,) = told(run, STEP)
    assert others.tags == (STEP,)
    assert unpack_values(others.count)[0] == 1
    assert unpack_values(others.not_finite)[0] == 9
    # Of values as of a moment points are no part: a live snapshot has none.
    both = told(run)
    snapshot = snapshot_of(both)
    assert snapshot is not None
    assert set(snapshot.tags) == {"a", "b"}


def test_a_stretch_without_updates_has_its_block(run: LongRun) -> None:
    for number in range(BLOCK_ENTRIES):
        points(run, number, EPISODE, value=float(number))
    blocks = told(run, EPISODE)
    assert [(b.first, b.points) for b in blocks] == [(1, True)]


def test_a_course_of_points_is_the_same_from_blocks_as_point_by_point(run: LongRun) -> None:
    played(run, 2 * BLOCK_ENTRIES + 200)
    source = _Files(run.directory)
    tables = []
    for through in (0, source.cursor):
        store = ChartStore(max_bins=100_000)
        store.keep([EPISODE])
        question: CourseQuestion | None = CourseQuestion((EPISODE,), records_through=through)
        while question is not None:
            piece = question.put(source)  # type: ignore[arg-type]
            store.add_piece(piece)  # type: ignore[arg-type]
            question = question.following(piece)  # type: ignore[arg-type]
        tables.append(store.bins(EPISODE))
    brief, single = tables
    assert len(brief) < len(single)
    assert brief[Field.COUNT].sum() == single[Field.COUNT].sum() == len(single)
    for axis in ("iteration", "time"):
        ours, theirs = brief.span(axis), single.span(axis)
        assert ours is not None
        assert theirs is not None
        assert tuple(ours) == pytest.approx(tuple(theirs))
    assert brief[Field.MAXIMUM].max() == single[Field.MAXIMUM].max()


class _Files:
    def __init__(self, directory: Path) -> None:
        past = PastFiles(directory)
        self.cursor = past.last()
        self.stretch = past.stretch
        self.past = past

    def bins(self, tags: tuple[str, ...], after: int) -> object:
        return self.past.bins(tags, after)

    def newest(self) -> int:
        # So long that its beginning is told in brief.
        return 1_000_000


@pytest.fixture(scope="module")
def begun_again(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongRun]:
    """In two segments, only the last of which is in memory too."""
    made = LongRun(tmp_path_factory.mktemp("parts"))
    made.iterate(300)
    made.fold(made.source.event("checkpoint"))
    made.stop()
    made.start()
    played(made, 400)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("tags", "kinds"),
    [
        (("b",), ()),
        ((EPISODE, "a"), ()),
        (("nobody has it",), ()),
        ((), (RecordKind.POINTS_UPDATE,)),
        ((), (RecordKind.EVENT_UPDATE, RecordKind.ATTEMPT_OPENED)),
    ],
)
def test_a_part_is_the_same_live_as_from_files(
    begun_again: LongRun, tags: tuple[str, ...], kinds: tuple[int, ...]
) -> None:
    run = begun_again
    server = Server(run.journal)
    past = PastFiles(run.directory)
    found: list[object] = []
    after = 0
    while after < run.journal.committed_update:
        reply = server.updates(Fetch(1, after, 50, tags, kinds))
        assert reply.last > after
        live = records_in(reply, {}).records
        assert len(live) <= 50
        found += live
        after = reply.last
    offline: list[object] = []
    after = 0
    while (told := past.stretch(after, 50, tags, kinds)).last > after:
        offline += told.records
        after = told.last
    # Nothing equals what is no number.
    assert repr(found) == repr(offline)
    assert after == run.journal.committed_update
    for record in past.stretch(0, 10_000, tags, kinds).records:
        if tags:
            assert set(record.tags) <= set(tags)
            assert len(record.values()) == len(record.tags)
            assert not isinstance(record.entry, EventUpdate)
        elif kinds == (RecordKind.POINTS_UPDATE,):
            assert isinstance(record.entry, PointsUpdate)
        else:
            assert isinstance(record.entry, EventUpdate | AttemptOpened)


def test_who_invents_names_of_points_fills_no_memory() -> None:
    bins = PointBins()
    key = SourceKey(0, LEARNER)
    for number in range(20):
        frame = PointsFrame(tuple(Point(f"a{number}/{n}", 1.0, n, n) for n in range(1000)))
        bins.add(PointsUpdate(1, key, frame), None)
    made = bins.blocks(1, BLOCK_ENTRIES)
    assert sum(len(one.tags) for one in made) == MOST_TAGS
    assert [unpack_values(one.count).tolist() for one in made[:2]] == [
        [1.0] * len(made[0].tags)
    ] * 2
