"""Sources that another kernel runs: silence is all that is known of them, for a minute."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from sources_on_paper import MS, PaperRun, PaperSource

from unilab_metrics.aggregate.core import Core
from unilab_metrics.aggregate.folding.entries import Entry
from unilab_metrics.aggregate.folding.sources import SourceState
from unilab_metrics.aggregate.leaving import liveness
from unilab_metrics.aggregate.leaving.leftovers import SpoolDirectories
from unilab_metrics.aggregate.leaving.liveness import Liveness
from unilab_metrics.aggregate.options import Options
from unilab_metrics.aggregate.patience import Patience, everyone_is_gone
from unilab_metrics.aggregate.receiving.peers import Peer
from unilab_schema.updates import EventUpdate, Update

SECOND = 1_000_000_000
BEGIN_S = 1000


class PaperCore(Core):
    """Folds, and has neither a journal nor a disk."""

    def __init__(self, paper: PaperRun) -> None:
        self.state = paper.state
        self._paper = paper

    def fold(self, entry: Entry, records: object = None) -> None:
        del records
        self._paper.fold(entry)

    def makes_room(self) -> bool:
        return True


class Watch:
    """A liveness over a run on paper; ``now_s`` is the time since the aggregator began."""

    def __init__(self, paper: PaperRun, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paper = paper
        self.now_s = 0.0
        self.peers: dict[int, Peer] = {}
        monkeypatch.setattr(liveness.time, "monotonic_ns", self.now_ns)
        self.liveness = Liveness(
            PaperCore(paper),
            boot_id="ours",
            spools=SpoolDirectories([]),
            lost_after_s=Options().lost_after_s,
            peer=self._peer,
        )

    def now_ns(self) -> int:
        return int((BEGIN_S + self.now_s) * SECOND)

    def _peer(self, source: SourceState) -> Peer:
        return self.peers.setdefault(source.index, Peer(heard_mono_ns=self.now_ns()))

    def hears(self, source: PaperSource) -> None:
        self._peer(self.paper.state.data.sources[source.index]).heard_mono_ns = self.now_ns()

    def status(self, source: PaperSource, at_s: float) -> str:
        self.now_s = at_s
        self.liveness.check()
        return self.paper.state.data.sources[source.index].status


Make = Callable[[PaperRun], Watch]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda paper: Watch(paper, monkeypatch)


def far_rank(boot: str = "theirs") -> tuple[PaperRun, PaperSource, PaperSource]:
    """Rank 0 on this node, rank 1 on another one; both have sent an iteration."""
    paper = PaperRun()
    zero = paper.join(0, learners=2, boot="theirs")
    one = paper.join(1, learners=2, boot=boot)
    paper.fold(zero.iteration(0, {"a": 1.0}), one.iteration(0, {"a": 3.0}))
    return paper, zero, one


def test_the_default_is_a_minute_as_the_documents_say() -> None:
    assert Options().lost_after_s == 60.0
    text = Path(__file__).parents[2].joinpath("schema", "README.md").read_text("utf-8")
    assert "or, on another node, nothing came for 60 s." in " ".join(text.split())


def test_a_silent_one_holds_the_run_open_for_a_minute(watch: Make) -> None:
    paper, zero, one = far_rank()
    seen = watch(paper)
    patience = Patience(Options(), paper.state.data)
    seen.liveness.check()
    paper.settle()
    paper.fold(zero.end(t=5))
    assert seen.status(one, 10) == "live"
    assert not patience.is_over(frozenset)
    assert seen.status(one, 60) == "live"
    assert not patience.is_over(frozenset)
    assert seen.status(one, 60.5) == "lost"
    assert everyone_is_gone(paper.state.data)
    assert patience.is_over(frozenset)
    entries = [published.entry for published in paper.published]
    (event,) = [entry.frame for entry in entries if isinstance(entry, EventUpdate)]
    assert (event.kind, event.text[-30:]) == ("lost", "has not been heard of for 60 s")


def test_the_minute_begins_with_each_word(watch: Make) -> None:
    paper, _, one = far_rank()
    seen = watch(paper)
    for at_s in (0, 50, 100, 150):
        assert seen.status(one, at_s) == "live"
        seen.hears(one)
    assert seen.status(one, 209) == "live"
    assert seen.status(one, 211) == "lost"


def test_a_new_aggregator_gives_those_of_the_journal_a_minute_of_its_own(watch: Make) -> None:
    """Also what an earlier boot of this very node has left: nobody can tell it from afar."""
    paper, *ranks = far_rank("our earlier boot")
    seen = watch(paper)
    assert [seen.status(rank, 59) for rank in ranks] == ["live", "live"]
    assert [seen.status(rank, 119.5) for rank in ranks] == ["lost", "lost"]


@pytest.mark.parametrize(
    ("is_over_tcp", "has_lease", "lost_after_s"),
    [(True, False, 60), (False, False, 5), (True, True, 0), (False, True, 0)],
)
def test_a_container_whose_files_are_not_ours_is_far_although_its_kernel_is_ours(
    watch: Make, tmp_path: Path, is_over_tcp: bool, has_lease: bool, lost_after_s: float
) -> None:
    paper, _, one = far_rank("ours")
    seen = watch(paper)
    lease = tmp_path / "lease"
    source = paper.state.data.sources[one.index]
    source.identity = msgspec.structs.replace(one.identity, lease_path=str(lease), pid=2**30)
    seen.hears(one)
    seen.peers[one.index].is_over_tcp = is_over_tcp
    if has_lease:
        # Which nobody holds, of a process that does not run here.
        lease.touch()
    assert not lost_after_s or seen.status(one, lost_after_s - 0.5) == "live"
    assert seen.status(one, lost_after_s + 0.5) == "lost"


def test_a_containers_pid_is_not_taken_for_a_process_of_ours(watch: Make) -> None:
    paper, _, one = far_rank("ours")
    seen = watch(paper)
    source = paper.state.data.sources[one.index]
    # A zombie, whose exit code everybody may read.
    with subprocess.Popen(["sh", "-c", "exit 3"]) as ours:
        os.waitid(os.P_PID, ours.pid, os.WEXITED | os.WNOWAIT)
        source.identity = msgspec.structs.replace(
            one.identity, lease_path="/nowhere/lease", pid=ours.pid, started_mono_ns=2**62
        )
        seen.hears(one)
        seen.peers[one.index].is_over_tcp = True
        assert seen.status(one, 1) == "live"
        assert seen.status(one, 60.5) == "lost"
        assert source.ending == ""


def test_a_goodbye_needs_no_minute(watch: Make) -> None:
    paper, _, one = far_rank()
    seen = watch(paper)
    paper.fold(one.end(t=5))
    assert seen.status(one, 0.3) == "finished"


def test_iterations_wait_for_it_until_the_deadline_of_stragglers_and_then_not_again() -> None:
    paper, zero, _ = far_rank()
    paper.settle()
    for k in (1, 2):
        paper.fold(zero.iteration(k, {"a": 1.0}, t=k))
    paper.settle(29_000)
    assert len(paper.updates()) == 1
    paper.settle(1_500)
    paper.settle(30_000)
    paper.fold(zero.iteration(3, {"a": 1.0}, t=3))
    paper.settle()
    sealed = [update for update, _ in paper.updates() if isinstance(update, Update)]
    reported = [(update.iteration, update.ranks_reported) for update in sealed]
    assert reported == [(0, 2), (1, 1), (2, 1), (3, 1)]
    assert paper.now < 61_000 * MS
