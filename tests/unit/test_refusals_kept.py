"""``publisher.errors`` names what was refused, once per thing, and keeps room for the rest."""

from __future__ import annotations

from unilab_metrics.publish import losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.refusals import Refusals


def test_each_refused_tag_is_named_once_and_there_are_few() -> None:
    counted, told = Losses(), list[str]()
    refusals = Refusals(counted, lambda _kind, text, _iteration, _data: told.append(text))
    for tag in ("x/str", "x/none", "x/str"):
        refusals.refuse(losses.BAD_VALUE, tag, "a str is no number")
    assert list(counted.errors) == ["x/str: a str is no number", "x/none: a str is no number"]
    assert told == list(counted.errors)
    counted.keep("the journal is full")
    for number in range(100):
        refusals.refuse(losses.BAD_VALUE, f"y/{number}", "a str is no number")
    assert len(counted.errors) == 9
    assert "the journal is full" in counted.errors
    assert counted.counts == {losses.BAD_VALUE: 103}


def test_what_is_only_said_is_no_error() -> None:
    counted = Losses()
    Refusals(counted, lambda *_: None).refuse("", "tag", "is not registered")
    assert not counted.errors
