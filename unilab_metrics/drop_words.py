"""Why something is missing of what was logged, in words that people know: by the names under which
it is counted, in files and on the wire. Pure.

The screen, lines of text, reports and ``doctor`` all say it with these.
"""

from __future__ import annotations

from collections.abc import Mapping

from unilab_metrics.wording import counted

_DROPS = {
    "forked": ("call in a forked process", "calls in forked processes"),
    "closed": ("call after close()", "calls after close()"),
    "spool_unavailable": ("call without a spool", "calls without a spool"),
    "no_run": ("record outside of any run", "records outside of any run"),
    "spool_full": ("record without room on the disk", "records without room on the disk"),
    "spool_quota": ("record above the spool's quota", "records above the spool's quota"),
    "spool_error": ("record the file system refused", "records the file system refused"),
    "oversize": ("record above 256 KiB", "records above 256 KiB"),
    "bad_value": ("value that is no number", "values that are no number"),
    "bad_tag": ("unusable tag name", "unusable tag names"),
    "bad_step": (
        "step not whole or beyond 2^50",
        "steps not whole or beyond 2^50",
    ),
    "bad_call": ("call with wrong arguments", "calls with wrong arguments"),
    "too_many_tags": ("tag above a process's limit", "tags above a process's limit"),
    "interrupted": ("call in a signal handler", "calls in a signal handler"),
    "internal_error": ("error inside unilab-metrics", "errors inside unilab-metrics"),
    "refused_frame": ("frame that the run refused", "frames that the run refused"),
    "too_many_run_tags": ("value above the run's tag limit", "values above the run's tag limit"),
    "too_many_reports": ("value in too many reports", "values in too many reports"),
    "lost frames": ("lost frame", "lost frames"),
    "quarantined frames": ("quarantined frame", "quarantined frames"),
    "other": ("for another reason", "for other reasons"),
}
_TROUBLES = {
    "key_refused": "key refused",
    "key_unusable": "key not readable",
    "store_unusable": "torch's store not usable",
}


def what_dropped(reason: str) -> str:
    """What was dropped for a reason, as the title of a number: ``values that are no number``."""
    known = _DROPS.get(reason)
    return reason.replace("_", " ") if known is None else known[1]


def counted_drops(reason: str, count: int) -> str:
    """``9 values that are no number``; of a reason that nobody knows here, its name."""
    known = _DROPS.get(reason)
    return f"{count:,} {what_dropped(reason)}" if known is None else counted(count, *known)


def dropped_text(drops: Mapping[str, int]) -> str:
    """Drops by reason in one line; ``nothing`` without."""
    return ", ".join(counted_drops(name, drops[name]) for name in sorted(drops)) or "nothing"


def trouble_words(name: str) -> str:
    """What a source has met that cost no frame: ``key refused``."""
    return _TROUBLES.get(name) or name.replace("_", " ")


def troubles_text(troubles: Mapping[str, int]) -> str:
    """All of them in one line: ``key refused once, key not readable 2 times``."""
    return ", ".join(f"{trouble_words(name)} {_times(troubles[name])}" for name in sorted(troubles))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
