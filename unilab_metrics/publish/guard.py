"""The promise of every public method: it neither raises nor waits, mistakes in strict mode
excepted, and what the training's own signal handlers raise meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from unilab_metrics.publish.refusals import Refusals
from unilab_metrics.publish.signal_handlers import is_of_signal_handler
from unilab_metrics.publish.strict import StrictModeError


class Counting(Protocol):
    """Whose methods are guarded."""

    @property
    def refusals(self) -> Refusals:
        """Where their failures are counted and named."""
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
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            self.refusals.failed(error)

    return call
