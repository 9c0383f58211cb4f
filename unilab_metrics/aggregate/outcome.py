"""The run's end as facts, for the summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from unilab_metrics.aggregate.folding.remembering import MEAN_REWARD_TAG
from unilab_metrics.aggregate.folding.run_data import RunData
from unilab_metrics.aggregate.folding.state import AggregatorState
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_metrics.outcome import FAILED, RunOutcome, SourceOutcome
from unilab_schema.frames import Scalar

MAX_UNREGISTERED = 256
"""Tags that the summary names; a run of 12,345 tags needs no list of them."""


def end_status(data: RunData) -> tuple[str, str]:
    """Status and text of an attempt whose every source is gone.

    Rank 0's learner decides by what it closed with; if it is gone without goodbye, the run
    failed.
    """
    zeros = [s for s in data.sources if s.is_learner and s.rank == 0 and not s.is_double]
    zeros = [s for s in zeros if s.attempt == data.attempt] or zeros
    judged = zeros[-1] if zeros else (data.sources[-1] if data.sources else None)
    if judged is not None and judged.ended is not None:
        return judged.ended or "completed", ""
    lost = [s for s in data.sources if s.status == "lost" and s.attempt == data.attempt]
    places = ", ".join(s.identity.key.place + (f" ({s.ending})" if s.ending else "") for s in lost)
    return FAILED, f"gone without goodbye: {places}" if places else "no source ever connected"


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
                frames=source.cursor - source.lost_frames,
                lost=source.lost_frames,
                drops=source.dropped(source.drops or (peer.drops if peer is not None else {})),
                troubles=dict(source.troubles or (peer.troubles if peer is not None else {})),
            )
        )
    return RunOutcome(
        run=data.run,
        run_dir=run_dir,
        attempt=data.attempt,
        status=data.ended or FAILED,
        text=data.ended_text,
        started_unix_ns=data.opened_unix_ns,
        ended_unix_ns=data.ended_unix_ns,
        elapsed_s=data.elapsed_s,
        updates=data.next_update - 1,
        iterations=data.last_iteration,
        iterations_sealed=data.iterations_sealed,
        first_iteration=data.first_iteration,
        env_steps=data.env_steps,
        sources=sources,
        late_values=data.late_values,
        quarantined=data.quarantined,
        summary={**_rewards(state), **data.summary},
        backends=dict(backends),
        unregistered_tags=state.columns.unregistered()[:MAX_UNREGISTERED],
        warnings={**data.warnings, **dict.fromkeys(troubles, 1)},
        helper_troubles={n: (t.count, t.by, t.reason) for n, t in data.troubles.items()},
        first_nonfinite={t: (n.iteration, n.rank) for t, n in data.first_nonfinite.items()},
    )


def _rewards(state: AggregatorState) -> dict[str, Scalar]:
    """The summary's reward fields, which only the reduced updates know."""
    if state.latest_value(MEAN_REWARD_TAG) is None:
        return {}
    return {
        "final_mean_reward": state.latest_value(MEAN_REWARD_TAG),
        "best_mean_reward": state.data.best_mean_reward,
        "mean_episode_length": state.latest_value("Train/mean_episode_length"),
    }
