"""tensorboardX's protobuf classes, without tensorboardX.

Importing the package runs its ``__init__``, which imports its writer and with it torch
(2 s, 220 MB) and whatever logging service is installed. The writer process needs the
generated modules only, so they are imported under a bare stand-in for the package.

They are loaded when they are first used: what reads a run without event files works without
them. The classes are made at run time from descriptors, so to a type checker they are ``Any``.
``SESSION_START``: readers forget what lies at and after the step of such an event.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

from unilab_metrics.errors import MissingPackageError

if TYPE_CHECKING:
    DecodeError: type[Exception]
    Event: Any
    SESSION_START: int
    STRING_TENSOR: int

_PACKAGE = "tensorboardX"
_USER = "the TensorBoard backend"


def _load(name: str) -> Any:
    module = f"{_PACKAGE}.proto.{name}"
    if _PACKAGE in sys.modules:
        return importlib.import_module(module)
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise MissingPackageError(_USER, _PACKAGE)
    stand_in = types.ModuleType(_PACKAGE)
    stand_in.__path__ = list(spec.submodule_search_locations)
    sys.modules[_PACKAGE] = stand_in
    try:
        return importlib.import_module(module)
    finally:
        # A later import of the package in this process gets the real one.
        del sys.modules[_PACKAGE]


def load() -> None:
    """Load them now. Raises :class:`MissingPackageError`."""
    try:
        event_pb2 = _load("event_pb2")
        found = {
            "Event": event_pb2.Event,
            "SESSION_START": event_pb2.SessionLog.START,
            "STRING_TENSOR": _load("types_pb2").DT_STRING,
            "DecodeError": importlib.import_module("google.protobuf.message").DecodeError,
        }
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        names = {"google": "protobuf", "": _PACKAGE}
        raise MissingPackageError(_USER, names.get(package, package)) from error
    globals().update(found)


def __getattr__(name: str) -> Any:
    if name not in {"DecodeError", "Event", "SESSION_START", "STRING_TENSOR"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    load()
    return globals()[name]
