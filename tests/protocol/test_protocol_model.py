"""Delivery under a thousand random schedules of faults; and broken rules, which must show.

A failing schedule is played again by its seed: ``play(tmp_path, seed)``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from protocol_model import World
from protocol_model_aggregator import ModelAggregator
from protocol_model_source import ModelSource
from protocol_model_writer import ModelWriter

from unilab_metrics.aggregate.folding import frame_intake
from unilab_metrics.aggregate.folding.entries import AcceptedBatch
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.journaling import journal as journal_module
from unilab_metrics.aggregate.receiving import accepting
from unilab_metrics.aggregate.receiving.accepting import Acceptance
from unilab_metrics.publish.delivery import Delivery
from unilab_metrics.storage.records import scan
from unilab_schema.control import Cursor

SCHEDULES = 1000
GROUPS = 4
MUTANT_SCHEDULES = range(50, 350)
"""A mutant must show within these; the hardest to see does in the fifteenth."""


def play(root: Path, seed: int, world: type[World] = World) -> None:
    folder = root / str(seed)
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        try:
            world(folder, seed).run(patch)
        except AssertionError as error:
            raise AssertionError(f"schedule {seed}: {error}") from error


@pytest.mark.parametrize(
    "group", [0, *(pytest.param(group, marks=pytest.mark.slow) for group in range(1, GROUPS))]
)
def test_whatever_dies_everything_logged_arrives_once(group: int, tmp_path: Path) -> None:
    for seed in range(group, SCHEDULES, GROUPS):
        play(tmp_path, seed)


def _ack_before_journal(patch: pytest.MonkeyPatch) -> None:
    steps = ("receive", "check", "answer", "seal", "commit", "sync")
    patch.setattr(ModelAggregator, "steps", steps)


def _welcome_before_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelAggregator, "welcomes_at_once", True)


def _no_dedupe_and_no_gap_check(patch: pytest.MonkeyPatch) -> None:
    def take_all(source: SourceState, data: bytes, watermark_mono_ns: int) -> Acceptance:
        records = scan(data).records
        entry = AcceptedBatch(source.index, watermark_mono_ns, data) if records else None
        return Acceptance(entry, records, 0, rewind=False)

    patch.setattr(accepting, "accept", take_all)


def _no_adoption(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelAggregator, "adopts", False)


def _what_comes_after_the_end_is_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelAggregator, "reopens", False)


def _new_epoch_does_not_rewind(patch: pytest.MonkeyPatch) -> None:
    original = Delivery.take_cursor

    def take(self: Delivery, cursor: Cursor, last: int, now_ns: int) -> None:
        if self._epoch is not None and cursor.epoch > self._epoch:
            self._epoch = cursor.epoch
        original(self, cursor, last, now_ns)

    patch.setattr(Delivery, "take_cursor", take)


def _trim_what_is_only_acknowledged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelSource, "trim_limit", lambda self: self.delivery.acked)


def _no_resend(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "resend_if_stuck", lambda _self, _now: None)
    patch.setattr(Delivery, "connected", _connected_without_rewind)


def _connected_without_rewind(self: Delivery, now_ns: int) -> None:
    self.greeted = False
    self._hello_at_ns = self._heard_ns = self._progress_ns = now_ns


def _mark_before_data(patch: pytest.MonkeyPatch) -> None:
    def write(self: ModelWriter, rng: Random, entries: list[tuple[int, bytes]]) -> None:
        self.output.append((entries[-1][0], None))
        if self._disk_kills(rng):
            self.crash(rng)
            return
        self.output += entries

    patch.setattr(ModelWriter, "write", write)


def _writer_takes_what_is_not_durable(patch: pytest.MonkeyPatch) -> None:
    original = ModelWriter.turn

    def turn(self: ModelWriter, rng: Random, durable: int | None) -> None:
        del durable
        original(self, rng, 1_000_000)

    patch.setattr(ModelWriter, "turn", turn)


def _history_is_not_completed(patch: pytest.MonkeyPatch) -> None:
    original = journal_module.recover

    def recover(bus_dir: Path) -> Any:
        return original(bus_dir)._replace(missing=[])

    patch.setattr(journal_module, "recover", recover)


def _evidence_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    original = journal_module.Journal.start_sync

    def start_sync(self: journal_module.Journal, mark: object) -> bool:
        is_begun = original(self, mark)
        if is_begun and self._marked is not None:
            journal_module.write_durable(self._bus_dir, self._marked)
        return is_begun

    patch.setattr(journal_module.Journal, "start_sync", start_sync)


def _a_repeated_iteration_replaces_the_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frame_intake, "give_way", lambda _key_sets, _frames: 0)


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    _ack_before_journal,
    _welcome_before_journal,
    _no_dedupe_and_no_gap_check,
    _no_adoption,
    _what_comes_after_the_end_is_late,
    _new_epoch_does_not_rewind,
    _trim_what_is_only_acknowledged,
    _no_resend,
    _mark_before_data,
    _writer_takes_what_is_not_durable,
    _history_is_not_completed,
    _a_repeated_iteration_replaces_the_first,
]


RARE = pytest.param(_evidence_before_the_sync, marks=pytest.mark.slow)


@pytest.mark.parametrize("mutant", [*MUTANTS, RARE], ids=lambda mutant: mutant.__name__.strip("_"))
def test_a_broken_rule_shows(
    mutant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    for seed in MUTANT_SCHEDULES:
        try:
            play(tmp_path, seed)
        except Exception:  # noqa: BLE001 - however it shows
            return
    pytest.fail(f"{len(MUTANT_SCHEDULES)} schedules kept every promise without this rule")
