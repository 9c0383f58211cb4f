"""``demo``: a real training job, small, with everything around it."""

from __future__ import annotations

import click

_EPILOG = """\b
Examples
  unilab-metrics demo
  unilab-metrics demo --ranks 1 --iterations 300 --headless
  unilab-metrics demo training.env_steps_per_sync=4 algo.seed=7
  unilab-metrics demo --slow prefetch
  unilab-metrics demo --algorithm ppo
  unilab-metrics demo --algorithm ppo --ranks 1 algo.num_envs=256 algo.schedule=fixed

\b
Slow parts, and what the sidecar then says to be the bottleneck
  env        the physics of a tick          Collector Wait of the learner
  learner    an update                      Learning
  inference  the policy's forward pass      Inference
  prefetch   gathering the next batches     Replay Batch Wait
  ingress    writing into the bounded ring  Replay Write of the collector
  submit     background copies              H2D Submit, no iteration time lost
  Each takes slow.wait_ms=150 longer every time, submit at most a third of an iteration.
  ppo has env and inference, which lengthen its Collection, and learner, which lengthens its
  Learning; each takes slow.wait_ms=20 longer. It has no bottleneck line.

\b
Exit codes
  0    the training is complete
  1    no run directory can be made
  2    an option or override that cannot be used
  130  stopped by Ctrl+C
  else that of the rank that failed
"""


ALGORITHMS = ("sac", "ppo")
SLOW_PARTS = ("env", "learner", "inference", "prefetch", "ingress", "submit")


@click.command(epilog=_EPILOG)
@click.option(
    "--algorithm", type=click.Choice(ALGORITHMS), default="sac", show_default=True, help="Trained."
)
@click.option("--ranks", type=click.IntRange(1), default=2, show_default=True, metavar="N")
@click.option(
    "--iterations",
    type=click.IntRange(1),
    metavar="K",
    help="So many, whatever the time, instead of a minute.",
)
@click.option("--headless", is_flag=True, help="Plain lines, also in a terminal.")
@click.option(
    "--slow", type=click.Choice(SLOW_PARTS), metavar="PART", help="Really slow one part, see below."
)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
def demo(
    algorithm: str,
    ranks: int,
    iterations: int | None,
    slow: str | None,
    overrides: tuple[str, ...],
    *,
    headless: bool,
) -> int:
    """Train SAC or PPO on a small task for a minute or a few and show it live.

    Each rank is a learner, with SAC also a collector process; the sidecar owns the terminal,
    q closes it. Without a terminal there is a plain line every few seconds.
    """
    from unilab_metrics.demo.launch import run_demo
    from unilab_metrics.demo.overrides import OptionError

    if slow is not None:
        overrides = (*overrides, f"slow.part={slow}")
    try:
        return run_demo(ranks, iterations, headless, overrides, algorithm=algorithm)
    except OptionError as error:
        raise click.UsageError(str(error)) from error
