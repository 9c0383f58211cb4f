"""Parts of the demo that can be made slow on purpose, to see what the sidecar says of them."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SlowPart = Literal["env", "learner", "inference", "prefetch", "ingress", "submit"]
Wait = Annotated[float, Meta(gt=0.0, le=10_000.0)]


class SlowOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``part`` really takes ``wait_ms`` longer each time, where its own clock runs, once the
    warm-up is over.

    ``env``: a tick's physics. ``learner``: an update. ``inference``: the policy's forward pass.
    ``prefetch``: gathering the next batches. ``ingress``: writing a tick's transitions into the
    ring. ``submit``: copying a ring slot to the device in the background, at most as long as
    the learner's main thread does not have to wait for it: a third of an iteration.
    """

    part: SlowPart | None = None
    wait_ms: Wait = 150.0

    def wait_s(self, part: SlowPart) -> float:
        """What ``part`` waits each time in seconds, 0 for a part that is not slow."""
        return self.wait_ms / 1e3 if part == self.part else 0.0


def wait(seconds: float) -> None:
    """Takes its time; nothing at all for 0."""
    if seconds > 0.0:
        time.sleep(seconds)
