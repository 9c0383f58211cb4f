"""tensorboardX's protobuf classes, without tensorboardX.

Importing the package runs its ``__init__``, which imports its writer and with it torch
(2 s, 220 MB) and whatever logging service is installed. The writer process needs the
generated modules only, so they are imported under a bare stand-in for the package.

The classes are made at run time from descriptors, so to a type checker they are ``Any``.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any

_PACKAGE = "tensorboardX"


def _load(name: str) -> Any:
    module = f"{_PACKAGE}.proto.{name}"
    if _PACKAGE in sys.modules:
        return importlib.import_module(module)
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError(f"the TensorBoard backend needs {_PACKAGE}", name=_PACKAGE)
    stand_in = types.ModuleType(_PACKAGE)
    stand_in.__path__ = list(spec.submodule_search_locations)
    sys.modules[_PACKAGE] = stand_in
    try:
        return importlib.import_module(module)
    finally:
        # A later import of the package in this process gets the real one.
        del sys.modules[_PACKAGE]


_event_pb2 = _load("event_pb2")

Event: Any = _event_pb2.Event
SESSION_START: int = _event_pb2.SessionLog.START
"""Readers forget what lies at and after the step of such an event."""
STRING_TENSOR: int = _load("types_pb2").DT_STRING
DecodeError: type[Exception] = importlib.import_module("google.protobuf.message").DecodeError
