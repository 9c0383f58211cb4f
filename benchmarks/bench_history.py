"""What a long history costs: from the command to the first picture, the first picture of charts, a jump
to a moment, a replay, memory.

``python benchmarks/bench_history.py [--updates 6000000] [--tags 12] [--directory DIR]``; a week at ten
updates a second is 6 million. Making the history takes the most time; with ``--directory`` it is kept
and used again. The commands are real ones on a pseudo-terminal of 120x40; of each the median of
``--times``, in brackets the smallest and the greatest, and the processor time of all its processes.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_many_tags import Taken, Watched, words

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from long_history import START_UNIX_NS, TAGS, LongHistory, S  # noqa: E402

from unilab_metrics.storage.block_files import BlockFiles  # noqa: E402
from unilab_metrics.subscribe.asking import NoAnswer  # noqa: E402
from unilab_metrics.subscribe.past_files import PastFiles  # noqa: E402
from unilab_metrics.subscribe.replay import Replay  # noqa: E402
from unilab_schema.codec import encode_message  # noqa: E402
from unilab_schema.control import Epoch  # noqa: E402
from unilab_schema.requests import Blocks  # noqa: E402
from unilab_schema.updates import Update  # noqa: E402
from unilab_sidecar.charting.panes import ChartData  # noqa: E402
from unilab_sidecar.charting.state import ChartState  # noqa: E402
from unilab_sidecar.charting.store import ChartStore  # noqa: E402
from unilab_sidecar.feeding.moment import Moment  # noqa: E402
from unilab_sidecar.feeding.past_questions import CourseQuestion, MomentQuestion  # noqa: E402
from unilab_sidecar.looking.past import picture_of  # noqa: E402
from unilab_sidecar.views.charts import view  # noqa: E402

CHARTS = TAGS[:4]
JUMPS = 20


def make(run_dir: Path, updates: int, tags: int) -> None:
    names = TAGS + tuple(f"more/{number}" for number in range(max(tags - len(TAGS), 0)))
    made = LongHistory(run_dir, tags=names)
    base = np.arange(len(names), dtype=np.float64)
    columns = np.arange(len(names))
    noise = np.random.default_rng(1).standard_normal((1000, len(names)))
    for k in range(1, updates + 1):
        made.iteration = k
        at_ns = k * S // 10
        values = base + k / updates + noise[k % 1000]
        update = Update(
            1, k, 256 * k, START_UNIX_NS + at_ns, 5 * S + at_ns, at_ns / S, 1, 1, 0,
            values.tobytes(),
        )  # fmt: skip
        made.add(update)
        made._binner.add(update, columns, values)
    made.end()
    made.write()


class Source:
    """The files of a run as its subscriber sees them."""

    def __init__(self, bus_dir: Path) -> None:
        self.past = PastFiles(bus_dir)
        self.cursor = self.past.last()
        self.bins, self.stretch = self.past.bins, self.past.stretch

    def newest(self) -> int:
        return self.cursor


def charts(source: Source) -> int:
    store = ChartStore()
    store.keep(CHARTS)
    question: CourseQuestion | None = CourseQuestion(CHARTS)
    steps = 0
    while question is not None:
        piece = question.put(source)
        assert piece is not None
        assert not isinstance(piece, NoAnswer)
        store.add_piece(piece)
        question, steps = question.following(piece), steps + 1
    view(ChartData(store, CHARTS), ChartState(CHARTS), 160, 48)
    return steps


def jump(source: Source, at: int) -> None:
    question = MomentQuestion(at)
    while True:
        reply = question.put(source)
        if isinstance(reply, Moment):
            picture_of(reply, [], None)
            return
        assert isinstance(reply, MomentQuestion)
        question = reply


def openings(run_dir: Path, times: int) -> None:
    """From the command to the picture, and until the peak of the whole run is on it."""
    command = [sys.executable, "-m", "unilab_metrics"]
    for name in ("attach", "replay"):
        first: list[Taken] = []
        whole: list[Taken] = []
        for _ in range(times):
            watched = Watched(*command, name, run_dir)
            first.append(watched.opened(lambda text: "Mean" in text))
            whole.append(watched.opened(lambda text: "Peak" in text and "Peak -" not in text))
            watched.left(lambda watched=watched: watched.typed(b"q"))
        print(f"{name}, the first picture   {words(first)}")
        if name == "attach":
            print(f"{name}, with its peak       {words(whole)}")


def measure(run_dir: Path) -> None:
    bus_dir = run_dir / "bus"
    began_s = time.perf_counter()
    source = Source(bus_dir)
    print(f"newest update                  {1e3 * (time.perf_counter() - began_s):8.1f} ms")
    began_s = time.perf_counter()
    steps = charts(source)
    took_s = time.perf_counter() - began_s
    print(f"first picture of 4 charts      {1e3 * took_s:8.1f} ms in {steps} pieces")
    files = BlockFiles(bus_dir)
    files.look()
    after, longest_s, total_s, size = 0, 0.0, 0.0, 0
    while True:
        began_s = time.perf_counter()
        found = files.read(CHARTS, after, budget_s=0.008)
        reply = Blocks(
            1, Epoch(b"j" * 16, 1), found.blocks, found.complete, found.first, found.last
        )
        size += len(encode_message(reply))
        took_s = time.perf_counter() - began_s
        longest_s, total_s, after = max(longest_s, took_s), total_s + took_s, found.last
        if found.complete:
            break
    print(
        f"the same in the aggregator     {1e3 * total_s:8.1f} ms, {size / 1e6:.1f} MB, "
        f"{1e3 * longest_s:.1f} ms at once"
    )
    rng = random.Random(1)
    took = []
    for _ in range(JUMPS):
        began_s = time.perf_counter()
        jump(source, rng.randrange(1, source.cursor))
        took.append(time.perf_counter() - began_s)
    took.sort()
    print(
        f"a jump to a moment    median   {1e3 * took[JUMPS // 2]:8.1f} ms, longest {1e3 * took[-1]:.1f} ms"
    )
    replay = Replay(run_dir, speed=10_000, iteration=source.cursor // 2)
    replay.poll(0)
    began_s, count = time.perf_counter(), 0
    while time.perf_counter() - began_s < 2:
        count += len(replay.poll(20))
    rate = count / (time.perf_counter() - began_s)
    print(f"replay, at most                {rate:8,.0f} updates/s")
    print(
        f"memory                         {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f} MiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=6_000_000)
    parser.add_argument("--tags", type=int, default=12)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run_dir = options.directory or Path(place) / "run"
        if not (run_dir / "bus").exists():
            began_s = time.perf_counter()
            make(run_dir, options.updates, options.tags)
            print(
                f"{options.updates:,} updates of {options.tags} tags made in {time.perf_counter() - began_s:.0f} s"
            )
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        openings(run_dir, options.times)
        measure(run_dir)


if __name__ == "__main__":
    main()
