"""What sources could not log, in the words in which they said it, and what helps."""

from __future__ import annotations

from collections.abc import Iterator

from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.drop_words import dropped_text, troubles_text
from unilab_metrics.publish import losses
from unilab_metrics.run.doctor.finding import OK, WARNING, Finding
from unilab_metrics.run.doctor.patient import Patient
from unilab_metrics.subscribe.history import HistoryReader
from unilab_metrics.wording import counted
from unilab_schema.identity import SourceKey
from unilab_schema.updates import EventUpdate

_MOST_SHOWN = 3
_MAKE_ROOM = "make room there; the records that did not fit are gone"
KEEP_PACE = (
    "a rank that is more than 30 s behind the others is not waited for: let the ranks wait for each "
    "other (a gradient all-reduce, a barrier), or end its extra work; of a tag that is given twice for an "
    "iteration the first value counts"
)
FIXES = {
    losses.BAD_STEP: "give whole numbers, as int(step), for iteration, env_steps and step",
    losses.BAD_VALUE: "log numbers, or tensors and arrays with one element",
    losses.BAD_TAG: "give each tag a name of 1 to 512 bytes that is not the logger's own",
    losses.BAD_CALL: "correct the call; with init(strict=True) it raises at its line",
    losses.TOO_MANY_TAGS: "log under fewer names: a number belongs into the value, not the tag",
    losses.INTERNAL_ERROR: "a mistake of unilab-metrics: report it with that text",
    losses.FORKED: "call connect() in the child process",
    losses.CLOSED: "log before close()",
    losses.SPOOL_FULL: _MAKE_ROOM,
    losses.SPOOL_QUOTA: "see above whether an aggregator is at work, which empties the spool",
    losses.OVERSIZE: "log less in one call",
}


def examine(patient: Patient, sources: list[SourceState]) -> Iterator[Finding]:
    """One finding for each source that has dropped or met something."""
    said = _said(patient) if any(source.dropped() for source in sources) else {}
    for source in sources:
        key = source.identity.key
        who = f"the {key.place}"
        if drops := source.dropped():
            texts = [text for reason in drops for text in said.get((key, reason), [])]
            shown = "; ".join(texts[:_MOST_SHOWN])
            more = len(texts) - _MOST_SHOWN
            rest = f"; and {counted(more, 'thing')} more" if more > 0 else ""
            why = f" ({shown}{rest})" if texts else ""
            fixes = [FIXES[reason] for reason in sorted(drops) if reason in FIXES]
            text = f"{who} has dropped {dropped_text(drops)}{why}"
            yield Finding("backlog", WARNING, text, "; ".join(dict.fromkeys(fixes)))
        if late := source.late_values:
            text = f"{counted(late, 'value')} of the {key.place} came when the iteration had its "
            text += "update already: in the journal, in no backend and no mean"
            yield Finding("backlog", WARNING, text, KEEP_PACE)
        if troubles := source.troubles:
            text = f"{who} has met {troubles_text(troubles)}; no frame was lost by it"
            yield Finding("backlog", OK, text)


def _said(patient: Patient) -> dict[tuple[SourceKey, str], list[str]]:
    """What each place has said of what it dropped, by reason, each text once."""
    found: dict[tuple[SourceKey, str], list[str]] = {}
    with HistoryReader(patient.bus_dir) as reader:
        while records := reader.poll():
            for record in records:
                entry = record.entry
                if not isinstance(entry, EventUpdate) or entry.source is None:
                    continue
                reason = entry.frame.data.get("reason")
                if entry.frame.kind == "warning" and isinstance(reason, str):
                    texts = found.setdefault((entry.source, reason), [])
                    # A tag may hold what a terminal obeys.
                    text = "".join(c if c.isprintable() else "�" for c in entry.frame.text)
                    if text not in texts:
                        texts.append(text)
    return found
