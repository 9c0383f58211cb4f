"""``init()`` and ``connect()``: a publisher for this process, and the run around it.

Neither ever waits: a few small files are made, the aggregator is started, and everything
else (finding the bus, sending) is the shipper thread's work. Neither ends a training: what
goes wrong gives a publisher that counts its calls and warns once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from unilab_metrics.config import (
    ALERT_WEBHOOK_VARIABLE,
    ALERTS_VARIABLE,
    BACKENDS,
    SIDECAR_VARIABLE,
    SIDECARS,
    is_disabled,
)
from unilab_metrics.publish import losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.no_spool import NoSpool
from unilab_metrics.publish.opening import disabled_publisher, new_identity
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.publish.warning import warn_caller
from unilab_metrics.run import arguments
from unilab_metrics.run.joining import ChildWish, RankWish, open_child, open_rank
from unilab_metrics.run.meeting import inheritance
from unilab_schema.identity import COLLECTOR, LEARNER, RunInfo, SourceKey, StepAxis

_RunDirectory = str | os.PathLike[str] | None


def init(
    *,
    algorithm: str = "",
    task: str = "",
    sim_backend: str = "",
    run_dir: _RunDirectory = None,
    log_root: str | os.PathLike[str] = "logs",
    rank: int | None = None,
    world_size: int | None = None,
    role: str = LEARNER,
    instance: int = 0,
    strict: bool = False,
    step_axis: StepAxis | None = None,
    max_iterations: int | None = None,
    config: object = None,
    backends: Sequence[str] = BACKENDS,
    log_interval: int = 1,
    expected_learners: int | None = None,
    bind: str | None = None,
    sidecar: str | None = None,
    alerts: Sequence[str] | None = None,
    alert_webhook: str | None = None,
    reward_tag: str | None = None,
) -> Publisher:
    """The publisher of this rank of a training; on global rank 0 also the run itself.

    Call it once per training process, before or after the process group is made, on every rank
    that publishes. It takes a few milliseconds and never waits for anybody.

    As a context manager (``with um.init(...) as publisher:``) the run ends as ``failed`` after
    an exception and ``sys.exit(n)``, and as ``stopped`` after Ctrl+C. Without it, and without
    ``close()``, the exit of the process does not see ``sys.exit(n)``: the run is ``completed`` then.

    ``rank``, ``world_size``: by default what the launcher's variables say (``RANK``, then
    SLURM's, MPI's, ...), rank 0 of 1 without any. ``run_dir``: where the run lies or is to lie;
    by default ``UNILAB_METRICS_RUN``, else rank 0 makes
    ``log_root/<algorithm>/<task>/<date>_<sim_backend>`` and the other ranks of the node find
    it. ``step_axis``: what the backends' steps count; environment steps for SAC, FlashSAC and
    APPO, else iterations. ``max_iterations``: for the time to go on the screen. ``config``: any
    mapping, dataclass or OmegaConf container, for ``run_config.json`` and the backends.
    ``backends``, ``log_interval``: what is written, and every how many iterations (rank 0's
    count). ``expected_learners``: how many learner ranks publish iterations; the world size by
    default, 1 for a library that logs on rank 0 only. ``strict``: only registered tags may be
    logged, and mistakes raise at the call. ``bind``: where rank 0's aggregator listens for other
    nodes and remote viewers, always with keys: ``tcp://HOST``, ``tcp://HOST:PORT``, ``tcp://*``,
    ``auto`` (this node's address) or ``none``; by default ``UNILAB_METRICS_BIND``, else ``auto``
    if the launcher says that the job spans several nodes.

    ``sidecar``: ``auto`` shows the run by itself, ``tmux`` in a pane below this one, ``off`` not
    at all; by default ``UNILAB_METRICS_SIDECAR``, else ``off``. ``auto`` takes the terminal if
    input, output and errors are one, we are in its foreground, and rank 0 is alone on its node:
    until ``close()`` what this process and its children print is in ``console.log`` of the run and
    their input is at its end; then the terminal is as before, with the last lines. Elsewhere there
    is a plain line every ten seconds. Rank 0 only; under ``unilab-metrics run`` that one shows the
    run.

    ``alerts``: rules such as ``Loss/* > 100 for 30 s`` or ``Train/mean_reward < 0 for 50
    iterations``, beside those of ``UNILAB_METRICS_ALERTS`` (separated by ``;``); the built-in
    alerts need none. ``alert_webhook``: a URL that gets each alert as JSON, by default
    ``UNILAB_METRICS_ALERT_WEBHOOK``; say it on every rank. Both are described in docs/alerts.md.

    ``reward_tag``: the tag that means the reward, for the rewards' panel, the first chart, the lines,
    the summary and the alert of a collapse; by default ``Train/mean_reward`` or what your library
    calls it (docs/frameworks.md has the names). Rank 0's counts.

    Sets ``UNILAB_METRICS_*`` in ``os.environ`` for child processes, which call
    :func:`connect`. With ``UNILAB_METRICS_DISABLED=1`` nothing is done.

    Raises ``ValueError`` always for an argument that can never be right, before anything is made:
    one of another type, out of range, or none of the choices that there are (``step_axis``:
    ``iteration``, ``env_steps``, ``wall_time``); in strict mode also for arguments that
    contradict the launcher's variables. Nothing else is raised.
    """
    run = arguments.run_info(
        algorithm=algorithm,
        task=task,
        sim_backend=sim_backend,
        step_axis=step_axis,
        max_iterations=max_iterations,
        strict=strict,
        reward_tag=reward_tag,
    )
    key, known_rank = arguments.source_key(role=role, rank=rank, instance=instance)
    size = arguments.world_size(world_size, known_rank)
    asked_dir = arguments.path("run_dir", run_dir)
    wish = RankWish(
        role=key.role,
        instance=key.instance,
        rank=known_rank,
        world_size=size,
        run_dir=None if asked_dir is None else asked_dir.absolute(),
        log_root=arguments.path("log_root", log_root) or Path(),
        run=run,
        config=config,
        backends=arguments.backend_names(backends),
        log_interval=arguments.log_interval(log_interval),
        expected_learners=arguments.expected_learners(expected_learners, size),
        bind=arguments.bind(bind),
        sidecar=arguments.sidecar(sidecar) or _sidecar(os.environ),
        alerts=_alerts(alerts, os.environ),
    )
    webhook = arguments.alert_webhook(alert_webhook)
    if is_disabled(os.environ):
        return disabled_publisher(key, run)
    if webhook is not None:
        # In the environment of whoever starts the aggregator, and in no file: it may be a secret.
        os.environ[ALERT_WEBHOOK_VARIABLE] = webhook
    try:
        return open_rank(wish)
    except Exception as error:  # noqa: BLE001 (no training ends because its metrics cannot start)
        return _unavailable(key, run, error)


def _sidecar(environ: Mapping[str, str]) -> str:
    """What a user has asked for a training that does not say it."""
    asked = environ.get(SIDECAR_VARIABLE, "").strip().lower()
    return asked if asked in SIDECARS else "off"


def _alerts(asked: object, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A mistake in the environment is none of the script's: it is warned of, and left out."""
    own = arguments.alerts(asked, "")
    try:
        return arguments.alerts(asked, environ.get(ALERTS_VARIABLE, ""))
    except ValueError as error:
        warn_caller(f"{ALERTS_VARIABLE}: {error}")
        return own


def connect(
    *,
    role: str = COLLECTOR,
    rank: int | None = None,
    instance: int = 0,
    run_dir: _RunDirectory = None,
    strict: bool | None = None,
    algorithm: str | None = None,
) -> Publisher:
    """A publisher of its own for a child process, started by fork or spawn.

    It joins the run of the ``init()`` above it, also one that its parent calls later. ``rank``:
    its learner's by default. ``instance``: tells several processes of the same role and rank
    apart. ``run_dir``: the run of a process that is no descendant of the training.
    ``algorithm``, ``strict``: those of the ``init()`` above by default.

    In a forked child the parent's publisher is inactive; this one takes its place. A process
    that has found no run by its end warns, and nothing of it is kept. Returns at once. Raises
    ``ValueError`` as :func:`init` does.
    """
    inherited = inheritance.read(os.environ, of_others=False)
    run = arguments.run_info(
        algorithm="" if algorithm is None else algorithm,
        strict=inherited.strict if strict is None else strict,
    )
    if algorithm is None:
        run = msgspec.structs.replace(run, algorithm=inherited.algorithm)
    key, known_rank = arguments.source_key(role=role, rank=rank, instance=instance)
    if known_rank is None and inherited.rank is not None:
        known_rank = inherited.rank
        key = SourceKey(known_rank, key.role, key.instance)
    asked_dir = arguments.path("run_dir", run_dir)
    if is_disabled(os.environ):
        return disabled_publisher(key, run)
    wish = ChildWish(
        role=key.role,
        instance=key.instance,
        rank=known_rank,
        run_dir=None if asked_dir is None else asked_dir.absolute(),
        run=run,
        inherited=inherited,
    )
    try:
        return open_child(wish)
    except Exception as error:  # noqa: BLE001 (as above)
        return _unavailable(key, run, error)


def _unavailable(key: SourceKey, run: RunInfo, error: Exception) -> Publisher:
    if run.strict and isinstance(error, ValueError):
        raise error
    counted = Losses()
    counted.note(error)
    identity = new_identity(key, run, Path(), 1, "")
    text = f"metrics of this process are not logged: {error}"
    spool = NoSpool(identity, counted, losses.UNAVAILABLE, text)
    return Publisher(
        identity, spool=spool, shipper=None, strict=run.strict, algorithm=run.algorithm
    )
