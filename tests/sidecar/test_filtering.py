"""The filter language: words, !not, /regex/, and patterns that would hang."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_sidecar.filtering import parse_filter, selected
from unilab_sidecar.pattern import Pattern, PatternError

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
        ("/(/", "( without its )"),
        ("/)/", ") without its ("),
        ("/[a/", "[ without its ]"),
        ("/+/", "nothing to repeat"),
        ("/a**/", "one repeat after another"),
        ("/a{3,1}/", "m above n"),
        ("/[z-a]/", "backwards"),
        (r"/\1/", "not known"),
        ("/(?=a)/", "not known"),
        ("/(x{900}){900}/", "too long"),
        ("/x{100000000000000}/", "repeats"),
        ("/" + "(" * 200 + "/", "too many ("),
    ],
)
def test_a_pattern_that_is_none_says_so_and_hides_nothing(text: str, word: str):
    found = parse_filter(text)
    assert word in found.problem
    assert found.select(NAMES) == NAMES
    assert parse_filter("loss " + text).select(NAMES) == NAMES[:2]


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|aa)+b", "((a*)*)*b", "a?" * 40 + "a" * 40 + "b", "(.*)(.*)(.*)(.*)(.*)x"],
)
def test_a_pattern_that_hangs_others_is_answered_at_once(pattern: str):
    started_s = time.monotonic()
    assert not Pattern(pattern).is_in("a" * 2000)
    # With re this takes longer than anybody lives.
    assert time.monotonic() - started_s < 5


def test_twelve_thousand_tags_are_filtered_while_one_types():
    tags = tuple(f"group{number % 97}/metric_{number}_ms" for number in range(12_345))
    started_s = time.monotonic()
    for text in ("m", "me", "metric_77", "/(m|me|met)*_1.*2_ms$/"):
        assert selected(tags, text)
    assert time.monotonic() - started_s < 5


ATOMS = st.sampled_from(
    ["a", "b", "A", "1", "_", " ", ".", r"\d", r"\W", r"\s", "[ab]", "[^b]", "[a-c1]", r"\.", "^",
     "$", r"\b", r"\B", "-"]
)  # fmt: skip


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(
            inner.map(lambda text: f"(?:{text})"), st.sampled_from(["*", "+", "?", "{2}", "{1,3}?"])
        ).map("".join),
    )


@settings(max_examples=120, deadline=None)
@given(st.recursive(ATOMS, combined, max_leaves=8), st.text("abBA1_ .-c", min_size=1, max_size=12))
def test_patterns_mean_what_they_mean_elsewhere(pattern: str, text: str):
    # Words of other scripts apart, which nobody filters by \w.
    theirs = re.compile(pattern.replace("$", r"\Z"), re.IGNORECASE)
    assert Pattern(pattern).is_in(text) == bool(theirs.search(text))


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=30))
def test_whatever_is_typed_is_answered(text: str):
    assert set(selected(NAMES, text)) <= set(NAMES)
    assert set(parse_filter(f"/{text}/").select(NAMES)) <= set(NAMES)
    with contextlib.suppress(PatternError):
        Pattern(text).is_in(text)
