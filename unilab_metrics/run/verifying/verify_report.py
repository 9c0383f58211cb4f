"""What ``verify`` found, in lines and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unilab_metrics.aggregate.folding.refused_frames import REFUSED_FRAME
from unilab_metrics.drop_words import counted_drops, dropped_text, troubles_text
from unilab_metrics.run.verifying.damaged_files import in_files
from unilab_metrics.run.verifying.verify import AttemptFacts, BackendFacts, Verified
from unilab_metrics.run.verifying.verify_journal import JournalFacts
from unilab_metrics.run.verifying.verify_sources import ELSEWHERE, GONE, LOST, SourceFacts
from unilab_metrics.wording import agreeing, counted

_MOST_SOURCES = 16


def report(verified: Verified) -> list[str]:
    """The result for people."""
    counts = verified.points_per_tag.values()
    history = verified.history
    spread = f", {span(counts)} each" if counts else ""
    behind = verified.behind
    behind_text = f", {counted(behind, 'entry', 'entries')} behind" if behind else ""
    size = (
        f"{counted(history.entries, 'entry', 'entries')}, {counted(history.updates, 'iteration')}"
    )
    lines = [
        f"history      {size}, gap-free, {history.ended or 'not ended yet'}",
        *_journal_lines(verified.journal, is_live=verified.is_live),
    ]
    if any(backend.is_compared for backend in verified.backends):
        points = f"{counted(len(counts), 'tag')}, {counted(sum(counts), 'point')}{spread}"
        lines.append(f"tensorboard  {points}, equal to the history{behind_text}")
    lines += [_backend_line(b, history.entries) for b in verified.backends if not b.is_compared]
    if verified.journal is not None and verified.journal.late_values:
        late = counted(verified.journal.late_values, "value")
        lines.append(f"late         {late} for what was complete: in the journal, in no backend")
    if len(verified.attempts) > 1:
        lines.append(f"attempts     {', '.join(map(_attempt, verified.attempts))}")
    if history.ended is None:
        lines.append("losses       the run has not ended yet")
        if not verified.is_live and verified.journal is not None:
            lines.append("state        nobody is at work on it; `unilab-metrics recover` ends it")
    elif verified.lost_frames is None:
        lines.append("losses       unknown: the run left no summary that can be read")
    else:
        sources = () if verified.journal is None else verified.journal.sources
        is_at_most = any(source.is_at_most for source in sources)
        drops = verified.dropped_calls or {}
        lines.append(losses_line(verified.lost_frames, drops, is_at_most=is_at_most))
    if verified.journal is not None:
        lines += [f"note         {note}" for note in verified.journal.notes]
    return lines + [f"not read     {problem}" for problem in verified.unread]


def report_fields(verified: Verified) -> dict[str, Any]:
    """The result for programs."""
    journal = verified.journal
    return {
        "ok": not verified.unread and not refused_frames(verified),
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
        "wal_begins_at": None if journal is None else journal.first_update,
        "wal_set_aside": [] if journal is None else list(journal.set_aside),
        "ranks": None if journal is None else _ranks_fields(journal),
        "sources": None if journal is None else [_source_fields(s) for s in journal.sources],
        "notes": [] if journal is None else list(journal.notes),
        "late_values": None if journal is None else journal.late_values,
        "lost_frames": verified.lost_frames,
        "dropped_calls": verified.dropped_calls,
    }


def span(counts: Any) -> str:
    """The least and the most of some counts: ``600 to 1,500``, or one number."""
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def refused_frames(verified: Verified) -> int:
    """Frames that are in the journal, and in nothing that was made of it."""
    journal = verified.journal
    of_sources = 0 if journal is None else sum(source.refused for source in journal.sources)
    return max((verified.dropped_calls or {}).get(REFUSED_FRAME, 0), of_sources)


def lost_text(lost: int, *, is_at_most: bool) -> str:
    """How many are lost. ``is_at_most``: some of them may be in the history."""
    return f"at most {lost:,}" if is_at_most and lost else f"{lost:,}"


def losses_line(
    lost_frames: int, dropped_calls: Mapping[str, int], *, is_at_most: bool = False
) -> str:
    """What is missing of what was logged. ``lost_frames``: those that were refused included."""
    drops = dict(dropped_calls)
    refused = drops.pop(REFUSED_FRAME, 0)
    why = f" ({counted_drops(REFUSED_FRAME, refused)})" if refused else ""
    frames = counted(lost_frames, "frame")
    frames = f"at most {frames}" if is_at_most and lost_frames else frames
    return f"losses       {frames} lost{why}, dropped: {dropped_text(drops)}"


def _journal_lines(journal: JournalFacts | None, *, is_live: bool) -> list[str]:
    if journal is None:
        return ["wal          none is left to compare with"]
    sources = journal.sources
    records = sum(source.journaled for source in sources)
    gone = sum(source.state in {LOST, GONE} for source in sources if not source.goodbye)
    silent = sum(not source.goodbye for source in sources) - gone
    endings = {
        "ended without close()": gone,
        f"not closed{' yet' if is_live else ''}": silent,
    }
    ends = ", ".join(f"{number:,} {how}" for how, number in endings.items() if number)
    ends = ends or "all were closed"
    count = f"{counted(records, 'record')} of {counted(len(sources), 'process', 'processes')}"
    again = f"{journal.refolded:,} of {counted(journal.updates, 'update')} made again"
    lines = [
        f"wal          {again}, equal to the history{_older_segments(journal)}",
        f"journal      {count}, {ends}",
    ]
    if journal.absent:
        ranks = ranks_text(journal.learners, journal.absent, so_far=is_live)
        lines.append(f"ranks        {ranks}")
    noteworthy = [
        s
        for s in sources
        if s.lost or s.refused or s.drops or s.troubles or s.waiting or not s.goodbye
    ]
    lines += [f"             {_source(source)}" for source in noteworthy[:_MOST_SOURCES]]
    more = len(noteworthy) - _MOST_SOURCES
    return [*lines, f"             and {more} more"] if more > 0 else lines


def _older_segments(journal: JournalFacts) -> str:
    """Where those are with which the wal does not begin."""
    set_aside = ""
    if count := len(journal.set_aside):
        names = in_files(list(journal.set_aside))
        were = agreeing(count, "was", "were")
        set_aside = f"{counted(count, 'older segment')} {were} set aside as damaged{names}"
    if journal.first_update == 1:
        return f" ({set_aside})" if set_aside else ""
    what = set_aside or "older segments were retired"
    return f" (the wal begins at update {journal.first_update:,}: {what})"


def _source(source: SourceFacts) -> str:
    lost = lost_text(source.lost, is_at_most=source.is_at_most)
    parts = [counted(source.journaled, "record"), f"{lost} lost{_why(source)}"]
    if source.refused:
        parts.append(f"{source.refused:,} refused")
    if source.drops:
        parts.append(f"dropped: {dropped_text(source.drops)}")
    if source.troubles:
        parts.append(f"troubles without loss: {troubles_text(source.troubles)}")
    if source.waiting:
        parts.append(f"{source.waiting:,} waiting in its spool")
    if not source.goodbye:
        parts.append(_without_goodbye(source))
    return f"{source.key.place} (pid {source.pid}): {', '.join(parts)}"


def _without_goodbye(source: SourceFacts) -> str:
    if source.state in {LOST, GONE}:
        known = (
            "what it dropped last is not known"
            if source.is_at_most
            else "its counts are a lower bound"
        )
        return f"ended without close() ({known})"
    if source.state == ELSEWHERE:
        return f"not closed (it is not to be seen from here; it was on {source.host})"
    return f"not closed ({source.state})"


def ranks_text(learners: int, absent: Sequence[int], *, so_far: bool = False) -> str:
    """How many ranks of an attempt came, and which did not."""
    named = ", ".join(map(str, absent[:_MOST_SOURCES]))
    more = len(absent) - _MOST_SOURCES
    named += f" and {more:,} more" if more > 0 else ""
    came = f"{learners - len(absent):,} of {counted(learners, 'rank')} came"
    which = "ranks" if len(absent) > 1 else "rank"
    return f"{came}{' so far' if so_far else ''} (missing: {which} {named})"


def _why(source: SourceFacts) -> str:
    if not source.reasons:
        return ""
    missing = sum(source.reasons.values())
    told = missing - source.lost
    if told <= 0:
        return f" ({_said(source.reasons)})"
    which = "all" if told == missing else f"{told:,}"
    return f" ({_said(source.reasons)}; the history has what {which} of them said)"


def _said(reasons: Mapping[str, int]) -> str:
    """In the words of whoever could not read them."""
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))


def _backend_line(backend: BackendFacts, last: int) -> str:
    return f"{backend.name:<12} says that it holds update {backend.update:,} of {last:,}"


def _attempt(attempt: AttemptFacts) -> str:
    ended = attempt.ended or "not ended"
    return f"{attempt.attempt}: {counted(attempt.iterations, 'iteration')}, {ended}"


def _ranks_fields(journal: JournalFacts) -> dict[str, Any]:
    return {"expected": journal.learners, "missing": list(journal.absent)}


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
