"""Rules of a user's own: ``TAG OP NUMBER``, then perhaps ``for 30 s`` or ``for 3 iterations``.
Pure.

``TAG`` is a tag or a pattern in which ``*`` stands for anything. Only ``*`` is special: tags may
hold brackets, spaces and question marks. A tag with an operator in its name goes in quotes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

Operator = Literal[">", ">=", "<", "<=", "==", "!="]

MAX_RULES = 64
MAX_RULE_CHARS = 512
MAX_HOLD_S = 30 * 86_400.0
MAX_HOLD_ITERATIONS = 1_000_000
_OPERATOR = re.compile(r"(>=|<=|==|!=|>|<)")
_VALUE = re.compile(r"\s*(\S+)")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FOR = re.compile(r"\s+for\s+([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*$")
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
_ITERATIONS = frozenset({"iteration", "iterations", "it", "iter"})


class AlertRule(NamedTuple):
    """One rule. ``text``: as it was written. ``hold_s``: how long the condition must hold on the
    aggregator's time of the updates; ``hold_iterations``: in how many updates of the tag in a row.
    """

    text: str
    pattern: str
    operator: Operator
    value: float
    hold_s: float = 0.0
    hold_iterations: int = 1

    @property
    def is_exact(self) -> bool:
        """Whether it names one tag."""
        return "*" not in self.pattern


def parse_alert_rule(text: object) -> AlertRule:
    """The rule that a text says. Raises ``ValueError`` that names the rule and the place of the
    mistake, counted from 1; also for what is no text."""
    if not isinstance(text, str):
        raise ValueError(  # noqa: TRY004
            f"an alert rule must be a text, not {type(text).__name__}"
        )
    rule = text.strip()
    if len(rule) > MAX_RULE_CHARS:
        raise ValueError(f"alert rule of {len(rule):,} characters: at most {MAX_RULE_CHARS}")
    if not rule.isprintable():
        raise _mistake(rule, 0, "control characters are not allowed")
    pattern, at = _tag(rule)
    found = _OPERATOR.match(rule, at)
    if found is None:
        raise _mistake(rule, at, "expected one of > >= < <= == !=")
    operator: Operator = found.group(1)  # pyright: ignore[reportAssignmentType]
    value_match = _VALUE.match(rule, found.end())
    if value_match is None:
        raise _mistake(rule, found.end(), f"expected a number after {operator}")
    value = _number(rule, value_match.group(1), value_match.start(1))
    hold_s, hold_iterations = _hold(rule, value_match.end())
    return AlertRule(rule, pattern, operator, value, hold_s, hold_iterations)


def parse_alert_rules(texts: object) -> tuple[AlertRule, ...]:
    """The rules of a list of texts, each once. Raises like :func:`parse_alert_rule`, and for more
    than :data:`MAX_RULES`."""
    if isinstance(texts, str) or not isinstance(texts, (list, tuple)):
        raise ValueError(  # noqa: TRY004
            f"alerts must be a list of texts, not {type(texts).__name__}"
        )
    given = cast("Sequence[object]", texts)
    rules = tuple(dict.fromkeys(map(parse_alert_rule, given)))
    if len(rules) > MAX_RULES:
        raise ValueError(f"{len(rules)} alert rules: at most {MAX_RULES}")
    return rules


def split_alert_rules(text: str) -> list[str]:
    """The rules of one text, as an environment variable holds them: separated by ``;``."""
    return [part.strip() for part in text.split(";") if part.strip()]


def matches(rule: AlertRule, tag: str) -> bool:
    """Whether the rule is about the tag."""
    if rule.is_exact:
        return tag == rule.pattern
    head, *middle, tail = rule.pattern.split("*")
    if not tag.startswith(head) or not tag.endswith(tail) or len(tag) < len(head) + len(tail):
        return False
    at, end = len(head), len(tag) - len(tail)
    for part in middle:
        found = tag.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _tag(rule: str) -> tuple[str, int]:
    """The tag and where the operator should be."""
    if rule.startswith('"'):
        end = rule.find('"', 1)
        if end < 0:
            raise _mistake(rule, 0, "the quote is not closed")
        pattern, at = rule[1:end], end + 1
        at += len(rule[at:]) - len(rule[at:].lstrip())
    else:
        found = _OPERATOR.search(rule)
        at = len(rule) if found is None else found.start()
        pattern = rule[:at].rstrip()
    if not pattern:
        raise _mistake(rule, 0, "expected a tag")
    return pattern, at


def _number(rule: str, text: str, at: int) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise _mistake(rule, at, f"{text!r} is no number such as 3, -0.5 or 2e6")
    value = float(text)
    if math.isinf(value):
        raise _mistake(rule, at, f"{text!r} is larger than any value can be")
    return value


def _hold(rule: str, at: int) -> tuple[float, int]:
    if at == len(rule):
        return 0.0, 1
    found = _FOR.match(rule, at)
    if found is None:
        raise _mistake(rule, at + 1, "expected nothing more, or 'for 30 s', 'for 3 iterations'")
    number, unit = float(found.group(1)), found.group(2).lower()
    if unit in _ITERATIONS:
        # More digits than a float holds are infinity, which is no int.
        if not 1 <= number <= MAX_HOLD_ITERATIONS or number != int(number):
            raise _mistake(rule, found.start(1), f"{found.group(1)} is no number of iterations")
        return 0.0, int(number)
    if unit not in _SECONDS:
        raise _mistake(
            rule, found.start(2), f"unknown unit {found.group(2)!r}: s, m, h, iterations"
        )
    hold_s = number * _SECONDS[unit]
    if hold_s > MAX_HOLD_S:
        raise _mistake(rule, found.start(1), "at most 30 days")
    return hold_s, 1


def _mistake(rule: str, at: int, text: str) -> ValueError:
    return ValueError(f"alert rule {rule!r}, position {at + 1}: {text}")
