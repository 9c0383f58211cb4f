"""Key sets become layouts; what is too large is split, and what is too varied is numbered."""

from __future__ import annotations

import struct

import msgspec

from unilab_metrics.publish.layouts import MAX_TAGS, KeySets
from unilab_schema.codec import MAX_FRAME_TAGS, MAX_LAYOUTS, encode_payload
from unilab_schema.frames import Layout, TagNames


class Announcements:
    def __init__(self) -> None:
        self.made: list[msgspec.Struct] = []
        self.room = True

    def __call__(self, payload: msgspec.Struct) -> bool:
        encode_payload(payload)
        if self.room:
            self.made.append(payload)
        return self.room


def key_sets() -> tuple[KeySets, Announcements]:
    announcements = Announcements()
    return KeySets(announcements), announcements


def test_a_key_set_is_announced_once() -> None:
    sets, announced = key_sets()
    parts = sets.parts(("a", "b"))
    assert parts is not None
    assert [part[:4] for part in parts] == [(0, 2, 0, b"")]
    assert parts[0].pack(1.0, True) == struct.pack("<2d", 1.0, 1.0)
    assert sets.parts(("a", "b")) is parts
    assert announced.made == [Layout(0, ("a", "b"))]
    other = sets.parts(("b", "a"))
    assert other is not None
    assert other[0].layout == 1


def test_a_refused_announcement_is_tried_again_with_the_same_number() -> None:
    sets, announced = key_sets()
    announced.room = False
    assert sets.parts(("a",)) is None
    assert sets.parts(("a",)) is None
    announced.room = True
    parts = sets.parts(("a",))
    assert parts is not None
    assert parts[0].layout == 0
    assert announced.made == [Layout(0, ("a",))]


def test_an_empty_key_set_still_makes_a_frame() -> None:
    sets, announced = key_sets()
    parts = sets.parts(())
    assert parts is not None
    assert [part[:4] for part in parts] == [(0, 0, 0, b"")]
    assert parts[0].pack() == b""
    assert announced.made == [Layout(0, ())]


def test_12345_tags_are_split_into_frames() -> None:
    sets, announced = key_sets()
    tags = tuple(f"family/member_{n}" for n in range(12_345))
    parts = sets.parts(tags)
    assert parts is not None
    assert [part.stop - part.start for part in parts] == [4096, 4096, 4096, 57]
    assert [tags[part.start : part.stop] for part in parts] == [
        layout.tags for layout in announced.made if isinstance(layout, Layout)
    ]


def test_a_layout_with_long_names_is_announced_in_parts() -> None:
    sets, announced = key_sets()
    tags = tuple(f"{n:04d}" + "é" * 240 for n in range(MAX_FRAME_TAGS))
    assert sets.parts(tags) is not None
    layouts = [payload for payload in announced.made if isinstance(payload, Layout)]
    assert len(layouts) > 10
    assert {layout.layout for layout in layouts} == {0}
    assert [layout.part for layout in layouts] == list(range(len(layouts)))
    assert {layout.parts for layout in layouts} == {len(layouts)}
    assert tuple(tag for layout in layouts for tag in layout.tags) == tags


def test_beyond_64_layouts_frames_carry_tag_numbers() -> None:
    sets, announced = key_sets()
    for number in range(MAX_LAYOUTS):
        sets.parts((f"t{number}",))
    announced.made.clear()
    first = sets.parts(("x", "y"))
    second = sets.parts(("y", "z", "t0"))
    assert first is not None
    assert second is not None
    assert first[0][:4] == (0, 2, -1, struct.pack("<2I", 0, 1))
    assert second[0].numbers == struct.pack("<3I", 1, 2, 3)
    assert announced.made == [TagNames(0, ("x", "y")), TagNames(2, ("z", "t0"))]
    known = sets.parts(("t5",))
    assert known is not None
    assert known[0].layout == 5


def test_what_is_forgotten_is_not_announced_again() -> None:
    sets, announced = key_sets()
    for number in range(3000):
        sets.parts((f"t{number % 1500}",))
    layouts = [payload for payload in announced.made if isinstance(payload, Layout)]
    assert [layout.layout for layout in layouts] == list(range(MAX_LAYOUTS))
    names = [
        tag for payload in announced.made if isinstance(payload, TagNames) for tag in payload.tags
    ]
    assert len(names) == len(set(names)) == 1500 - MAX_LAYOUTS


def test_names_run_out() -> None:
    sets, _ = key_sets()
    for number in range(MAX_LAYOUTS):
        sets.parts((f"t{number}",))
    many = tuple(f"n{n}" for n in range(MAX_TAGS - 1))
    assert sets.nameless(many) == set()
    sets.parts(many)
    assert sets.nameless(("n0", "new1", "new2", "new3")) == {"new2", "new3"}
