"""When what could not be answered for the moment is asked again. Pure: time is handed in."""

from __future__ import annotations

from unilab_metrics.subscribe.asking import NoAnswer

PAUSE_S = 5.0
"""From asking until asking again; who has waited as long for the answer asks again at once."""


class AskingAgain:
    """Of each kind of question one. One owner, no locks."""

    def __init__(self) -> None:
        self._asked_s: dict[object, float] = {}
        self._not_before_s: dict[object, tuple[object, float]] = {}
        self._is_heard = False

    def is_due(self, kind: object, question: object, now_s: float) -> bool:
        """Whether this is the time to ask: always for another question of the same kind."""
        paused, until_s = self._not_before_s.get(kind, (None, 0.0))
        return paused is not question or now_s >= until_s

    def asked(self, kind: object, question: object, reply: object, now_s: float) -> None:
        """It was asked; ``reply``: ``None`` while that is waited for."""
        asked_s = self._asked_s.setdefault(kind, now_s)
        self._not_before_s.pop(kind, None)
        if reply is None:
            return
        if isinstance(reply, NoAnswer) and reply.may_come:
            self._not_before_s[kind] = question, asked_s + PAUSE_S
        del self._asked_s[kind]

    def heed(self, *, is_heard: bool) -> None:
        """Whether the run is heard: as soon as it is again nothing waits any longer."""
        if is_heard and not self._is_heard:
            self._not_before_s.clear()
        self._is_heard = is_heard
