"""How often torch's store is asked: seldom when it raises or is slow, soon when it is needed."""

from __future__ import annotations

from stores_on_paper import PaperStore, RaisingStore

from unilab_metrics.run.meeting import torch_store
from unilab_metrics.run.meeting.torch_store import TorchStore


def test_a_store_that_raises_is_left_alone_for_longer_and_longer():
    store, now_s, troubles = RaisingStore(), [0.0], list[str]()
    visitor = TorchStore(troubles.append, find=lambda: store, clock=lambda: now_s[0])
    for _ in range(600):
        visitor.visit(lambda s: s.set("k", "v"))
        now_s[0] += 1.0
    assert 8 < len(store.calls) < 20
    assert set(troubles) == {"RuntimeError: the store is gone"}


def test_a_slow_store_is_asked_rarely():
    store, now_s, troubles = PaperStore(), [0.0], list[str]()
    visitor = TorchStore(troubles.append, find=lambda: store, clock=lambda: now_s[0])

    def slow(there: torch_store.Store) -> None:
        there.check(["k"])
        now_s[0] += 3.0

    for _ in range(100):
        visitor.visit(slow)
        now_s[0] += 1.0
    assert len(store.calls) < 20
    assert troubles[0] == "it took 3.0 s to answer"


def test_a_store_that_is_needed_is_asked_again_soon_also_when_it_is_slow():
    store, now_s = PaperStore(), [0.0]
    visitor = TorchStore([].append, find=lambda: store, clock=lambda: now_s[0])

    def slow(there: torch_store.Store) -> None:
        there.check(["k"])
        now_s[0] += 3.0

    def visits(seconds: float, *, is_needed: bool) -> int:
        before = len(store.calls)
        end_s = now_s[0] + seconds
        while now_s[0] < end_s:
            visitor.visit(slow, is_needed=is_needed)
            now_s[0] += 0.1
        return len(store.calls) - before

    assert visits(6.5, is_needed=True) == 2
    assert visits(20, is_needed=False) == 1
    visitor.hurry()
    assert visits(10, is_needed=True) >= 3
