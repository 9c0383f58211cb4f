"""A metrics bus for reinforcement-learning training.

    import unilab_metrics as um

    publisher = um.init(algorithm="sac", task="Go2", sim_backend="mujoco")
    publisher.log({"Loss/actor": loss}, iteration=1, env_steps=4096)
    publisher.close()

Importing this package imports nothing else: each name below is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unilab_metrics.errors import UnilabMetricsError
    from unilab_metrics.publish.publisher import Publisher
    from unilab_metrics.publish.scalars import Mean
    from unilab_metrics.run.session import connect, init
    from unilab_metrics.subscribe.subscriber import Subscriber

__version__ = "0.1.0"

__all__ = [
    "Mean",
    "Publisher",
    "Subscriber",
    "UnilabMetricsError",
    "connect",
    "init",
]

_HOMES = {
    "Mean": "unilab_metrics.publish.scalars",
    "Publisher": "unilab_metrics.publish.publisher",
    "Subscriber": "unilab_metrics.subscribe.subscriber",
    "UnilabMetricsError": "unilab_metrics.errors",
    "connect": "unilab_metrics.run.session",
    "init": "unilab_metrics.run.session",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
