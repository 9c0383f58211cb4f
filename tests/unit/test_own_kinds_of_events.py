"""Events of a training's own kinds are listed as those that the project knows."""

from __future__ import annotations

import pytest

from unilab_schema.frames import EventFrame
from unilab_schema.identity import SourceKey
from unilab_schema.updates import EventUpdate
from unilab_sidecar.events import note_words
from unilab_sidecar.events.notes import KEPT, Notes
from unilab_sidecar.picture import Note

LEARNER = SourceKey(0, "learner")


def listed(*frames: EventFrame) -> tuple[Note, ...]:
    notes = Notes()
    for frame in frames:
        notes.add(EventUpdate(1, LEARNER, frame))
    return notes.all(None)


def told(kind: str, text: str = "", **data: float | str) -> tuple[str, str]:
    """Its kind and its text, as both stand in the table."""
    (note,) = listed(EventFrame(kind, text, 0, 0, 12, dict(data)))
    assert note.iteration == 12
    named = note_words.kind(note)
    return named, note_words.text(note, named)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (("curriculum", "level 3"), ("curriculum", "level 3")),
        (("terrain_swap", "to stairs"), ("terrain swap", "to stairs")),
        (("curriculum",), ("curriculum", "")),
        (("curriculum level 2 of 5",), ("event", "curriculum level 2 of 5")),
        (("domain randomisation", "on"), ("event", "domain randomisation: on")),
        (("event", "of that name"), ("event", "of that name")),
        (("", "without a kind"), ("event", "without a kind")),
    ],
)
def test_it_is_told_with_its_kind(event: tuple[str, ...], expected: tuple[str, str]) -> None:
    assert told(*event) == expected


def test_facts_stand_in_for_a_text() -> None:
    assert told("curriculum", level=3, terrain="stairs") == (
        "curriculum",
        "level 3, terrain stairs",
    )
    assert told("checkpoint", path="model.pt") == ("checkpoint", "saved")


def test_configuration_files_and_summaries_are_no_lines() -> None:
    quiet = [EventFrame(kind, "x", 0, 0) for kind in ("config", "file", "summary")]
    assert listed(*quiet) == ()


def test_many_of_them_push_nothing_else_out() -> None:
    own = [EventFrame("tick", f"{number}", 0, 0) for number in range(3 * KEPT)]
    notes = listed(EventFrame("checkpoint", "saved", 0, 0), *own, EventFrame("status", "on", 0, 0))
    assert [note.text for note in notes[:2]] == ["saved", str(2 * KEPT)]
    assert notes[-1].text == "on"
    assert len(notes) == KEPT + 2


def test_those_from_before_the_viewer_stand_before_the_others() -> None:
    notes = Notes()
    notes.add(EventUpdate(1, LEARNER, EventFrame("tick", "2", 0, 0)))
    notes.earlier([EventUpdate(1, LEARNER, EventFrame("tick", "1", 0, 0))])
    assert [note.text for note in notes.all(None)] == ["1", "2"]
