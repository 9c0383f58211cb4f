"""The promise of every public method: it neither raises nor waits, mistakes in strict mode
excepted, and what the training's own signal handlers raise meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import wraps
from types import CodeType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

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
        except Exception as error:
            if is_of_signal_handler(error):
                raise
            self.losses.internal_error(error)

    return call


def is_of_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler of this process has raised it, which Python calls between any two
    steps of ours: a watchdog's exception is the training's and not a failure of ours."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            return True
        traceback = traceback.tb_next
    return False


def _code(handler: Any) -> CodeType | None:
    """The code of a handler that is a function, a method, a partial or a callable object."""
    handler = getattr(handler, "func", handler)
    classes: tuple[Any, ...] = cast("Any", type)(handler).__mro__
    calls = [cast("dict[str, Any]", vars(owner)).get("__call__") for owner in classes]
    for found in (handler, *calls):
        code = getattr(found, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None
