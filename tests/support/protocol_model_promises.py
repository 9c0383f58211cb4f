"""What must be true of a run of the protocol model, whatever happened to it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from protocol_model_source import REPEATED, ModelSource
from protocol_model_writer import ModelWriter

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.subscribe.history import HistoryReader, HistoryRecord
from unilab_schema.updates import EventUpdate, Supplement, Update

if TYPE_CHECKING:
    from protocol_model_aggregator import ModelAggregator, Told

AGAIN = " again"


def check_told(told: dict[bytes, Told], state: AggregatorState) -> None:
    """What a source has been told is in the journal of the next life."""
    for incarnation, promise in told.items():
        source = state.source_of(incarnation)
        cursor = -1 if source is None else source.cursor
        assert cursor >= promise.cursor, "an acknowledged record is not in the journal"


def check_promises(
    sources: list[ModelSource],
    aggregator: ModelAggregator | None,
    writer: ModelWriter,
    root: Path,
) -> None:
    assert aggregator is not None
    history = _history(root)
    _each_iteration_once(history)
    found = _found(history)
    for model in sources:
        source = aggregator.state.source_of(model.identity.incarnation)
        if source is not None:
            is_replaced = source.attempt < aggregator.state.data.attempt
            _each_frame_once(model, source, found.pop(model.number, []), is_replaced=is_replaced)
        else:
            assert not model.truth, "an incarnation was never taken in"
    assert not found, "frames of nobody"
    _each_entry_written_once(history, writer)


def _history(root: Path) -> list[HistoryRecord]:
    with HistoryReader(root) as reader:
        records = reader.poll(1_000_000)
        assert (reader.damaged, reader.lost_entries) == (0, 0)
    assert [r.sequence for r in records] == list(range(1, len(records) + 1))
    return records


def _each_iteration_once(history: list[HistoryRecord]) -> None:
    sealed = Counter(
        (r.entry.attempt, r.entry.iteration) for r in history if isinstance(r.entry, Update)
    )
    assert not [key for key, count in sealed.items() if count > 1], "an iteration sealed twice"


def _found(history: list[HistoryRecord]) -> dict[int, list[str]]:
    """What the history holds of each source, in its order."""
    found: dict[int, list[str]] = {}
    places: set[tuple[int, int, str]] = set()
    for record in history:
        entry = record.entry
        if isinstance(entry, Update | Supplement):
            for tag, value in zip(record.tags, record.values().tolist(), strict=True):
                if tag.startswith("v"):
                    assert value in (entry.iteration, entry.iteration + REPEATED)
                    place = (entry.attempt, entry.iteration, tag)
                    assert place not in places, f"{place} was replaced, or is there twice"
                    places.add(place)
                    again = "" if value == entry.iteration else AGAIN
                    found.setdefault(int(tag[1:]), []).append(f"v{entry.iteration}{again}")
        elif isinstance(entry, EventUpdate) and entry.frame.text.startswith("e"):
            number = int(entry.frame.text[1:].split(":")[0])
            found.setdefault(number, []).append(entry.frame.text)
    return found


def _each_frame_once(
    model: ModelSource, source: SourceState, found: list[str], *, is_replaced: bool
) -> None:
    for what in [what for what in found if what.endswith(AGAIN)]:
        found.remove(what)
        first = what.removesuffix(AGAIN)
        # The next attempt has an iteration of that number too.
        is_elsewhere = first in found
        is_unread = model.is_damaged(int(first[1:]))
        assert is_elsewhere or is_unread, f"a value that came too late stands for {first}"
    counts = Counter(found)
    twice = [what for what, count in counts.items() if count > 1]
    assert not twice, f"twice in the history: {twice}"
    missing = {n for n, what in model.truth.items() if what not in counts}
    assert len(counts) + len(missing) == len(model.truth), "the history holds what nobody logged"
    whole = missing - model.damaged
    # Its attempt was followed by another one, or its place taken: in the journal, named,
    # counted as late.
    late = source.late_values if is_replaced else 0
    assert len(whole) <= late, f"lost without damage: {sorted(whole)}"
    missing -= whole
    silent = model.damaged - set(model.truth)
    lost = source.lost_frames
    # Damage may also come after the record was taken.
    told = lost + late - len(whole)
    assert len(missing) <= told, f"{len(missing)} lost, told {lost}"
    assert lost <= len(missing) + len(silent), f"{len(missing)} lost, told {lost}"
    assert source.quarantined == 0
    assert source.cursor >= model.last, "a source's last records are not in the journal"
    events = [what for what in found if what.startswith("e")]
    assert events == [what for what in model.truth.values() if what in set(events)], "out of order"


def _each_entry_written_once(history: list[HistoryRecord], writer: ModelWriter) -> None:
    written = [(sequence, data) for sequence, data in writer.output if data is not None]
    expected = [(r.sequence, msgspec.msgpack.encode(r.entry)) for r in history]
    assert [n for n, _ in written] == [n for n, _ in expected], "not each update once"
    assert written == expected, "the backend holds another run than the history"
