"""A training's tags without those that the bus has of itself and of its node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Value = TypeVar("Value")


def without_bus(by_tag: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """What the training logged, by tag."""
    own = ("Bus/", "Node/")
    return {tag: value for tag, value in dict(by_tag).items() if not tag.startswith(own)}
