"""What charts cost: a draw, a tag's memory, the live feed, the past of a week, a filter.

    .venv/bin/python benchmarks/bench_charts.py

Draws four charts at 160 by 48 from full stores (6 million updates each), feeds 1,000 updates of
60 tags as one second brings them, takes a week's history as blocks, and filters 12,345 tags.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_schema.updates import BinBlock, Update
from unilab_sidecar.charting.bins import MAX_BINS, Field
from unilab_sidecar.charting.state import ChartState
from unilab_sidecar.charting.store import ChartStore, HistoryPiece
from unilab_sidecar.groups.filtering import parse_filter
from unilab_sidecar.views.charts import ChartData, view

UPDATES = 6_000_000
BLOCK = 1024
TAGS = tuple(f"Loss/part_{number}" for number in range(60))
DRAWN = TAGS[:4]


def main() -> None:
    """Print one line per figure."""
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    blocks = week()
    store = ChartStore()
    store.keep(DRAWN)
    piece = HistoryPiece(DRAWN, 0, len(blocks) * BLOCK, blocks, complete=True)
    started_s = time.process_time()
    store.add_piece(piece)
    bins = [len(store.bins(tag)) for tag in DRAWN]
    took_s = time.process_time() - started_s
    print(f"a week as {len(blocks):,} blocks of 4 tags: {1e3 * took_s:.0f} ms, {bins[0]:,} bins")
    live(store, len(blocks) * BLOCK)
    print(f"bins of a tag: {len(store.bins(DRAWN[0])):,} of at most {MAX_BINS:,}")
    print(f"memory of a tag: {MAX_BINS * len(Field) * 8 / 1e3:.0f} kB at most")
    draws(store)
    filters()


def week() -> tuple[BinBlock, ...]:
    """Six million updates in blocks, with one spike."""
    chance = np.random.default_rng(7)
    made: list[BinBlock] = []
    for number in range(UPDATES // BLOCK):
        first = number * BLOCK
        mean = np.exp(-number / 2000) + chance.normal(0, 0.01, len(DRAWN))
        high = mean + (50.0 if number == 3000 else 0.1)
        span = (first, first + BLOCK - 1)
        made.append(
            BinBlock(
                first + 1,
                first + BLOCK,
                1,
                span,
                (256 * span[0], 256 * span[1]),
                (first * 10**8, span[1] * 10**8),
                (span[0] / 10, span[1] / 10),
                DRAWN,
                (mean - 0.1).tobytes(),
                high.tobytes(),
                mean.tobytes(),
                np.full(len(DRAWN), float(BLOCK)).tobytes(),
                mean.tobytes(),
            )
        )
    return tuple(made)


def live(store: ChartStore, sequence: int) -> None:
    """Ten seconds of 1,000 updates each, in ten batches a second."""
    chance = np.random.default_rng(8)
    total_s = 0.0
    for batch in range(100):
        records: list[HistoryRecord] = []
        for number in range(100):
            at = sequence + batch * 100 + number + 1
            values = chance.normal(0, 1, len(TAGS)).tobytes()
            update = Update(1, at, 256 * at, at * 10**8, at * 10**8, at / 10, 1, 1, 1, values)
            records.append(HistoryRecord(at, update, TAGS))
        started_s = time.process_time()
        store.add_records(records)
        if batch % 5 == 4:
            for tag in DRAWN:
                store.bins(tag)
        total_s += time.process_time() - started_s
    print(f"feed of 1,000 updates/s into 4 tags: {100 * total_s / 10:.2f} % of a core")


def draws(store: ChartStore) -> None:
    """A screen of four charts in several modes."""
    data = ChartData(store, TAGS, store, "the same")
    plain = ChartState(DRAWN)
    for name, state, size in (
        ("four charts", plain, (160, 48)),
        ("with cursor", replace(plain, cursor=3e6), (160, 48)),
        ("without the earlier run", replace(plain, compare=False), (160, 48)),
        ("log scale, time", replace(plain, log_y=True, x_axis="time"), (160, 48)),
        ("all in one", replace(plain, overlay="scaled"), (160, 48)),
        ("80x24", plain, (80, 24)),
        ("300x100", plain, (300, 100)),
    ):
        took = timed_ms(lambda state=state, size=size: view(data, state, *size))
        print(f"draw, {name}: {took:.2f} ms")


def filters() -> None:
    """What each letter of a filter costs."""
    tags = tuple(f"group{number % 97}/metric_{number}_ms" for number in range(12_345))
    for text in ("metric 99 !7", "/metric_1.*5_ms$/", "/(m|me|met)*_\\d+x/"):
        took = timed_ms(lambda text=text: parse_filter(text).select(tags), 10)
        print(f"filter of 12,345 tags, {text}: {took:.1f} ms")


def timed_ms(what: Callable[[], object], times: int = 30) -> float:
    """The median of processor time, in milliseconds."""
    took: list[float] = []
    for _ in range(times):
        started_s = time.process_time()
        what()
        took.append(time.process_time() - started_s)
    return 1e3 * statistics.median(took)


if __name__ == "__main__":
    main()
