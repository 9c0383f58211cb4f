"""Whose exception it is: a signal handler of the training runs between any two steps of ours."""

from __future__ import annotations

import signal
from types import CodeType
from typing import Any, cast


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
