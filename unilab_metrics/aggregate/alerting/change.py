"""An alert that begins or ends because time has passed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from unilab_schema.frames import Scalar


class Change(NamedTuple):
    """``rule`` and ``subject`` name the alert while it is open."""

    rule: str
    subject: str
    text: str
    began: bool
    facts: Mapping[str, Scalar] = MappingProxyType({})
