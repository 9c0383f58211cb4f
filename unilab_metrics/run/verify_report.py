"""What ``verify`` found, in lines and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unilab_metrics.run.verify import AttemptFacts, BackendFacts, Verified
from unilab_metrics.run.verify_journal import JournalFacts, SourceFacts

_MOST_SOURCES = 16


def report(verified: Verified) -> list[str]:
    """The result for people."""
    counts = verified.points_per_tag.values()
    history = verified.history
    spread = f", {span(counts)} each" if counts else ""
    behind = f", {verified.behind} entries behind" if verified.behind else ""
    lines = [
        f"history      {history.entries:,} entries, {history.updates:,} iterations, gap-free, "
        + (history.ended or "not ended yet"),
        *_journal_lines(verified.journal, is_live=verified.is_live),
    ]
    if any(backend.is_compared for backend in verified.backends):
        points = f"{len(counts)} tags, {sum(counts):,} points{spread}"
        lines.append(f"tensorboard  {points}, equal to the history{behind}")
    lines += [_backend_line(b, history.entries) for b in verified.backends if not b.is_compared]
    if len(verified.attempts) > 1:
        lines.append(f"attempts     {', '.join(map(_attempt, verified.attempts))}")
    if history.ended is None:
        lines.append("losses       the run has not ended yet")
        if not verified.is_live and verified.journal is not None:
            lines.append("state        nobody is at work on it; `unilab-metrics recover` ends it")
    elif verified.lost_frames is None:
        lines.append("losses       unknown: the run left no summary that can be read")
    else:
        dropped = dropped_text(verified.dropped_calls or {})
        lines.append(f"losses       {verified.lost_frames} frames lost, dropped: {dropped}")
    return lines + [f"not read     {problem}" for problem in verified.unread]


def report_fields(verified: Verified) -> dict[str, Any]:
    """The result for programs."""
    journal = verified.journal
    return {
        "ok": not verified.unread,
        "unread": list(verified.unread),
        "live": verified.is_live,
        "status": verified.history.ended,
        "entries": verified.history.entries,
        "iterations": verified.history.updates,
        "attempts": [attempt._asdict() for attempt in verified.attempts],
        "points_per_tag": dict(verified.points_per_tag),
        "behind": verified.behind,
        "backends": [backend._asdict() for backend in verified.backends],
        "refolded": None if journal is None else journal.refolded,
        "sources": None if journal is None else [_source_fields(s) for s in journal.sources],
        "lost_frames": verified.lost_frames,
        "dropped_calls": verified.dropped_calls,
    }


def span(counts: Any) -> str:
    """The least and the most of some counts: ``600 to 1,500``, or one number."""
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def dropped_text(drops: Mapping[str, int]) -> str:
    """Drops by reason in one line."""
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(drops.items())) or "nothing"


def _journal_lines(journal: JournalFacts | None, *, is_live: bool) -> list[str]:
    if journal is None:
        return ["wal          none is left to compare with"]
    sources = journal.sources
    records = sum(source.journaled for source in sources)
    silent = sum(1 for source in sources if not source.goodbye)
    ends = "all said goodbye" if not silent else f"{silent} without goodbye"
    ends += " yet" if is_live and silent else ""
    count = "1 process" if len(sources) == 1 else f"{len(sources)} processes"
    again = f"{journal.refolded:,} of {journal.updates:,} updates made again"
    lines = [
        f"wal          {again}, equal to the history",
        f"journal      {records:,} records of {count}, {ends}",
    ]
    noteworthy = [s for s in sources if s.lost or s.drops or s.waiting or not s.goodbye]
    lines += [f"             {_source(source)}" for source in noteworthy[:_MOST_SOURCES]]
    more = len(noteworthy) - _MOST_SOURCES
    return [*lines, f"             and {more} more"] if more > 0 else lines


def _source(source: SourceFacts) -> str:
    parts = [f"{source.journaled:,} records", f"{source.lost:,} lost{_why(source.reasons)}"]
    if source.drops:
        parts.append(f"dropped: {dropped_text(source.drops)}")
    if source.waiting:
        parts.append(f"{source.waiting:,} waiting in its spool")
    if not source.goodbye:
        counted = "its counts are a lower bound" if source.state == "lost" else source.state
        parts.append(f"no goodbye ({counted})")
    return f"{source.key.place} (pid {source.pid}): {', '.join(parts)}"


def _why(reasons: Mapping[str, int]) -> str:
    return f" ({dropped_text(reasons)})" if reasons else ""


def _backend_line(backend: BackendFacts, last: int) -> str:
    return f"{backend.name:<12} says that it holds update {backend.update:,} of {last:,}"


def _attempt(attempt: AttemptFacts) -> str:
    ended = attempt.ended or "not ended"
    return f"{attempt.attempt}: {attempt.iterations:,} iterations, {ended}"


def _source_fields(source: SourceFacts) -> dict[str, Any]:
    fields = source._asdict()
    key = fields.pop("key")
    return {"rank": key.rank, "role": key.role, "instance": key.instance, **fields}


def total(drops: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Several counts by reason as one."""
    sums: dict[str, int] = {}
    for counts in drops:
        for reason, count in counts.items():
            sums[reason] = sums.get(reason, 0) + count
    return sums
