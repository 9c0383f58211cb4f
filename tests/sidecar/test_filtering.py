"""The filter language: words, !not, /regex/, and patterns that would hang."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_sidecar.groups.filtering import parse_filter, selected
from unilab_sidecar.groups.pattern import Pattern, PatternError

NAMES = ("Loss/critic", "Loss/actor", "Perf/total_fps", "Perf/learner_wait_ms", "[/x] 中文", "a b")


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", [0, 1, 2, 3, 4, 5]),
        ("loss", [0, 1]),
        ("LOSS crit", [0]),
        ("!loss !perf", [4, 5]),
        ("perf !ms", [2]),
        ("loss/critic", [0]),
        ("/_ms$/", [3]),
        ("!/^loss/", [2, 3, 4, 5]),
        ("/a b/", [5]),
        ("/total|critic/ !perf", [0]),
        (r"/^loss\/c/", [0]),
        ("/_m", [3]),
        ("/^PERF/", [2, 3]),
        ("中", [4]),
        ("[/x]", [4]),
        ("!", [0, 1, 2, 3, 4, 5]),
        ("//", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_a_filter_lets_through(text: str, places: list[int]):
    found = parse_filter(text)
    assert found.problem == ""
    assert selected(NAMES, text) == tuple(NAMES[place] for place in places)
    assert tuple(name for name in NAMES if found.passes(name)) == selected(NAMES, text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/(/", "missing )"),
        ("/)/", "unbalanced parenthesis"),
        ("/[a/", "unterminated character set"),
        ("/+/", "nothing to repeat"),
        ("/[z-a]/", "bad character range"),
        (r"/\1/", "invalid group reference"),
        ("/(x{900}){900}/", "too many repeats"),
        ("/x{100000000000000}/", "too many repeats"),
        ("/" + "(" * 200 + "/", "missing )"),
    ],
)
def test_a_pattern_that_is_none_says_so_and_hides_nothing(text: str, word: str):
    found = parse_filter(text)
    assert word in found.problem
    assert found.select(NAMES) == NAMES
    assert parse_filter("loss " + text).select(NAMES) == NAMES[:2]


@pytest.mark.parametrize("sign", ["", "!"])
@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b"])
def test_a_pattern_that_would_hang_is_left_out_with_a_word(pattern: str, sign: str):
    names = ("a" * 2000, *NAMES)
    text = f"{sign}/{pattern}/"
    parse_filter.cache_clear()
    # With re this takes longer than anybody lives.
    assert selected(names, text) == names
    assert parse_filter(text).problem == "the pattern takes too long"


def test_twelve_thousand_tags_are_filtered_while_one_types():
    tags = tuple(f"group{number % 97}/metric_{number}_ms" for number in range(12_345))
    started_s = time.monotonic()
    for text in ("m", "me", "metric_77", "/(m|me|met)*_1.*2_ms$/"):
        assert selected(tags, text)
    assert time.monotonic() - started_s < 5


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=30))
def test_whatever_is_typed_is_answered(text: str):
    assert set(selected(NAMES, text)) <= set(NAMES)
    assert set(parse_filter(f"/{text}/").select(NAMES)) <= set(NAMES)
    with contextlib.suppress(PatternError):
        Pattern(text).is_in(text)
