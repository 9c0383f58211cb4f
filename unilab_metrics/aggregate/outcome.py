"""The run's end as facts, for the summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from unilab_metrics.aggregate.announcing.training_time import began_mono_ns
from unilab_metrics.aggregate.folding.remembering import reward_tag
from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.folding.sealing import counted_steps
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.outcome import (
    FAILED,
    FAILURES,
    MAX_OPEN_ALERTS,
    STOPPED,
    TOLD_TO_END,
    RunOutcome,
    SourceOutcome,
)
from unilab_schema.frames import Scalar
from unilab_schema.known_names import NAMES

MAX_UNREGISTERED = 256
"""Tags that the summary names; a run of 12,345 tags needs no list of them."""


def end_status(data: RunData) -> tuple[str, str]:
    """Status and text of an attempt whose every source is gone.

    Rank 0's learner decides by what it closed with; if it is gone without goodbye, the run
    failed, except that somebody has ended it on purpose, and no other one has failed: a launcher
    ends the others when one has.
    """
    zeros = [s for s in data.sources if s.is_learner and s.rank == 0 and not s.is_double]
    zeros = [s for s in zeros if s.attempt == data.attempt] or zeros
    judged = zeros[-1] if zeros else (data.sources[-1] if data.sources else None)
    if judged is not None and judged.ended is not None:
        return judged.ended or "completed", ""
    lost = [s for s in data.sources if s.status == "lost" and s.attempt == data.attempt]
    places = ", ".join(s.identity.key.place + (f" ({s.ending})" if s.ending else "") for s in lost)
    was_told = judged is not None and judged.ending in TOLD_TO_END
    failed = [s for s in data.sources if s.attempt == data.attempt and s.ended in FAILURES]
    if was_told and not failed and all(s.ending in TOLD_TO_END for s in lost):
        return STOPPED, f"stopped by {judged.ending}" if judged is not None else ""
    return FAILED, f"ended without close(): {places}" if places else "no source ever connected"


def outcome_of(
    state: AggregatorState,
    run_dir: Path,
    peers: Mapping[int, Peer],
    backends: Mapping[str, int],
    troubles: Iterable[str] = (),
) -> RunOutcome:
    """What the aggregator knows when the attempt ends. ``troubles``: warnings that are no
    events."""
    data = state.data
    sources: list[SourceOutcome] = []
    for source in data.sources:
        if source.attempt != data.attempt:
            continue
        peer = peers.get(source.index)
        sources.append(
            SourceOutcome(
                key=source.identity.key,
                pid=source.identity.pid,
                host=source.identity.host,
                state=source.status,
                ending=source.ending,
                ended=source.ended or "",
                late_values=source.late_values,
                last_iteration=source.last_iteration,
                frames=source.cursor - source.lost_frames,
                lost=source.lost_frames,
                drops=source.dropped(source.drops or (peer.drops if peer is not None else {})),
                troubles=dict(source.troubles or (peer.troubles if peer is not None else {})),
            )
        )
    elapsed_s = _elapsed_s(data)
    lasted_s = elapsed_s - data.earlier_elapsed_s
    return RunOutcome(
        run=data.run,
        run_dir=run_dir,
        attempt=data.attempt,
        status=data.ended or end_status(data)[0],
        text=data.ended_text,
        started_unix_ns=data.opened_unix_ns,
        ended_unix_ns=data.ended_unix_ns or data.opened_unix_ns + int(lasted_s * 1e9),
        lasted_s=_lasted_s(data),
        elapsed_s=elapsed_s,
        updates=data.next_update - 1,
        iterations=data.last_iteration,
        iterations_sealed=data.iterations_sealed,
        first_iteration=data.first_iteration,
        env_steps=counted_steps(state),
        sources=sources,
        late_values=data.late_values,
        quarantined=data.quarantined,
        summary={**_rewards(state), **data.summary},
        backends=dict(backends),
        unregistered_tags=state.columns.unregistered()[:MAX_UNREGISTERED],
        warnings={**data.warnings, **dict.fromkeys(troubles, 1)},
        helper_troubles={n: (t.count, t.by, t.reason) for n, t in data.troubles.items()},
        first_nonfinite={t: (n.iteration, n.rank) for t, n in data.first_nonfinite.items()},
        alerts_raised=data.alerts.raised,
        alerts_open=[one.text for one in data.alerts.open.values()][-MAX_OPEN_ALERTS:],
        alerts_open_count=len(data.alerts.open),
    )


def _lasted_s(data: RunData) -> float | None:
    """From the start of who opened the attempt until the newest stamp of its node, if that can be
    compared."""
    here = [source for source in data.sources if source.attempt == data.attempt]
    opener = next((s for s in here if s.identity.started_unix_ns == data.opened_unix_ns), None)
    if opener is None:
        return None
    began = opener.identity.started_mono_ns
    stamps = [
        max(s.watermark_mono_ns, s.newest_stamp[0], s.ended_mono_ns or 0)
        for s in here
        if s.identity.boot_id == opener.identity.boot_id
    ]
    newest = max(stamps)
    return (newest - began) / 1e9 if newest > began else None


def _elapsed_s(data: RunData) -> float:
    """Until the last iteration of any rank: an update has rank 0's time, and what comes too late
    for its iteration is in none. Each rank's time by its own clock."""
    learners = [s for s in data.sources if s.is_learner and s.attempt == data.attempt]
    lasted_s = [
        (s.newest_stamp[0] - began_mono_ns(s, learners)) / 1e9
        for s in learners
        if s.newest_stamp[0]
    ]
    return max(data.elapsed_s, data.earlier_elapsed_s + max(lasted_s, default=0.0))


def _rewards(state: AggregatorState) -> dict[str, Scalar]:
    """The summary's reward fields, which only the reduced updates know."""
    final = state.latest_value(reward_tag(state))
    if final is None:
        return {}
    lengths = map(state.latest_value, NAMES["episode_length"])
    return {
        "final_mean_reward": final,
        "best_mean_reward": state.data.best_mean_reward,
        "mean_episode_length": next((length for length in lengths if length is not None), None),
    }
