"""Alerts as part of the fold: when they open and end, and that a refold gives the same."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import numpy as np
import pytest
from sources_on_paper import PaperRun

from unilab_metrics.aggregate.folding import alerting
from unilab_metrics.aggregate.folding.alert_books import MAX_OPENED
from unilab_metrics.aggregate.folding.alert_tracking import GONE_UPDATES
from unilab_metrics.aggregate.folding.entries import AlertRules, Entry, Notice
from unilab_metrics.aggregate.folding.reduction import Reduced, Supplier
from unilab_metrics.aggregate.folding.remembering import remember_latest
from unilab_metrics.aggregate.folding.run_data import NonFinite
from unilab_metrics.aggregate.folding.state import AggregatorState, Publication
from unilab_schema.alert_rules import AlertRule, parse_alert_rule
from unilab_schema.alerts import ALERT, ALERT_OVER
from unilab_schema.frames import Scalar
from unilab_schema.identity import RunInfo
from unilab_schema.known_names import NAMES
from unilab_schema.updates import EventUpdate

S = 1_000_000_000


class Paper:
    """A state whose updates come without sources, one a second."""

    def __init__(self, *rules: str) -> None:
        self.state = AggregatorState()
        self.handle(AlertRules(rules, 0, 0))
        self.now_s = 0.0
        self.told: list[Publication] = []

    def handle(self, entry: Entry) -> list[Publication]:
        return self.state.handle(entry)

    def update(self, after_s: float = 1.0, ranks: int = 1, **values: float) -> list[str]:
        return self.take({name.replace("_", "/"): v for name, v in values.items()}, after_s, ranks)

    def take(self, values: dict[str, float], after_s: float = 1.0, ranks: int = 1) -> list[str]:
        self.now_s += after_s
        data, columns = self.state.data, self.state.columns
        data.last_iteration = (data.last_iteration or 0) + 1
        data.iterations_sealed += 1
        numbers = columns.columns(tuple(values))
        order = np.argsort(numbers)
        given = np.array(list(values.values()))
        reduced = Reduced(numbers[order], given[order])
        suppliers = [Supplier(rank, numbers, given, None) for rank in range(ranks)]
        now = round(self.now_s * S)
        remember_latest(self.state, reduced, data.last_iteration)
        self.told += (told := self.state.alerting.take_update(reduced, suppliers, now, now))
        return texts(told)

    def reopen(self) -> None:
        self.state = AggregatorState(self.state.snapshot())


def texts(published: Iterable[Publication]) -> list[str]:
    found: list[str] = []
    for one in published:
        assert isinstance(one.entry, EventUpdate)
        mark = {ALERT: "+", ALERT_OVER: "-"}[one.entry.frame.kind]
        found.append(f"{mark} {one.entry.frame.text}")
    return found


def test_nan_is_one_alert_until_the_tag_has_been_finite_for_ten_updates():
    paper = Paper()
    assert paper.update(Loss_a=1.0) == []
    assert paper.update(Loss_a=math.nan, ranks=2) == ["+ NaN in Loss/a at iteration 2, all 2 ranks"]
    assert [paper.update(Loss_a=math.inf) for _ in range(5)] == [[]] * 5
    assert [paper.update(Loss_a=1.0) for _ in range(9)] == [[]] * 9
    assert paper.update(Loss_a=math.nan) == []
    assert [paper.update(Loss_a=1.0) for _ in range(9)] == [[]] * 9
    assert paper.update(Loss_a=1.0) == ["- finite again 10 times in a row: Loss/a"]
    assert paper.state.data.alerts.open == {}
    assert paper.update(Loss_a=-math.inf)[0].startswith("+ -infinity in Loss/a at iteration 28")


def test_a_flood_is_one_alert_that_ends_with_its_last_tag():
    paper = Paper()
    tags = [f"Loss/{n}" for n in range(12_345)]
    (told,) = paper.take(dict.fromkeys(tags, math.nan))
    assert told.startswith("+ NaN in Loss/0 and 12,344 more tags at iteration 1")
    values = dict.fromkeys(tags, 0.0) | {"Loss/7": math.nan}
    assert [paper.take(values) for _ in range(12)] == [[]] * 12
    values["Loss/7"] = 0.0
    assert [told for _ in range(10) for told in paper.take(values)] == [
        "- finite again 10 times in a row: Loss/0"
    ]


def test_alerts_in_a_minute_are_bounded_and_the_rest_is_told_together_later():
    paper = Paper()
    tags = [f"t{n}" for n in range(100)]
    opened = 0
    for n in range(100):
        told = paper.take(dict.fromkeys(tags[: n + 1], math.nan), after_s=0.1)
        opened += len(told)
    assert opened == MAX_OPENED
    (told,) = paper.take(dict.fromkeys(tags, math.nan), after_s=60)
    assert "and 93 more tags" in told
    assert paper.state.data.alerts.raised == MAX_OPENED + 1


def test_a_rule_needs_its_time_and_ends_after_three_updates():
    paper = Paper("Loss/* > 5 for 3 s")
    assert paper.update(Loss_a=9.0, Loss_b=1.0) == []
    assert paper.update(Loss_a=9.0) == []
    assert paper.update(Loss_a=4.0) == []
    assert [paper.update(Loss_a=9.0) for _ in range(3)] == [[]] * 3
    assert paper.update(Loss_a=9.0) == ["+ Loss/a = 9 at iteration 7 (Loss/* > 5 for 3 s)"]
    assert [paper.update(Loss_a=value) for value in (9.0, 1.0, 1.0, 9.0, 1.0, 1.0)] == [[]] * 6
    assert paper.update(Loss_a=1.0) == ["- over after 7 iterations: Loss/* > 5 for 3 s (Loss/a)"]


def test_a_rule_may_count_updates_and_nan_is_no_value_for_it():
    paper = Paper("a <= 0 for 3 iterations")
    assert [paper.update(a=value) for value in (0.0, -1.0)] == [[]] * 2
    assert len(paper.update(a=math.nan)) == 1  # of the NaN itself
    assert paper.update(a=0.0) == ["+ a = 0 at iteration 4 (a <= 0 for 3 iterations)"]


@pytest.mark.parametrize("cut", range(0, 40, 7))
def test_a_snapshot_anywhere_changes_nothing(cut: int):
    straight, cut_up = Paper("b != 1 for 2 s"), Paper("b != 1 for 2 s")
    for n in range(40):
        values = {"a": math.nan if n % 17 < 3 else 1.0, "b": float(n % 9 < 5), f"c{n}": math.inf}
        assert straight.take(values) == cut_up.take(values)
        if n == cut:
            cut_up.reopen()
    assert straight.state.data.alerts.open == cut_up.state.data.alerts.open
    assert [p.sequence for p in straight.told] == [p.sequence for p in cut_up.told]


def test_without_the_entry_that_turns_alerts_on_an_old_journal_folds_as_it_did():
    paper = Paper()
    paper.state = AggregatorState()
    assert paper.update(a=math.nan) == []


def test_a_decided_alert_is_told_once_and_ends_once():
    paper = Paper()
    facts: dict[str, Scalar] = {"rule": "stalled", "subject": "learner 0"}
    begun = Notice(ALERT, "stalled", 1, 1, facts)
    over = Notice(ALERT_OVER, "goes on", 2, 2, facts)
    assert texts(paper.handle(begun)) == ["+ stalled"]
    paper.reopen()
    assert paper.handle(begun) == []
    assert paper.state.alerting.is_open("stalled", "learner 0")
    assert texts(paper.handle(over)) == ["- goes on"]
    assert paper.handle(over) == []


def test_what_only_the_history_tells_is_not_opened_again_and_ends():
    paper = Paper("b > 1")
    paper.update(a=math.nan, b=2.0)
    later = Paper("b > 1")
    later.update(a=0.0, b=0.0)
    for one in paper.told:
        assert isinstance(one.entry, EventUpdate)
        later.state.alerting.adopt(one.sequence, one.entry.frame)
    assert later.update(a=math.nan, b=2.0) == []
    ends = [told for _ in range(10) for told in later.update(a=1.0, b=0.0)]
    assert [end[0] for end in ends] == ["-", "-"]


def test_a_flood_that_only_the_history_tells_of_is_not_told_again_and_ends_with_its_last_tag():
    flood = {f"a{n}": math.nan for n in range(500)} | {f"b{n}": 9.0 for n in range(500)}
    well = dict.fromkeys(flood, 1.0)
    paper, later = Paper("b* > 5"), Paper()
    assert [one[0] for one in paper.take(flood)] == ["+", "+"]
    # The wal is lost, and with it what the rules were; the history has values and alerts.
    later.state = AggregatorState()
    columns = later.state.columns.columns(tuple(flood))
    remember_latest(later.state, Reduced(columns, np.array([*flood.values()])), 1)
    for one in paper.told:
        assert isinstance(one.entry, EventUpdate)
        later.state.alerting.adopt(one.sequence, one.entry.frame)
    assert later.handle(AlertRules(("b* > 5",), 0, 0)) == []
    assert [later.take(flood) for _ in range(5)] == [[]] * 5
    assert [later.take(well | {"a7": math.nan, "b7": 9.0}) for _ in range(12)] == [[]] * 12
    assert [told[0] for _ in range(10) for told in later.take(well)] == ["-", "-"]
    assert later.state.data.alerts.raised == 2


@pytest.mark.parametrize("rules", [(), ("a > 5",)])
def test_an_alert_of_a_tag_that_is_not_logged_any_more_ends(rules: tuple[str, ...]):
    bad = 9.0 if rules else math.nan
    paper = Paper(*rules)
    assert len(paper.take({"a": bad})) == 1
    assert [paper.update(b=1.0) for _ in range(GONE_UPDATES - 1)] == [[]] * (GONE_UPDATES - 1)
    assert paper.take({"a": bad}) == []
    # A thousand updates within less than ten minutes are not enough.
    assert [told for _ in range(1100) for told in paper.update(after_s=0.5, b=1.0)] == []
    paper.reopen()
    paper.now_s += 49
    name = " (a > 5)" if rules else ""
    assert paper.update(b=1.0) == [f"- no longer logged: a{name}"]
    assert paper.state.data.alerts.open == {}
    assert len(paper.take({"a": bad})) == 1


def test_a_tag_that_is_logged_rarely_keeps_its_alert():
    paper = Paper()
    assert len(paper.take({"evaluation": math.nan})) == 1
    # Ten minutes a hundred times over, but few updates.
    assert [paper.update(after_s=60.0, b=1.0) for _ in range(GONE_UPDATES - 2)] == [[]] * 998
    assert paper.take({"evaluation": math.nan}) == []
    assert [paper.update(after_s=60.0, b=1.0) for _ in range(GONE_UPDATES - 1)] == [[]] * 999
    assert paper.update(b=1.0) == ["- no longer logged: evaluation"]


def test_a_collapse_of_a_reward_that_is_not_logged_any_more_ends():
    paper = Paper()
    rewards = [100.0 * min(n / 200, 1.0) for n in range(300)] + [0.0] * 100
    told = [one for r in rewards for one in paper.take({"Train/mean_reward": r})]
    assert [one[0] for one in told] == ["+"]
    assert [paper.update(b=1.0) for _ in range(GONE_UPDATES - 1)] == [[]] * 999
    assert paper.update(b=1.0) == ["- no longer logged: Train/mean_reward"]
    assert paper.update(b=1.0) == []


COLLAPSING = [100.0 * min(n / 200, 1.0) for n in range(300)] + [0.0] * 100


@pytest.mark.parametrize("tag", ["rollout/ep_rew_mean", "charts/episodic_return", "rewards/iter"])
def test_a_collapse_is_told_of_the_reward_of_another_library(tag: str):
    paper = Paper()
    paper.handle(AlertRules((), 0, 0, NAMES["reward"]))
    (told,) = [one for r in COLLAPSING for one in paper.take({tag: r, "b": 1.0})]
    assert told.startswith(f"+ reward collapse: {tag} fell from 100 to 0")
    assert paper.state.data.best_mean_reward == 100.0


def test_a_journal_that_knows_no_other_names_folds_as_it_did():
    paper = Paper()
    assert [one for r in COLLAPSING for one in paper.take({"charts/episodic_return": r})] == []


def test_a_runs_own_name_is_the_reward_and_no_other():
    paper = Paper()
    paper.handle(AlertRules((), 0, 0, NAMES["reward"]))
    paper.state.data.run = RunInfo("ppo", reward_tag="eval/return")
    told = [one for r in COLLAPSING for one in paper.take({"Train/mean_reward": r})]
    assert told == []
    (text,) = [one for r in COLLAPSING for one in paper.take({"eval/return": r})]
    assert text.startswith("+ reward collapse: eval/return fell")
    assert paper.state.data.best_mean_reward == 100.0


def test_with_a_name_that_counts_for_more_the_rule_begins_anew():
    paper = Paper()
    paper.handle(AlertRules((), 0, 0, NAMES["reward"]))
    told = [one for r in COLLAPSING for one in paper.take({"charts/episodic_return": r})]
    assert [one[0] for one in told] == ["+"]
    paper.reopen()
    told = paper.take({"Train/mean_reward": 1.0, "charts/episodic_return": 0.0})
    assert told == ["- the reward is Train/mean_reward from here on"]
    assert paper.state.data.alerts.collapse.reports == 1
    assert paper.state.data.best_mean_reward == 1.0
    told = [one for r in COLLAPSING for one in paper.take({"Train/mean_reward": r})]
    assert [one[:36] for one in told] == ["+ reward collapse: Train/mean_reward"]


def test_values_that_come_after_their_iteration_count_too_and_name_it():
    run = PaperRun()
    run.fold(AlertRules(("late > 5",), 0, 0))
    zero, one = run.join(0, learners=2), run.join(1, learners=2)
    run.fold(zero.iteration(1, {"a": 1.0}))
    run.settle()
    run.settle(60_000)
    run.fold(one.iteration(1, {"a": math.nan, "b": math.nan, "late": 9.0}))
    run.settle()
    run.settle(60_000)
    alerts = [
        one.entry.frame
        for one in run.published
        if isinstance(one.entry, EventUpdate) and one.entry.frame.kind == ALERT
    ]
    assert [one.text for one in alerts] == [
        "NaN in b at iteration 1, rank 1 of 2",
        "late = 9 at iteration 1 (late > 5)",
    ]
    assert [one.iteration for one in alerts] == [1, 1]
    assert run.state.data.first_nonfinite == {"b": NonFinite(1, 1)}


def test_a_rule_that_is_taken_away_ends_its_alert():
    paper = Paper("a > 1")
    assert len(paper.update(a=2.0)) == 1
    assert texts(paper.handle(AlertRules((), 1, 1))) == ["- the rule was taken away"]
    assert paper.state.data.alerts.open == {}


def test_rules_that_this_version_cannot_read_cost_themselves_only():
    paper = Paper("a ~ 1", "a > 1")
    assert len(paper.update(a=2.0)) == 1


def test_the_data_of_an_older_snapshot_has_no_alerts():
    data = msgspec.msgpack.decode(AggregatorState().snapshot())
    older = msgspec.msgpack.encode(data[:-1])
    assert not AggregatorState(older).data.alerts.is_active


def test_a_rule_that_cannot_be_read_is_left_out(monkeypatch: pytest.MonkeyPatch):
    def raises(text: str) -> AlertRule:
        if text.startswith("bad"):
            raise OverflowError(text)
        return parse_alert_rule(text)

    monkeypatch.setattr(alerting, "parse_alert_rule", raises)
    paper = Paper("bad > 1", "b > 5")
    assert paper.state.data.alerts.rules == ["b > 5"]
    assert len(paper.update(b=6)) == 1
