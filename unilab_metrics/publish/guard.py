"""The promise of every public method: it neither raises nor waits, mistakes in strict mode
excepted."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from unilab_metrics.publish.losses import Losses
from unilab_metrics.publish.strict import StrictModeError


class Counting(Protocol):
    """Whose methods are guarded."""

    @property
    def losses(self) -> Losses:
        """Where their failures are counted."""
        ...


_P = ParamSpec("_P")
_Self = TypeVar("_Self", bound=Counting)


def guarded(
    method: Callable[Concatenate[_Self, _P], None],
) -> Callable[Concatenate[_Self, _P], None]:
    """Counts what ``method`` raises as an internal error instead of passing it on."""

    @wraps(method)
    def call(self: _Self, /, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except StrictModeError:
            raise
        except Exception as error:  # noqa: BLE001 - a training must never end because of us
            self.losses.internal_error(error)

    return call
