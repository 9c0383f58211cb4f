"""Saying what a process leaves behind when it ends: how much, where, why, and what to do."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Protocol

from unilab_metrics.publish.delivery import Delivery

_SILENT_AFTER_S = 3.0
DUPLICATE = "duplicate_rank: "
"""Another process has the place; what we say is none of the run's numbers."""


def reason(delivery: Delivery, trouble: str, now_ns: int) -> str:
    """Why what there is has not gone out. ``trouble``: what is wrong with the helper that
    this process starts. Empty if an aggregator is there, which had too little time."""
    silent_s = (now_ns - delivery.answered_ns) / 1e9
    if delivery.refused:
        return delivery.refused
    if delivery.put_off:
        return delivery.put_off
    if delivery.answered_ns and silent_s < _SILENT_AFTER_S:
        return delivery.journal_full
    if trouble:
        return f"no aggregator: it {trouble}"
    if delivery.answered_ns:
        return f"the aggregator has been silent for {silent_s:.0f} s"
    return "no aggregator has answered"


def left_behind(unsent: int, spool: Path, run_dir: Path | None, why: str) -> str:
    """One line; empty if an aggregator is at work on the rest, ``why`` being empty.

    ``unsent``: records that are in no journal, 0 if only the run's end is open. ``run_dir``:
    ``None`` for a process that has not found its run.
    """
    folder = "RUN_DIR" if run_dir is None else shlex.quote(os.fspath(run_dir))
    command = f"`unilab-metrics recover {folder}`"
    if unsent and why.startswith(DUPLICATE):
        return f"{unsent} unsent: these frames wait in {spool} ({why}), and will count as late"
    if unsent:
        why = why or "the time was too short"
        return f"{unsent} unsent: these frames wait in {spool} ({why}); {command} delivers them"
    return why and f"the run is not complete in every backend ({why}); {command} completes it"


class Leaving(Protocol):
    """A shipper that has not delivered everything."""

    @property
    def left_behind(self) -> str:
        """What, and why; empty if it is on its way."""
        ...

    @property
    def is_starting(self) -> bool:
        """Whether our aggregator is on its way up, as far as is known."""
        ...


def say(shipper: Leaving | None, *, is_exiting: bool) -> None:
    """One ``RuntimeWarning``, or at the exit one line of the error output; never raises.

    A process that ends before its aggregator is up need not say anything: the aggregator
    takes what is left.
    """
    if shipper is None:
        return
    text = shipper.left_behind
    if not text or (is_exiting and shipper.is_starting):
        return
    if is_exiting:
        _write_line(text)
        return
    try:
        # The caller of Publisher.close().
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    except RuntimeWarning:
        # Warnings are errors here, but a training must not end because of us.
        _write_line(text)


def _write_line(text: str) -> None:
    with contextlib.suppress(Exception):
        if sys.stderr is not None:
            print(f"unilab-metrics: {text}", file=sys.stderr, flush=True)  # noqa: T201
