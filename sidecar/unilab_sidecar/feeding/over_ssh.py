"""The way to a run of another machine, made before a screen takes the terminal: ssh asks for
passwords and the like there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from unilab_sidecar.feeding.summary import Summary, summary_in
from unilab_sidecar.terminal.error_output import say_error

if TYPE_CHECKING:
    from unilab_metrics.subscribe.ssh.run_over_ssh import RunOverSsh
    from unilab_metrics.subscribe.ssh.shared_way import SharedWay


def reach(
    text: str, *, waits: bool, way: int | None, is_wanted: Callable[[], bool] = lambda: True
) -> RunOverSsh | SharedWay:
    """``text``: as people write it. ``waits``: for the run. ``way``: descriptor of a connection
    that another process holds. ``is_wanted``: whether there is still anybody to show it to. Raises
    as ``RunOverSsh.open`` and ``parse_target``, and ``KeyboardInterrupt``, also when nobody is."""
    if way is not None:
        from unilab_metrics.subscribe.ssh.shared_way import SharedWay

        return SharedWay(way)
    from unilab_metrics.subscribe.ssh.run_over_ssh import RunOverSsh
    from unilab_metrics.subscribe.ssh.target import parse_target

    def say(words: str) -> None:
        if not is_wanted():
            raise KeyboardInterrupt
        for line in words.splitlines():
            say_error(line)

    return RunOverSsh.open(parse_target(text), waits=waits, say=say)


def summary_of(run: RunOverSsh | SharedWay, attempt: int) -> Summary | None:
    """What the run's summary said of ``attempt`` when the other machine was last asked."""
    return None if run.summary is None else summary_in(run.summary, attempt)
