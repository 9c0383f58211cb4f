"""A training of two ranks, the second of which believes itself on another node."""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path

from case_runs import start

RANK_0 = """
import sys, time
import unilab_metrics as um

publisher = um.init(
    algorithm="ppo", task="Toy", sim_backend="numpy", run_dir=sys.argv[1], rank=0, world_size=2,
    bind="tcp://127.0.0.1",
)
iteration = 0
for line in sys.stdin:
    if line.strip() == "end":
        break
    began_ns = time.perf_counter_ns()
    publisher.log({"Loss/value": float(iteration)}, iteration=iteration)
    iteration += 1
    print(iteration, (time.perf_counter_ns() - began_ns) / 1e3, flush=True)
delivered = publisher.close(30)
print(delivered, publisher.errors, publisher.dropped, flush=True)
"""

ELSEWHERE = """
import unilab_metrics.storage.filesystem as filesystem
filesystem.boot_id = lambda: "elsewhere"
"""

RANK_1 = ELSEWHERE + RANK_0.replace("rank=0", "rank=1").replace('bind="tcp://127.0.0.1",', "")


class FarRanks:
    """Steered over their standard input; each iteration is one line."""

    def __init__(self, run_dir: Path, **environment: str) -> None:
        self.run_dir = run_dir
        self.near = start(RANK_0, run_dir, **environment)
        self.far = start(RANK_1, run_dir, **environment)

    def log(self, *ranks: subprocess.Popen[str], times: int = 1) -> float:
        """One more iteration of these ranks, or of both; the median of what it costs them, in
        microseconds."""
        costs_us: list[float] = []
        for process in ranks or (self.near, self.far):
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(times):
                process.stdin.write("log\n")
                process.stdin.flush()
                _, cost_us = process.stdout.readline().split()
                costs_us.append(float(cost_us))
        return statistics.median(costs_us)

    def end(self) -> tuple[str, str]:
        """Close both; what they said last."""
        outputs: list[str] = []
        for process in (self.far, self.near):
            output, errors = process.communicate("end\n", timeout=60)
            assert process.returncode == 0, errors
            outputs.append(output)
        return outputs[1].strip(), outputs[0].strip()

    def kill(self) -> None:
        """Leave no process behind, whatever has happened."""
        for process in (self.near, self.far):
            if process.poll() is None:
                process.kill()
            process.communicate()
