"""``RuntimeWarning``s of a training process, at the line of the training that they are about."""

from __future__ import annotations

import inspect
import warnings
from types import FrameType

_PACKAGE = "unilab_metrics"


def warn_caller(text: str) -> bool:
    """Warn at the nearest line outside this package; any thread. Whether the warning was taken.

    Where warnings are errors it is not, and nothing is raised: a training must not end because
    of us.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_ours(frame):
        frame, level = frame.f_back, level + 1
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=level)
    except RuntimeWarning:
        return False
    return True


def _is_ours(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__"))
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")
