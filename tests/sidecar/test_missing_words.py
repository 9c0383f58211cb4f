"""What a line of text says of what the run lacks: once, and no more than a count after that."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs
from sample_run import whole_run

from unilab_sidecar.picture import Picture
from unilab_sidecar.printed.plain import LineTeller, format_line
from unilab_sidecar.series import Series


def picture(drops: dict[str, int], dropped: int | None, refused: tuple[str, ...] = ()) -> Picture:
    series = Series()
    for batch in whole_run(60)[1]:
        series.add(batch)
    made = series.picture()
    first, *others = made.sources
    sources = (structs.replace(first, drops=drops), *others)
    return replace(made, sources=sources, dropped=dropped, refused=refused, ended=None)


def field(line: str, name: str) -> str:
    return next(part for part in line.split("  ") if part.startswith(name))


def test_one_reason_is_told_with_the_count_and_the_names() -> None:
    line = format_line(picture({"bad_value": 9}, 9, ("Loss/a", "Loss/b")))
    told = "dropped 9 values that are no number (learner of rank 0): Loss/a, Loss/b"
    assert field(line, "dropped") == told
    assert line.count("no number") == line.count("Loss/a") == 1


def test_several_reasons_are_told_behind_the_count_of_all() -> None:
    line = format_line(picture({"bad_value": 1, "closed": 2}, 5))
    told = (
        "1 value that is no number (learner of rank 0), 2 calls after close() (learner of rank 0)"
    )
    assert field(line, "dropped") == f"dropped 5: {told}"


def test_a_count_that_nobody_knows_leaves_the_alert_and_the_names() -> None:
    line = format_line(picture({"bad_value": 9}, None, ("Loss/a",)))
    assert field(line, "W dropped") == "W dropped: 9 values that are no number (learner of rank 0)"
    assert field(line, "refused") == "refused Loss/a"


def test_names_without_a_reason_are_told_by_themselves() -> None:
    line = format_line(picture({}, 0, tuple("abcdef")))
    assert (field(line, "dropped"), field(line, "refused")) == (
        "dropped 0",
        "refused a, b, c, d and 2 more",
    )


def test_what_has_been_told_is_not_told_again_until_it_is_another_one() -> None:
    teller = LineTeller(1.0)

    def told(now_s: float, names: tuple[str, ...], count: int) -> str:
        shown = picture({"bad_value": count}, count, names)
        shown = replace(shown, iteration=int(now_s))
        return field(teller.tell(shown, now_s, is_over=False)[0], "dropped")

    assert told(10.0, ("Loss/a",), 9).endswith("no number (learner of rank 0): Loss/a")
    assert told(20.0, ("Loss/a",), 12) == "dropped 12"
    assert told(30.0, ("Loss/a", "Loss/b"), 14) == "dropped 14: Loss/a, Loss/b"
    assert told(40.0, ("Loss/a", "Loss/b"), 15) == "dropped 15"
