"""Takes pieces of the training's output and says which one is wanted next. Pure.

At most one question is open at a time, and its pieces are bounded: what is printed faster than it
is asked for is passed over, with a line that says how much.
"""

from __future__ import annotations

from collections.abc import Iterable

from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.requests import ConsolePiece
from unilab_sidecar.events.console_lines import (
    Chunk,
    ConsoleText,
    chunked,
    extended,
    shortened,
    split_lines,
    text_of,
)
from unilab_sidecar.feeding.questions import ConsoleQuestion

PIECE_BYTES = 128 * 1024
"""Of output that is read at most twice a second."""
KEPT_LINES = 20_000
"""While the newest output is followed; a long line counts as several, see :func:`_size`."""
MOST_LINES = 60_000
"""While somebody looks at what is older."""
_AHEAD_LINES = 300
_USUAL_CHARS = 200
_NOT_KEPT = (
    "this run's output is not kept: it went to the training's own terminal; "
    "`unilab-metrics run -- CMD` keeps it and shows it here"
)
_MORE_ABOVE = "… what is older is in console.log of the run directory"
_ANEW = "… what came before is no longer there"


class ConsoleStore:
    """One owner, no locks."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._held_lines = 0
        self._open = b""
        self._open_at = ("", 0)
        self._next = ("", 0)
        self._asked: ConsoleQuestion | None = None
        self._has_asked = self._is_joined = False
        self._begins = False
        self._held_back_bytes = 0
        self._top: int | None = None
        self._state = ""
        self._is_kept = False
        self._text = ConsoleText()
        self._is_changed = False

    @property
    def is_waiting(self) -> bool:
        """Whether the first piece is on its way."""
        return self._has_asked and not self._is_joined and self._asked is not None

    def question(self, top: int | None, *, is_between: bool) -> ConsoleQuestion | None:
        """What to ask now. ``top``: the first line that is looked at, ``None`` for the newest ones.
        ``is_between``: it is not yet time to look whether anything was added."""
        self._top = top
        if self._asked is not None:
            return None
        wanted: ConsoleQuestion | None = None
        if top is not None and self._can_read_back and top < self._first + _AHEAD_LINES:
            first = self._chunks[0]
            wanted = ConsoleQuestion(first.file, first.offset, True, PIECE_BYTES)
        elif not is_between or not self._has_asked:
            wanted = ConsoleQuestion(*self._next, False, PIECE_BYTES)
        self._asked, self._has_asked = wanted, self._has_asked or wanted is not None
        return wanted

    def answer(self, question: ConsoleQuestion, reply: ConsolePiece | NoAnswer) -> None:
        """What has come of a question."""
        if question == self._asked:
            self._asked = None
        self._is_joined = True
        self._is_changed = True
        if isinstance(reply, NoAnswer) or reply.problem:
            self._state = reply.text if isinstance(reply, NoAnswer) else reply.problem
            return
        self._is_kept = bool(reply.file)
        self._state = "" if reply.file or self._chunks else _NOT_KEPT
        if not reply.file:
            return
        if question.before:
            self._add_before(question, reply)
        else:
            self._add_behind(reply)

    def text(self) -> ConsoleText:
        """All that is held."""
        if self._is_changed:
            self._is_changed = False
            chunks = tuple(self._chunks)
            if self._open and (shown := text_of(self._open)):
                end = chunks[-1].first + len(chunks[-1].lines) if chunks else 0
                chunks = (*chunks, Chunk(end, (shown,), "", 0))
            above = "" if self._begins or self._can_read_back or not chunks else _MORE_ABOVE
            self._text = ConsoleText(chunks, self._state, self._is_kept, self._begins, above)
        return self._text

    @property
    def _first(self) -> int:
        return self._chunks[0].first if self._chunks else 0

    @property
    def _end(self) -> int:
        return self._chunks[-1].first + len(self._chunks[-1].lines) if self._chunks else 0

    @property
    def _can_read_back(self) -> bool:
        is_known = bool(self._chunks) and bool(self._chunks[0].file)
        return is_known and not self._begins and self._held_lines < MOST_LINES

    def _add_behind(self, piece: ConsolePiece) -> None:
        is_first = not self._next[0]
        if not is_first and piece.file != self._next[0]:
            self._forget_place_before(self._next[0])
        self._next = (piece.file, piece.offset + len(piece.data))
        passed_over_bytes = piece.passed_over_bytes
        if self._top is not None and self._held_lines >= MOST_LINES:
            # What somebody looks at must not be pushed out.
            self._held_back_bytes += passed_over_bytes + len(piece.data)
            return
        data, at = piece.data, piece.offset
        passed_over_bytes += self._held_back_bytes
        is_torn = passed_over_bytes or piece.moved or (is_first and not piece.begins)
        if is_torn and piece.offset:
            cut = data.find(b"\n") + 1
            data, at = data[cut:], at + cut
        if is_first:
            self._begins = piece.begins and at == 0
        if is_torn and not is_first:
            passed_over_bytes += at - piece.offset
            gap = f"… {passed_over_bytes:,} bytes passed over" if passed_over_bytes else _ANEW
            closing = [text_of(self._open)] if self._open else []
            self._append([*closing, _ANEW if piece.moved else gap], ("", 0))
            self._open = b""
        self._held_back_bytes = 0
        if not self._open:
            self._open_at = (piece.file, at)
        lines, rest = split_lines(self._open + data)
        self._append(lines, self._open_at)
        if lines:
            self._open_at = (piece.file, piece.offset + len(piece.data) - len(rest))
        self._open = shortened(rest)
        if self._top is None:
            self._trim()

    def _append(self, lines: list[str], place: tuple[str, int]) -> None:
        if not lines:
            return
        self._held_lines += _size(lines)
        longer = extended(self._chunks[-1], lines) if self._chunks else None
        if longer is not None:
            self._chunks[-1] = longer
        else:
            self._chunks += chunked(self._end, lines, *place)

    def _add_before(self, question: ConsoleQuestion, piece: ConsolePiece) -> None:
        first = self._chunks[0] if self._chunks else None
        if first is None or (first.file, first.offset) != (question.file, question.offset):
            return
        if piece.moved:
            self._chunks[0] = first._replace(file="")
            return
        data, at = piece.data, piece.offset
        if at > 0:
            # Where a line is longer than a piece, its begin is shown alone.
            cut = data.find(b"\n") + 1
            data, at = data[cut:], at + cut
            if not cut:
                data, at = b"", piece.offset
        self._begins = piece.begins or (at == 0 and not piece.data)
        lines, rest = split_lines(data)
        if rest:
            lines.append(text_of(rest))
        if not lines:
            self._chunks[0] = first._replace(file=piece.file, offset=at)
            return
        self._held_lines += _size(lines)
        self._chunks[:0] = chunked(first.first - len(lines), lines, piece.file, at)

    def _trim(self) -> None:
        """Without what is oldest; what follows must know its place, to be read back from."""
        while self._held_lines > KEPT_LINES and len(self._chunks) > 1:
            self._held_lines -= _size(self._chunks.pop(0).lines)
            self._begins = False
        if self._chunks and not self._chunks[0].file:
            known = next((n for n, one in enumerate(self._chunks) if one.file), 0)
            if known and self._held_lines > KEPT_LINES // 2:
                self._held_lines -= sum(_size(one.lines) for one in self._chunks[:known])
                del self._chunks[:known]

    def _forget_place_before(self, file: str) -> None:
        """The file that was followed is full: what was older than it is removed."""
        for place, one in enumerate(self._chunks):
            if one.file and one.file != file:
                self._chunks[place] = one._replace(file="")


def _size(lines: Iterable[str]) -> int:
    """In lines of a usual length, so that many very long ones do not fill the memory."""
    return sum(1 + len(line) // _USUAL_CHARS for line in lines)
