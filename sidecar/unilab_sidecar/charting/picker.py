"""Choosing tags out of thousands: what is typed, what is marked, what is chosen. Pure.

Typing filters at once (words, ``!not``, ``/regex/``). ``↓`` goes into the list, where ``Space``
chooses and ``Enter`` is done; without a ``Space`` before it, ``Enter`` takes the marked tag as
well, so that a few letters and ``Enter`` show a chart. ``Esc`` clears what is typed, then leaves
everything as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from unilab_sidecar.drawing.text import (
    Block,
    Line,
    Segment,
    clean,
    clip,
    cut,
    fit,
    line,
    width_of,
)
from unilab_sidecar.groups.filtering import MAX_TEXT, parse_filter, selected

_PAGE = 10


@dataclass(frozen=True, slots=True)
class Picker:
    """``at``: the marked place among the tags that pass ``text``. ``typing``: letters go into
    the filter. ``touched``: something was chosen by hand. ``closed``: with the choice or
    without. ``full``: one more could not be chosen."""

    text: str = ""
    at: int = 0
    chosen: tuple[str, ...] = ()
    typing: bool = True
    touched: bool = False
    full: bool = False
    closed: Literal["taken", "left"] | None = None


def pick(
    picker: Picker, key: str, character: str | None, known: tuple[str, ...], most: int
) -> Picker:
    """The picker after a key. ``most``: tags that can be chosen."""
    picker = replace(picker, full=False)
    names = selected(known, picker.text)
    marked = names[min(picker.at, len(names) - 1)] if names else None
    if key == "enter":
        if not picker.touched and marked is not None and marked not in picker.chosen:
            picker = _toggled(picker, marked, most)
        return picker if picker.full else replace(picker, closed="taken")
    if key == "escape":
        return replace(picker, text="", at=0) if picker.text else replace(picker, closed="left")
    if key in ("down", "up", "pagedown", "pageup", "tab"):
        return _marked(picker, key, len(names))
    if picker.typing:
        return _typed(picker, key, character)
    if (key == "space" or character == " ") and marked is not None:
        return _toggled(picker, marked, most)
    if key in ("home", "end"):
        return replace(picker, at=0 if key == "home" else max(len(names) - 1, 0))
    is_slash = key == "slash" or character == "/"
    return replace(picker, typing=True) if is_slash else picker


def _marked(picker: Picker, key: str, count: int) -> Picker:
    if picker.typing:
        # The first step leaves the line, it does not skip the first tag.
        return replace(picker, typing=key in ("up", "pageup") or not count)
    if key in ("tab", "up") and (key == "tab" or picker.at == 0):
        return replace(picker, typing=True)
    step = {"down": 1, "up": -1, "pagedown": _PAGE, "pageup": -_PAGE}[key]
    return replace(picker, at=min(max(picker.at + step, 0), max(count - 1, 0)))


def _typed(picker: Picker, key: str, character: str | None) -> Picker:
    if key == "backspace":
        return replace(picker, text=picker.text[:-1], at=0)
    if key == "ctrl+u":
        return replace(picker, text="", at=0)
    if key == "space":
        character = " "
    if character is None or not character.isprintable():
        return picker
    return replace(picker, text=(picker.text + character)[:MAX_TEXT], at=0)


def _toggled(picker: Picker, tag: str, most: int) -> Picker:
    if tag in picker.chosen:
        chosen = tuple(other for other in picker.chosen if other != tag)
    elif len(picker.chosen) >= most:
        return replace(picker, full=True)
    else:
        chosen = (*picker.chosen, tag)
    return replace(picker, chosen=chosen, touched=True)


def picker_lines(
    picker: Picker,
    known: tuple[str, ...],
    width: int,
    rows: int,
    most: int,
    *,
    shows: str = "the charts",
) -> Block:
    """The line that is typed, how much passes, and as much of the list as fits. ``shows``: what
    comes when it is done."""
    names = selected(known, picker.text)
    found = parse_filter(picker.text)
    caret = "▏" if picker.typing else ""
    count = f"{len(names):,} of {len(known):,} tags"
    room = max(width - width_of(count) - 12, 8)
    typed = clean(picker.text)
    while width_of(typed) > room:
        typed = typed[1:]
    hint = "" if picker.text else "  words, !not, /regex/"
    head = line(
        Segment("Filter ", "heading"),
        Segment(typed, "value"),
        Segment(caret, "accent"),
        Segment(cut(hint, max(room - width_of(typed), 0)), "dim"),
    )
    lines: Block = [_with_right(head, Segment(count, "label"), width)]
    lines.append(_status(picker, found.problem, most, shows))
    if not known:
        lines.append(line(Segment("No tag has come yet.", "label")))
    elif not names:
        lines.append(line(Segment("No tag passes this filter: Esc clears it.", "label")))
    space = max(rows - len(lines), 1)
    at = min(picker.at, max(len(names) - 1, 0))
    first = min(max(at - space // 2, 0), max(len(names) - space, 0))
    for place, tag in enumerate(names[first : first + space], start=first):
        lines.append(_row(tag, picker, is_marked=place == at, width=width))
    return [clip(parts, width) for parts in lines[: max(rows, 1)]]


def _status(picker: Picker, problem: str, most: int, shows: str) -> Line:
    if problem:
        return line(Segment(f"! {clean(problem)}", "warn"))
    if picker.full:
        return line(Segment(f"! {most} tags at most: take one out first", "warn"))
    esc = "Esc clears" if picker.text else "Esc back"
    if picker.typing:
        keys = f"↓ into the list · Enter takes the marked tag · {esc}"
    else:
        keys = f"Space chooses · Enter shows {shows} · / filter · {esc}"
    chosen = f"{len(picker.chosen)} chosen · " if picker.chosen else ""
    return line(Segment(chosen, "accent"), Segment(keys, "dim"))


def _row(tag: str, picker: Picker, *, is_marked: bool, width: int) -> Line:
    mark = "▸ " if is_marked else "  "
    is_chosen = tag in picker.chosen
    box = "[x] " if is_chosen else "[ ] "
    return line(
        Segment(mark, "accent"),
        Segment(box, "accent" if is_chosen else "dim"),
        Segment(fit(clean(tag), width - 6), "value" if is_marked else "plain"),
    )


def _with_right(parts: Line, note: Segment, width: int) -> Line:
    used = sum(width_of(part.text) for part in parts)
    gap = width - used - width_of(note.text)
    return line(*parts, Segment(" " * gap), note) if gap > 0 else parts
