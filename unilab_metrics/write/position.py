"""How far a backend is in the history, and what it needs to go on from there; pure."""

from __future__ import annotations

import msgspec

from unilab_schema.identity import StepAxis


class Position(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Kept inside what the backend wrote, so that data and cursor cannot disagree.

    ``update``: everything up to this update sequence is in the backend. ``replay``: read the
    history again from the record after this one, for the chunks of blobs that were not whole
    yet; nothing up to ``update`` is written again. ``journal``: hex id of the history that
    the sequences belong to. ``attempt``, ``iteration``, ``step``: of the newest update.
    ``reopened``: that attempt has not written an update yet. ``lost``: the first update that was
    passed over because the history lacked it, 0 for none.
    """

    update: int = 0
    replay: int = 0
    journal: str = ""
    algorithm: str = ""
    step_axis: StepAxis = "iteration"
    attempt: int = 0
    iteration: int | None = None
    step: int = 0
    reopened: bool = False
    lost: int = 0

    def of_journal(self, journal: str) -> Position:
        """What it means in ``journal``: in another one everything is new, and what the
        backend holds is an earlier attempt."""
        if not journal or journal == self.journal:
            return self
        if not self.journal:
            return msgspec.structs.replace(self, journal=journal)
        return msgspec.structs.replace(
            self, journal=journal, update=0, replay=0, attempt=0, reopened=True, lost=0
        )


_decoder = msgspec.json.Decoder(Position)


def encode_position(position: Position) -> str:
    """One line of JSON."""
    return msgspec.json.encode(position).decode()


def decode_position(text: str) -> Position:
    """Raises ``ValueError`` for anything that :func:`encode_position` did not make."""
    return _decoder.decode(text)
