"""The grouped numpy reduction equals the plain definition, tag by tag."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unilab_metrics.aggregate.folding.reduction import Supplier, TagColumns, reduce_over_ranks
from unilab_schema.metrics import MetricSpec, MetricTable, OverRanks

TAGS: dict[str, OverRanks] = {
    "x/mean": "mean",
    "x/sum": "sum",
    "x/rank0": "rank0",
    "x/min": "min",
    "x/max": "max",
}

values = st.floats(-1e6, 1e6)
weights = st.sampled_from([1.0, 2.0, 5.0, 0.25])
shares = st.dictionaries(st.sampled_from(sorted(TAGS)), st.tuples(values, weights))
runs = st.lists(st.tuples(st.integers(0, 3), shares, st.booleans()), min_size=1, max_size=8)


def columns() -> TagColumns:
    specs = [MetricSpec(tag, "test", "", over_ranks=how) for tag, how in TAGS.items()]
    return TagColumns(MetricTable(specs))


def plain(run: list[tuple[int, dict[str, tuple[float, float]]]]) -> dict[str, float]:
    reduced: dict[str, float] = {}
    for tag, how in TAGS.items():
        given_by = [(rank, share[tag]) for rank, share in run if tag in share]
        if not given_by:
            continue
        means = [(rank, total / weight) for rank, (total, weight) in given_by]
        totals = sum((Fraction(total) for _, (total, _) in given_by), Fraction(0))
        if how == "mean":
            reduced[tag] = float(totals / sum(Fraction(w) for _, (_, w) in given_by))
        elif how == "sum":
            reduced[tag] = float(totals)
        elif how == "min":
            reduced[tag] = min(mean for _, mean in means)
        elif how == "max":
            reduced[tag] = max(mean for _, mean in means)
        else:
            zeros = [mean for rank, mean in means if rank == 0]
            if zeros:
                reduced[tag] = zeros[0]
    return reduced


@settings(deadline=None)
@given(runs)
def test_reduction_equals_its_definition(
    run: list[tuple[int, dict[str, tuple[float, float]], bool]],
) -> None:
    run = sorted(run, key=lambda share: share[0])
    known = columns()
    suppliers: list[Supplier] = []
    plain_run: list[tuple[int, dict[str, tuple[float, float]]]] = []
    for rank, drawn, ones in run:
        share = {tag: (total, 1.0 if ones else weight) for tag, (total, weight) in drawn.items()}
        totals = np.array([total for total, _ in share.values()])
        given_weights = None if ones else np.array([weight for _, weight in share.values()])
        suppliers.append(Supplier(rank, known.columns(tuple(share)), totals, given_weights))
        plain_run.append((rank, share))
    reduced = reduce_over_ranks(suppliers, known)
    got = dict(zip(known.names(reduced.columns), reduced.values.tolist(), strict=True))
    want = plain(plain_run)
    assert got.keys() == want.keys()
    scale = sum(abs(t) for _, share in plain_run for t, _ in share.values())
    for tag, value in want.items():
        assert math.isclose(got[tag], value, rel_tol=1e-12, abs_tol=1e-12 * scale), tag


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=6))
def test_anything_that_is_a_float_is_reduced_without_a_warning(column: list[float]) -> None:
    known = columns()
    numbers = known.columns(tuple(TAGS))
    suppliers = [
        Supplier(rank, numbers, np.full(len(TAGS), value), None)
        for rank, value in enumerate(column)
    ]
    reduced = reduce_over_ranks(suppliers, known)
    assert len(reduced.columns) == len(TAGS)
    mean = reduced.values[list(known.names(reduced.columns)).index("x/mean")]
    if all(math.isfinite(value) for value in column):
        assert (
            min(column) - abs(min(column)) * 1e-9 <= mean <= max(column) + abs(max(column)) * 1e-9
        )
