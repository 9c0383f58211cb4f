"""Environment variables and file names that several packages share.

Everything here is a name or a pure reading of a mapping; nothing opens a file.
"""

from __future__ import annotations

from collections.abc import Mapping

RUN_VARIABLE = "UNILAB_METRICS_RUN"
"""The run directory. ``init()`` sets it for child processes; a launcher may choose it."""
LAUNCH_VARIABLE = "UNILAB_METRICS_LAUNCH"
"""The launch key, which names the spool directory that the processes of a launch share."""
RANK_VARIABLE = "UNILAB_METRICS_RANK"
"""Global rank of the ``init()`` above in the process tree; read by ``connect()`` only."""
ALGORITHM_VARIABLE = "UNILAB_METRICS_ALGORITHM"
STRICT_VARIABLE = "UNILAB_METRICS_STRICT"
"""Algorithm and strictness of the ``init()`` above; defaults of ``connect()``."""
DISABLED_VARIABLE = "UNILAB_METRICS_DISABLED"
"""1 makes ``init()`` and ``connect()`` return publishers that do nothing."""
BIND_VARIABLE = "UNILAB_METRICS_BIND"
"""Where the aggregator listens for other nodes: ``tcp://HOST``, ``tcp://HOST:PORT``,
``tcp://*``, ``auto``, or ``none``; by default ``auto`` if the job spans several nodes."""
STORE_VARIABLE = "UNILAB_METRICS_STORE"
"""``none``: torch.distributed's store is not used to find the run, nor to be found."""
PYTHON_VARIABLE = "UNILAB_METRICS_PYTHON"
"""The interpreter that runs the aggregator and the writers; the training's own by default."""
CONSOLE_VARIABLE = "UNILAB_METRICS_CONSOLE"
"""Set by ``unilab-metrics run``: the directory in which ``init()`` tells it of each run."""
SIDECAR_VARIABLE = "UNILAB_METRICS_SIDECAR"
"""``off``, ``auto`` or ``tmux``: what ``init()`` opens without its argument ``sidecar``."""
ALERTS_VARIABLE = "UNILAB_METRICS_ALERTS"
"""Rules of the user's own, separated by ``;``, beside those of ``init(alerts=…)``."""
ALERT_WEBHOOK_VARIABLE = "UNILAB_METRICS_ALERT_WEBHOOK"
"""The URL that gets alerts; ``init(alert_webhook=…)`` sets it for the aggregator."""
GPUS_VARIABLE = "UNILAB_METRICS_GPUS"
"""Set for helpers, which see no GPU themselves: the training's ``CUDA_VISIBLE_DEVICES``."""

RUN_CONFIG_FILE = "run_config.json"
RUN_SUMMARY_FILE = "run_summary.json"
CONSOLE_FILE = "console.log"
EARLIER_CONSOLE_FILE = "console.log.1"
"""What the training has printed; the earlier of the two files when the newer one was full."""
AGGREGATOR_LOG_FILE = "aggregator.log"

BACKENDS = ("tensorboard",)
"""What a run can be written into."""

SIDECARS = ("off", "auto", "tmux")
"""What ``init()`` may be asked to open."""

OFF_POLICY = ("sac", "fast_sac", "flash_sac", "appo")
"""Algorithms whose backends put values on the axis of environment steps."""

_TRUE = frozenset({"1", "true", "yes", "on"})


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether the user switched the bus off for this process tree."""
    return is_true(environ.get(DISABLED_VARIABLE, ""))


def is_store_used(environ: Mapping[str, str]) -> bool:
    """Whether the ranks of a training may meet in torch.distributed's store."""
    text = environ.get(STORE_VARIABLE, "")
    return text.strip().lower() not in {"0", "false", "no", "off", "none"}


def is_true(text: str) -> bool:
    """Whether a variable's text means yes."""
    return text.strip().lower() in _TRUE
