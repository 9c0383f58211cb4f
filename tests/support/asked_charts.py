"""Charts whose past is asked of a run's files, as the feed does it, but at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from long_history import LongHistory

from unilab_metrics.subscribe.past_files import PastFiles
from unilab_sidecar.charting.detail import Window
from unilab_sidecar.charting.keeping import ChartKeeping
from unilab_sidecar.charting.store import HistoryPiece
from unilab_sidecar.feeding.past_questions import CourseQuestion


class FileSource:
    """What a question of the past is put to."""

    def __init__(self, bus_dir: Path) -> None:
        self.past = PastFiles(bus_dir)
        self.cursor: int | None = self.past.last()
        self.bins, self.stretch = self.past.bins, self.past.stretch

    def newest(self) -> int:
        return self.cursor or 0


def long_run(run_dir: Path, count: int, value: Callable[[int], float]) -> FileSource:
    """``value``: of every tag at an iteration."""
    made = LongHistory(run_dir)
    made.value = lambda tag, k: value(k)  # type: ignore[method-assign]
    made.updates(count)
    made.write()
    return FileSource(made.bus_dir)


def chart_of(tag: str, source: FileSource) -> ChartKeeping:
    """With all of its history as it is told in brief."""
    keeping = ChartKeeping(lambda _tags: ())
    keeping.choose((tag,))
    asked: CourseQuestion | None = keeping.question()
    assert asked is not None
    question: CourseQuestion | None = asked
    while question is not None:
        piece = question.put(source)
        assert isinstance(piece, HistoryPiece)
        keeping.answer(asked, piece)
        question = question.following(piece)
    keeping._seen = source.newest()
    return keeping


def ask_detail(keeping: ChartKeeping, source: FileSource, window: Window) -> Iterator[HistoryPiece]:
    """What is told of a window until all of it is there, piece by piece."""
    asked = question = keeping.detail_question(window)
    while question is not None:
        piece = question.put(source)
        assert isinstance(piece, HistoryPiece)
        assert asked is not None
        yield piece
        keeping.detail_answer(asked, piece)
        question = question.following(piece)
    assert keeping.detail_question(window) is None
