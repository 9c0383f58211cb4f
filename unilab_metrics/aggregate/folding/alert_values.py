"""Which values of an update an alert rule asks for, and whether it holds on them. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unilab_metrics.aggregate.folding.alert_tracking import Flags, Places
from unilab_metrics.aggregate.folding.reduction import Float64s, Reduced, Supplier
from unilab_schema.alert_rules import AlertRule

_COMPARE = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def holding(rule: AlertRule | None, values: Float64s) -> Flags:
    """On which values a rule holds; NaN is none. Without a rule: which are not finite."""
    if rule is None:
        return ~np.isfinite(values)
    return _COMPARE[rule.operator](values, rule.value) & ~np.isnan(values)


def values_of(columns: Places, reduced: Reduced, where: Places) -> tuple[Places, Float64s]:
    """Places whose column has a value, and the values; NaN is none. ``where``: the place of each
    column in the update, or -1."""
    at = where[columns]
    values = reduced.values[at]
    places = np.flatnonzero((at >= 0) & ~np.isnan(values))
    return places, values[places]


def value_of(reduced: Reduced, column: int | None) -> float | None:
    """The value of one column, ``None`` if the update has none."""
    if column is None:
        return None
    at = int(np.searchsorted(reduced.columns, column))
    is_there = at < len(reduced.columns) and reduced.columns[at] == column
    return float(reduced.values[at]) if is_there else None


def bad_ranks(suppliers: list[Supplier], column: int) -> list[int]:
    """Whose value is not finite, ascending."""
    ranks: set[int] = set()
    for supplier in suppliers:
        at = np.flatnonzero(supplier.columns == column)
        if len(at) and not np.isfinite(supplier.totals[at[0]]):
            ranks.add(supplier.rank)
    return sorted(ranks)


def holding_now(
    rule: AlertRule | None, columns: Places, values: Float64s, updates: NDArray[np.int64]
) -> Places:
    """Places whose newest value, if there is one, meets a rule. ``values`` and ``updates``: of
    all columns, as the state remembers them."""
    known = np.flatnonzero(columns < len(values))
    newest = columns[known]
    return known[(updates[newest] > 0) & holding(rule, values[newest])]
