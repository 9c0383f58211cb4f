"""Old updates are served with layouts that the aggregator has forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from sources_on_paper import PaperSource

from unilab_metrics.aggregate.announcing.serving import MAX_REPLY_BYTES, Server
from unilab_metrics.aggregate.folding import update_layouts
from unilab_metrics.aggregate.folding.entries import Seal, SourceJoined
from unilab_metrics.aggregate.journaling import announced_layouts
from unilab_metrics.aggregate.journaling import journal as journals
from unilab_metrics.aggregate.journaling.journal import Journal
from unilab_metrics.storage.records import scan
from unilab_schema.codec import RecordKind, decode_payload, encode_message
from unilab_schema.identity import Identity, SourceKey
from unilab_schema.requests import Fetch
from unilab_schema.updates import Update

IDENTITY = Identity(SourceKey(0, "learner"), bytes(16), 1, "host", "boot", "/s", "/s/lease", 0, 0)


def fill(journal: Journal, iterations: int, tags: int) -> None:
    """Every iteration has a combination of tags of its own."""
    source = PaperSource(0, IDENTITY)
    entries = [SourceJoined(0, IDENTITY)]
    for entry in entries:
        journal.append(entry)
        journal.publish(journal.state.handle(entry))
    for k in range(iterations):
        names = {f"Wide/tag/{n}": float(k) for n in range(tags) if n != k % tags} | {f"k{k}": 1.0}
        source.layouts.clear()
        for entry in (source.iteration(k, names), Seal(k, k, k)):
            journal.append(entry)
            journal.publish(journal.state.handle(entry))
        if k % 20 == 19:
            journal.commit()
    journal.commit()


def served(journal: Journal) -> dict[int, set[str]]:
    """Tags of each update by its iteration, asked for as a subscriber does."""
    server, after = Server(journal), 0
    found: dict[int, set[str]] = {}
    while True:
        reply = server.updates(Fetch(1, after))
        assert len(encode_message(reply)) < MAX_REPLY_BYTES + 64 * 1024
        if reply.last == after:
            return found
        after = reply.last
        layouts = {layout.layout: layout.tags for layout in reply.layouts}
        for record in scan(reply.records).records:
            if record.kind == RecordKind.UPDATE:
                update: Update = decode_payload(record.kind, record.payload)
                assert len(update.values) == 8 * len(layouts[update.layout])
                found[update.iteration] = set(layouts[update.layout])


@pytest.mark.parametrize("tail_bytes", [0, 8 * 1024 * 1024])
def test_every_update_comes_with_its_own_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail_bytes: int
) -> None:
    monkeypatch.setattr(journals, "TAIL_BYTES", tail_bytes)
    monkeypatch.setattr(announced_layouts, "MAX_ANNOUNCED", 8)
    monkeypatch.setattr(update_layouts, "MAX_REMEMBERED", 8)
    tmp_path.chmod(0o700)
    journal = Journal(tmp_path)
    fill(journal, 120, 200)
    expected = {
        k: {f"Wide/tag/{n}" for n in range(200) if n != k % 200} | {f"k{k}"} for k in range(120)
    }
    assert served(journal) == expected
    journal.close()
    again = Journal(tmp_path)
    assert served(again) == expected
    again.close()
