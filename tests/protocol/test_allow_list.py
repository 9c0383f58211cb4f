"""What the lines of an allow-list grant, and that nonsense grants nothing."""

from __future__ import annotations

import pytest

from unilab_metrics.transport import allow_list
from unilab_metrics.transport.allow_list import WATCH

KEY = "x" * 40


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        (f"publish {KEY}", {0: True, 99: True}),
        (f"publish {KEY} ranks=0,4-7 node", {0: True, 3: False, 4: True, 7: True, 8: False}),
        (f"  publish   {KEY}\tranks=3", {3: True, 0: False}),
        (f"watch {KEY} me", {0: False}),
    ],
)
def test_a_line_of_the_list_grants(line: str, ranks: dict[int, bool]):
    found = allow_list.parse(f"# comment\n\n{line}\n")
    assert found.problems == ()
    assert {rank: found.grants[KEY].covers(rank) for rank in ranks} == ranks


@pytest.mark.parametrize(
    "line",
    [
        "publish",
        f"admin {KEY}",
        f"publish {KEY[:-1]}",
        f"publish {KEY}x",
        f"publish {KEY} ranks=",
        f"publish {KEY} ranks=1-",
        f"publish {KEY} ranks=-1",
        f"publish {KEY} ranks=1,,2",
        f"publish {KEY} ranks=7-4",
        f"publish {KEY} ranks=\uff19",
        f"watch {KEY} ranks=1",
        KEY,
        "\x00\x01",
    ],
)
def test_a_line_that_makes_no_sense_grants_nothing_and_is_named(line: str):
    found = allow_list.parse(f"watch {'y' * 40}\n{line}\n")
    assert set(found.grants) == {"y" * 40}
    assert found.problems
    assert found.problems[0].startswith("line 2: ")


def test_of_two_lines_for_one_key_the_first_counts():
    found = allow_list.parse(f"watch {KEY}\npublish {KEY}\n")
    assert found.grants[KEY].use == WATCH
    assert "twice" in found.problems[0]
