"""How often a peer is told no: a flood of nonsense must not be answered with another flood.
Pure."""

from __future__ import annotations

INTERVAL_NS = 100_000_000
MAX_PER_SECOND = 512
_MAX_PEERS = 4096
_SECOND_NS = 1_000_000_000


class Refusals:
    """Times are nanoseconds of one monotonic clock, passed in.

    Whoever gets no answer asks again after a second, as after an answer that was lost.
    """

    def __init__(self) -> None:
        self._said_ns: dict[tuple[bytes, str], int] = {}
        self._second_began_ns = 0
        self._said_in_second = 0

    def may_answer(self, routing_id: bytes, code: str, now_ns: int) -> bool:
        """Whether to send this refusal: once per peer and code in 100 ms, 512 a second in all."""
        if now_ns - self._second_began_ns >= _SECOND_NS:
            self._second_began_ns = now_ns
            self._said_in_second = 0
        said_ns = self._said_ns.get((routing_id, code))
        is_again = said_ns is not None and now_ns - said_ns < INTERVAL_NS
        if is_again or self._said_in_second >= MAX_PER_SECOND:
            return False
        if len(self._said_ns) >= _MAX_PEERS:
            self._said_ns.clear()
        self._said_ns[routing_id, code] = now_ns
        self._said_in_second += 1
        return True
