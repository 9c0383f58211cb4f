"""How many values per second the TensorBoard backend writes, against tensorboardX.

Both write updates of 60 tags into a fresh directory, in this process, one after the other;
``add_scalar`` gets far fewer, because it would take minutes. Prints one line per writer and
the ratio.

    python benchmarks/bench_tensorboard.py [--updates 20000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import struct
import tempfile
import time
from pathlib import Path

import tensorboardX

from unilab_metrics.subscribe.history import HistoryRecord
from unilab_metrics.write.backends.tensorboard import TensorBoardBackend
from unilab_schema.identity import RunInfo
from unilab_schema.updates import AttemptOpened, Update

TAGS = tuple(f"Perf/metric_of_the_benchmark_{number}" for number in range(60))
BATCH = 1000
TARGET = 1_000_000


def history(updates: int) -> list[HistoryRecord]:
    run = RunInfo("sac", step_axis="env_steps")
    records = [HistoryRecord(1, AttemptOpened(1, 1, run), ())]
    for number in range(1, updates + 1):
        values = struct.pack("<60d", *(number / (tag + 1) for tag in range(60)))
        entry = Update(1, number, number * 32, time.time_ns(), 0, 0.0, 2, 2, 0, values)
        records.append(HistoryRecord(number + 1, entry, TAGS))
    return records


def ours(directory: Path, records: list[HistoryRecord], batch: int) -> float:
    backend = TensorBoardBackend(directory)
    backend.open()
    started_s = time.perf_counter()
    for start in range(0, len(records), batch):
        backend.write(records[start : start + batch])
        backend.flush()
    backend.close()
    return (len(records) - 1) * len(TAGS) / (time.perf_counter() - started_s)


def stock(directory: Path, records: list[HistoryRecord]) -> float:
    values = [record.values().tolist() for record in records]
    writer = tensorboardX.SummaryWriter(str(directory))
    started_s = time.perf_counter()
    for step, row in enumerate(values):
        for tag, value in zip(TAGS, row, strict=True):
            writer.add_scalar(tag, value, step)
    writer.close()
    return len(values) * len(TAGS) / (time.perf_counter() - started_s)


def main() -> None:
    parser = argparse.ArgumentParser(description="Values per second into TensorBoard files.")
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    records = history(options.updates)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for name in ("catch-up", "live"):
            (root / name).mkdir()
        figures["ours, batches of 1000"] = ours(root / "catch-up", records, BATCH)
        figures["ours, a write per update"] = ours(root / "live", records, 1)
        figures["tensorboardX add_scalar"] = stock(root / "stock", records[1:101])
    for name, rate in figures.items():
        print(f"{name:<26} {rate:>14,.0f} values/s")
    rates = list(figures.values())
    print(f"{'ratio to tensorboardX':<26} {rates[0] / rates[2]:>14,.0f}")
    verdict = "met" if rates[0] >= TARGET else "MISSED"
    print(f"{'target':<26} {TARGET:>14,} values/s: {verdict}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
