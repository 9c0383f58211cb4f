"""A viewer asks a live run for every rank's values, and gets what was logged."""

from __future__ import annotations

import math
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from real_runs import until as wait_until
from steered_ranks import steered

from unilab_metrics.storage.lease import is_free
from unilab_metrics.subscribe.asking import NoAnswer
from unilab_metrics.subscribe.subscriber import Subscriber
from unilab_metrics.transport.rendezvous import aggregator_lease
from unilab_schema.requests import RankValues
from unilab_sidecar.feeding.feed import Feed
from unilab_sidecar.feeding.questions import RanksQuestion

COLLECTOR = (
    "run c = um.connect(role='collector', instance=1);"
    " c.log({'Perf/collector_env_step_ms': 0.1 + 0.2}, env_steps=64)"
)


@contextmanager
def watching(run_dir: Path) -> Iterator[Callable[..., RankValues | NoAnswer]]:
    feed = Feed(lambda: Subscriber.attach(run_dir), wait_for_bus=True)
    thread = threading.Thread(target=feed.run)
    thread.start()

    def ask(*tags: str, until: Callable[[RankValues], bool] | None = None) -> RankValues | NoAnswer:
        """Asks again and again until an answer is as it should be (``None``: however it is)."""
        deadline_s = time.monotonic() + 40
        feed.ask(RanksQuestion(tags))
        last: RankValues | NoAnswer = NoAnswer("none")
        while time.monotonic() < deadline_s:
            for batch in feed.wait(0.2):
                assert batch.failure is None, batch.failure
                for answer in batch.answers:
                    assert isinstance(answer.reply, RankValues | NoAnswer)
                    last = answer.reply
                    if until is None or (isinstance(last, RankValues) and until(last)):
                        return last
                    feed.ask(RanksQuestion(tags))
        return last

    try:
        yield ask
    finally:
        feed.stop()
        thread.join(30)


def table(reply: RankValues | NoAnswer) -> dict[tuple[int, str, int], dict[str, float]]:
    assert isinstance(reply, RankValues), reply
    found: dict[tuple[int, str, int], dict[str, float]] = {}
    for row in reply.rows:
        count = len(reply.tags)
        values = struct.unpack(f"<{count}d", row.values)
        ages = struct.unpack(f"<{count}d", row.ages_s)
        found[row.key.rank, row.key.role, row.key.instance] = {
            tag: value
            for tag, value, age_s in zip(reply.tags, values, ages, strict=True)
            if not math.isnan(age_s) and 0.0 <= age_s < 120.0
        }
    return found


@pytest.mark.slow
def test_the_values_are_those_that_each_rank_has_logged(run_dir: Path) -> None:
    with steered(run_dir, 2) as (zero, one), watching(run_dir) as ask:
        zero.log(1, 7, value=1 / 3)
        one.log(1, 5, value=2e-300)
        one.do(COLLECTOR)
        tags = ("Loss/value", "Perf/collector_env_step_ms", "Nobody/has_it")
        reply = ask(
            *tags, until=lambda reply: len(reply.rows) == 3 and bool(reply.spreads[1].count)
        )
        assert table(reply) == {
            (0, "learner", 0): {"Loss/value": 1 / 3},
            (1, "collector", 1): {"Perf/collector_env_step_ms": 0.1 + 0.2},
            (1, "learner", 0): {"Loss/value": 2e-300},
        }
        assert isinstance(reply, RankValues)
        assert {row.key.rank: row.iteration for row in reply.rows if row.key.role == "learner"} == {
            0: 7,
            1: 5,
        }
        assert [(s.count, s.minimum, s.maximum) for s in reply.spreads] == [
            (2, 2e-300, 1 / 3),
            (1, 0.1 + 0.2, 0.1 + 0.2),
            (0, None, None),
        ]
        one.kill()
        one.process.wait(30)
        lost = ask(
            "Loss/value",
            until=lambda reply: any(r.state == "lost" for r in reply.rows if r.key.rank == 1),
        )
        assert table(lost)[1, "learner", 0] == {"Loss/value": 2e-300}
        assert isinstance(lost, RankValues)
        assert (lost.spreads[0].count, lost.spreads[0].minimum) == (1, 1 / 3)
        zero.end()
    wait_until(lambda: is_free(aggregator_lease(run_dir)))
    with watching(run_dir) as ask:
        answer = ask("Loss/value")
        assert isinstance(answer, NoAnswer)
        assert "only a live run" in answer.text
