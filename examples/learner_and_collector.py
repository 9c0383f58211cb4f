"""A learner and a collector process, without a simulator: ``python examples/learner_and_collector.py``.

Watch it with ``unilab-metrics attach`` in another terminal, or start it with
``unilab-metrics run -- python examples/learner_and_collector.py``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import signal
import sys
import time
from multiprocessing.synchronize import Event

import unilab_metrics as um

ENVIRONMENTS = 16


def collect(stopped: Event) -> None:
    """The collector: a process of its own, with its own clock and its own count of steps."""
    env_steps, iteration = 0, 0
    with um.connect(role="collector") as publisher:
        while not stopped.is_set():
            iteration += 1
            with publisher.phase("env_step"):
                time.sleep(0.01)
                reward = [random.gauss(1.0 + iteration / 500, 0.2) for _ in range(ENVIRONMENTS)]
            done = [random.random() < 0.02 for _ in range(ENVIRONMENTS)]
            publisher.episodes.step(reward, done, [False] * ENVIRONMENTS)
            publisher.tick()
            env_steps += ENVIRONMENTS
            publisher.log({"reward/upright": sum(reward) / ENVIRONMENTS}, env_steps=env_steps)


def train(iterations: int) -> None:
    """The learner: rank 0 of one."""
    # So that the run is closed as well when somebody ends the process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    context = multiprocessing.get_context("spawn")
    stopped = context.Event()
    with um.init(
        algorithm="sac", task="example", sim_backend="none", max_iterations=iterations
    ) as publisher:
        collector = context.Process(target=collect, args=(stopped,))
        collector.start()
        try:
            for iteration in range(1, iterations + 1):
                publisher.start_iteration()
                with publisher.phase("replay_sample"):
                    time.sleep(0.002)
                with publisher.phase("learning"):
                    time.sleep(0.018)
                loss = 1.0 / iteration + random.gauss(0.0, 0.01)
                publisher.log({"Loss/critic": loss}, iteration=iteration)
        finally:
            # A run ends with its last process.
            stopped.set()
            collector.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=3000)
    train(parser.parse_args().iterations)
