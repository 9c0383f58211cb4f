"""Output in pieces becomes numbered lines: nothing twice, nothing moved, everything bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_metrics.config import CONSOLE_FILE
from unilab_metrics.console_tail import MAX_LINE_CHARS, plain_line
from unilab_metrics.storage.console_pieces import console_piece
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_schema.requests import Console, ConsolePiece
from unilab_sidecar.events import console_store
from unilab_sidecar.events.console_lines import ConsoleText, shortened, text_of
from unilab_sidecar.events.console_store import ConsoleStore
from unilab_sidecar.feeding.questions import ConsoleQuestion

PRINTED = st.lists(
    st.sampled_from([b"a\n", b"\n", b"\r", b"12345 ", b"\x1b[31mred\x1b[0m", b"\xff", b"\0", b"x\b",
                     "界".encode(), b"\t", b"end\n"]),
    max_size=60,
)  # fmt: skip


class Log:
    """A file that is asked in pieces of a few bytes."""

    def __init__(self, path: Path, piece_bytes: int = 1 << 17) -> None:
        self.path, self._piece_bytes = path, piece_bytes
        path.mkdir(exist_ok=True)
        self.file = (path / CONSOLE_FILE).open("wb", buffering=0)

    def tell(self, store: ConsoleStore, top: int | None = None) -> ConsoleText:
        question = store.question(top, is_between=False)
        assert question is not None
        store.answer(question, self.reply(question))
        return store.text()

    def reply(self, question: ConsoleQuestion) -> ConsolePiece:
        most_bytes = min(question.most_bytes, self._piece_bytes)
        asked = Console(0, question.file, question.offset, question.before, most_bytes)
        return console_piece(self.path, asked)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    made.file.close()


def lines(text: ConsoleText) -> list[str]:
    return [text.line(number) for number in range(text.begin, text.end)]


@given(printed=PRINTED, every=st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_lines_are_those_of_the_whole_output_however_it_was_cut(
    printed: list[bytes], every: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))
    store, whole = ConsoleStore(), b"".join(printed)
    try:
        for at in range(0, max(len(whole), 1), every):
            log.file.write(whole[at : at + every])
            log.tell(store)
    finally:
        log.file.close()
    expected = [plain_line(one.decode("utf-8", "replace")) for one in whole.split(b"\n")]
    if not expected[-1]:
        expected.pop()
    assert lines(store.text()) == expected


@given(
    printed=st.lists(st.binary(max_size=40), min_size=1, max_size=60),
    piece_bytes=st.integers(60, 300),
)
@settings(max_examples=40, deadline=None)
def test_reading_back_gives_every_line_once_and_moves_no_number(
    printed: list[bytes], piece_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = Log(tmp_path_factory.mktemp("log"), piece_bytes)
    clean = [one.replace(b"\n", b"").hex().encode()[:50] for one in printed]
    log.file.write(b"".join(one + b"\n" for one in clean))
    store = ConsoleStore()
    before = log.tell(store)
    for _ in range(100):
        text = store.text()
        if text.begins:
            break
        text = log.tell(store, top=text.begin)
        for number in range(before.begin, before.end):
            assert text.line(number) == before.line(number)
    log.file.close()
    assert store.text().begins
    assert [one for one in lines(store.text()) if one] == [one.decode() for one in clean if one]


def test_a_progress_bar_is_one_line_with_its_last_state(log: Log) -> None:
    store = ConsoleStore()
    for percent in range(101):
        log.file.write(b"\r %3d%%|#####|" % percent)
        assert lines(log.tell(store)) == [f" {percent:3d}%|#####|"]
    log.file.write(b"\ndone\n")
    assert lines(log.tell(store)) == [" 100%|#####|", "done"]


def test_a_line_of_a_megabyte_costs_a_bounded_piece_of_memory(log: Log) -> None:
    store = ConsoleStore()
    log.file.write(b"begin\n")
    log.tell(store)
    for _ in range(16):
        log.file.write(b"x" * 65536)
        text = log.tell(store)
    assert len(store._open) < 20_000
    log.file.write(b"\nafter\n")
    text = log.tell(store)
    assert [len(one) for one in lines(text)] == [5, 2000, 5]


def test_what_is_printed_too_fast_is_passed_over_with_a_word(log: Log) -> None:
    store = ConsoleStore()
    log.file.write(b"first\n")
    log.tell(store)
    log.file.write(b"".join(b"line %d\n" % n for n in range(50_000)))
    told = lines(log.tell(store))
    assert told[0] == "first"
    assert told[1].endswith("bytes passed over")
    assert told[-1] == "line 49999"
    assert told[2:] == [f"line {n}" for n in range(50_000 - len(told) + 2, 50_000)]
    passed = int(told[1].split()[1].replace(",", ""))
    assert passed == sum(len(f"line {n}\n") for n in range(50_000 - len(told) + 2))


def test_what_is_held_is_bounded_and_never_pushes_out_what_somebody_looks_at(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_store, "KEPT_LINES", 2000)
    monkeypatch.setattr(console_store, "MOST_LINES", 4000)
    store = ConsoleStore()
    for n in range(20):
        log.file.write(b"%d\n" % n * 600)
        log.tell(store)
    text = store.text()
    assert 1000 <= text.end - text.begin <= 2600
    top = text.end - 100
    looked_at = text.line(top)
    for n in range(20):
        log.file.write(b"more %d\n" % n * 600)
        text = log.tell(store, top)
        assert text.line(top) == looked_at
        assert text.end - text.begin <= 4700
    text = log.tell(store)
    assert text.end - text.begin <= 2600
    log.file.write(b"newest\n")
    assert lines(log.tell(store))[-1] == "newest"


def test_of_long_lines_fewer_are_held(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_store, "KEPT_LINES", 4000)
    store = ConsoleStore()
    for _ in range(60):
        log.file.write(b"x" * 999 + b"\n")
        log.file.write((b"y" * 999 + b"\n") * 99)
        text = log.tell(store)
    assert 100 <= text.end - text.begin <= 4000 // 5 + 512
    before = text.begin
    for _ in range(60):
        log.file.write(b"short\n" * 100)
        text = log.tell(store)
    assert text.begin > before
    assert 3000 <= text.end - text.begin <= 4000 + 512


def test_a_filter_is_asked_of_new_lines_only_and_numbers_stay(log: Log) -> None:
    store = ConsoleStore()
    log.file.write(b"loss 1\nreward 2\nLOSS 3\n")
    text = log.tell(store)
    assert [text.line(n) for n in text.numbers("loss")] == ["loss 1", "LOSS 3"]
    assert [text.line(n) for n in text.numbers("!loss")] == ["reward 2"]
    assert [text.line(n) for n in text.numbers(r"/\d$/ !2")] == ["loss 1", "LOSS 3"]


def test_why_there_is_nothing(tmp_path: Path) -> None:
    store = ConsoleStore()
    question = store.question(None, is_between=True)
    assert question is not None
    store.answer(question, console_piece(tmp_path, Console(0)))
    assert "unilab-metrics run -- CMD" in store.text().state
    assert not store.text().is_kept
    assert store.question(None, is_between=True) is None
    question = store.question(None, is_between=False)
    assert question is not None
    store.answer(question, NoAnswer("older than this viewer"))
    assert store.text().state == "older than this viewer"


def test_a_truncated_log_begins_anew_with_a_word(log: Log, tmp_path: Path) -> None:
    store = ConsoleStore()
    log.file.write(b"one\ntwo\nthr")
    log.tell(store)
    (tmp_path / CONSOLE_FILE).write_bytes(b"anew\n")
    told = lines(log.tell(store))
    assert told[:3] == ["one", "two", "thr"]
    assert "no longer there" in told[3]
    assert told[4:] == ["anew"]


def test_of_a_line_without_an_end_the_last_state_is_shown_and_little_is_held():
    bar = b"".join(b"\r%4d/9999 %s" % (n, b"#" * 50) for n in range(9999))
    assert len(bar) > 4 * MAX_LINE_CHARS * 8
    assert text_of(bar).startswith("9998/9999")
    assert len(shortened(bar)) < 200
    assert text_of(shortened(bar) + b"\r9999/9999") == "9999/9999"
    endless = b"x" * 10**6
    assert len(shortened(endless)) <= 8 * MAX_LINE_CHARS
    assert text_of(endless) == plain_line("x" * 3000)
