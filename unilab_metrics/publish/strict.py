"""What a training's own mistakes raise in strict mode, at the call; nothing else is raised."""

from __future__ import annotations


class StrictModeError(ValueError):
    """Base of them. In open mode the same mistakes are counted and named instead."""


class TagError(StrictModeError):
    """A tag that is not registered, belongs to the logger, or is no usable name."""


class DuplicateTagError(StrictModeError):
    """A tag was logged twice for one iteration."""


class PhaseNameError(StrictModeError):
    """A phase that this role and algorithm do not have."""


class ArgumentError(StrictModeError):
    """Arguments that contradict the role of the publisher or each other."""
