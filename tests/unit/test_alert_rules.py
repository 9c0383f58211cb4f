"""The syntax of users' alert rules, and the rule on the mean reward."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unilab_schema.alert_rules import (
    MAX_HOLD_ITERATIONS,
    MAX_HOLD_S,
    matches,
    parse_alert_rule,
    parse_alert_rules,
)
from unilab_schema.reward_collapse import CollapseState, take_reward


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Loss/a > 3", ("Loss/a", ">", 3.0, 0.0, 1)),
        ("Loss/a>=3e2 for 30 s", ("Loss/a", ">=", 300.0, 30.0, 1)),
        ("Perf/collection time < -1 for 5m", ("Perf/collection time", "<", -1.0, 300.0, 1)),
        (" a == 0 for 3 iterations ", ("a", "==", 0.0, 0.0, 3)),
        ("a > +.5E-3", ("a", ">", 0.0005, 0.0, 1)),
        ("a < 1e-400", ("a", "<", 0.0, 0.0, 1)),
        ("a < 3.", ("a", "<", 3.0, 0.0, 1)),
        ('"a>b" != 2 for 1.5h', ("a>b", "!=", 2.0, 5400.0, 1)),
    ],
)
def test_a_rule_says_tag_operator_number_and_patience(text: str, expected: tuple[object, ...]):
    rule = parse_alert_rule(text)
    assert rule[1:] == expected
    assert rule.text == text.strip()
    assert parse_alert_rule(rule.text) == rule


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Loss/a", "position 7: expected one of"),
        ("> 3", "position 1: expected a tag"),
        ("a >", "position 4: expected a number"),
        ("a > x", "position 5: 'x' is no number"),
        ("a > nan", "position 5: 'nan' is no number"),
        ("a > inf", "position 5: 'inf' is no number"),
        ("a > -Infinity", "position 5: '-Infinity' is no number"),
        ("* > 1e400", "position 5: '1e400' is larger than any value can be"),
        ("a < -1e400 for 3 s", "position 5: '-1e400' is larger than any value can be"),
        ("a > 1_000", "position 5: '1_000' is no number such as 3, -0.5 or 2e6"),
        ("a > \u0661", "position 5: '\u0661' is no number"),
        ("a > 0x10", "position 5: '0x10' is no number"),
        ("a > 1,5", "position 5: '1,5' is no number"),
        ("a > 1 for \u0661 s", "position 7: expected nothing more"),
        ("a > 1 during 3 s", "position 7: expected nothing more"),
        ("a > 1 for 3 days", "position 13: unknown unit 'days'"),
        ("a > 1 for 0 iterations", "position 11"),
        ("a > 1 for 9999 h", "at most 30 days"),
        (f"a > 1 for {'9' * 400} iterations", "is no number of iterations"),
        (f"a > 1 for {'9' * 400} s", "at most 30 days"),
        ('"a > 1', "position 1: the quote is not closed"),
        ("a\x1b > 1", "control characters"),
        ("", "position 1"),
    ],
)
def test_a_mistake_names_the_rule_and_the_place(text: str, said: str):
    with pytest.raises(ValueError, match="alert rule") as error:
        parse_alert_rule(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "given_rules", ["a > 1", 3, [1], ["a > 1"] + [f"a > {n}" for n in range(70)]]
)
def test_what_is_no_list_of_rules_is_refused(given_rules: object):
    with pytest.raises(ValueError, match="alert"):
        parse_alert_rules(given_rules)


@given(st.text())
def test_any_text_is_a_rule_or_a_value_error(text: str):
    try:
        rule = parse_alert_rule(text)
    except ValueError:
        return
    assert parse_alert_rule(rule.text) == rule


_NUMBERS = st.one_of(
    st.floats().map(repr),
    st.integers(0, 10**480).map(str),
    st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{0,400})?(e[0-9]{1,5})?", fullmatch=True),
)


@given(
    st.sampled_from([">", "<=", "==", "!="]),
    _NUMBERS,
    _NUMBERS,
    st.sampled_from(["s", "H", "minutes", "iterations", "it", "days", ""]),
)
def test_any_number_in_a_rule_is_one_or_a_value_error(
    operator: str, value: str, hold: str, unit: str
):
    try:
        rule = parse_alert_rule(f"a {operator} {value} for {hold} {unit}")
    except ValueError:
        return
    assert 0 <= rule.hold_s <= MAX_HOLD_S
    assert 1 <= rule.hold_iterations <= MAX_HOLD_ITERATIONS


def test_only_the_star_is_special_in_a_pattern():
    rule = parse_alert_rule("Loss/*[1]*x > 0")
    assert matches(rule, "Loss/ab[1]yx")
    assert not matches(rule, "Loss/ab1yx")
    assert not matches(parse_alert_rule("ab*ba > 0"), "aba")
    assert matches(parse_alert_rule("* > 0"), "anything at all")


def _collapses(rewards: list[float]) -> list[bool]:
    state = CollapseState()
    changes = [take_reward(state, r, n * 1_000_000_000) for n, r in enumerate(rewards)]
    return [change.began for change in changes if change is not None]


@pytest.mark.parametrize("shift", [0.0, -2000.0, 500.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_fall_is_told_once_and_its_end_once(seed: int, shift: float):
    noise = random.Random(seed)
    course = [min(n, 1000) for n in range(1500)] + [100.0] * 300 + [1000.0] * 100
    assert _collapses([shift + r + noise.gauss(0, 20) for r in course]) == [True, False]


@pytest.mark.parametrize("seed", range(3))
def test_noise_slow_drift_and_short_dips_are_none(seed: int):
    noise = random.Random(seed)
    flat = [noise.gauss(-50, 30) for _ in range(3000)]
    rising = [-1000 + 0.5 * n + noise.gauss(0, 100) for n in range(2000)]
    dip = [float(n) for n in range(1000)] + [0.0] * 40 + [1000.0] * 200
    at_first = [100.0] * 60 + [-500.0] * 100
    for rewards in (flat, rising, dip, at_first):
        assert _collapses(rewards) == []


@pytest.mark.parametrize(("peak", "expected"), [(10.0, [True]), (100.0, [])])
def test_what_is_little_of_the_reward_itself_is_no_collapse(peak: float, expected: list[bool]):
    progress = [peak - 10.0] * 200 + [peak] * 100
    assert _collapses([*progress, *([peak - 8.0] * 200)]) == expected


@pytest.mark.parametrize("noise", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_reward_that_only_ever_fell_has_nothing_to_lose(seed: int, noise: float):
    dice = random.Random(seed)
    assert _collapses([100.0 - 0.5 * n + dice.gauss(0, noise) for n in range(1500)]) == []


def test_what_was_gained_without_noise_can_be_lost():
    course = [min(n, 300) / 10 for n in range(600)] + [0.0] * 200
    assert _collapses(course) == [True]
