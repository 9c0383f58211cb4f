"""``init()`` and ``connect()``: a publisher for this process, and the run around it.

Neither ever waits: a few small files are made, the aggregator is started, and everything
else (finding the bus, sending) is the shipper thread's work. Neither ends a training: what
goes wrong gives a publisher that counts its calls and warns once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unilab_metrics.config import BACKENDS, OFF_POLICY, is_disabled
from unilab_metrics.publish import losses
from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.no_spool import NoSpool
from unilab_metrics.publish.opening import disabled_publisher, new_identity
from unilab_metrics.publish.publisher import Publisher
from unilab_metrics.run import inheritance
from unilab_metrics.run.binding import resolve_bind
from unilab_metrics.run.joining import ChildWish, RankWish, open_child, open_rank
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
) -> Publisher:
    """The publisher of this rank of a training; on global rank 0 also the run itself.

    Call it once per training process, before or after the process group is made, on every rank
    that publishes. It takes a few milliseconds and never waits for anybody.

    As a context manager (``with um.init(...) as publisher:``) the run ends as ``failed`` after
    an exception, Ctrl+C and ``sys.exit(n)``. Without it, and without ``close()``, the exit of
    the process sees the first two only: after ``sys.exit(n)`` the run is ``completed``.

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

    Sets ``UNILAB_METRICS_*`` in ``os.environ`` for child processes, which call
    :func:`connect`. With ``UNILAB_METRICS_DISABLED=1`` nothing is done.

    Raises ``ValueError`` for a backend that does not exist, a ``bind`` that is no address and, in
    strict mode, for arguments
    that make no sense; nothing else.
    """
    run = RunInfo(
        algorithm=algorithm,
        task=task,
        sim_backend=sim_backend,
        step_axis=step_axis or ("env_steps" if algorithm.lower() in OFF_POLICY else "iteration"),
        max_iterations=max_iterations,
        strict=strict,
    )
    key = SourceKey(rank or 0, role, instance)
    if is_disabled(os.environ):
        return disabled_publisher(key, run)
    names = (backends,) if isinstance(backends, str) else tuple(backends)
    for name in names:
        if name not in BACKENDS:
            raise ValueError(f"no backend {name!r}; there are: {', '.join(BACKENDS)}")
    if bind is not None:
        resolve_bind(bind, {})
    wish = RankWish(
        role=role,
        instance=instance,
        rank=rank,
        world_size=world_size,
        run_dir=None if run_dir is None else Path(run_dir).absolute(),
        log_root=Path(log_root),
        run=run,
        config=config,
        backends=names,
        log_interval=log_interval,
        expected_learners=expected_learners,
        bind=bind,
    )
    try:
        return open_rank(wish)
    except Exception as error:  # noqa: BLE001 (no training ends because its metrics cannot start)
        return _unavailable(key, run, error)


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
    that has found no run by its end warns, and nothing of it is kept. Returns at once. Raises ``ValueError`` in strict mode for arguments that make no sense, nothing else.
    """
    inherited = inheritance.read(os.environ, of_others=False)
    run = RunInfo(
        algorithm=inherited.algorithm if algorithm is None else algorithm,
        strict=inherited.strict if strict is None else strict,
    )
    known_rank = inherited.rank if rank is None else rank
    key = SourceKey(known_rank or 0, role, instance)
    if is_disabled(os.environ):
        return disabled_publisher(key, run)
    wish = ChildWish(
        role=role,
        instance=instance,
        rank=known_rank,
        run_dir=None if run_dir is None else Path(run_dir).absolute(),
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
