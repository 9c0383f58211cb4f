"""Sequences of which each one is worked out when somebody looks at it. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar, cast, overload

T_co = TypeVar("T_co", covariant=True)


class WorkedOut(Sequence[T_co]):
    """Equal to any other sequence of the same."""

    __slots__ = ()

    @abstractmethod
    def one(self, place: int) -> T_co:
        """The one at a place, from 0 to less than the length."""

    def some(self, places: range) -> Sequence[T_co]:
        """Those at such places."""
        return tuple(self.one(place) for place in places)

    @overload
    def __getitem__(self, place: int) -> T_co: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T_co]: ...
    def __getitem__(self, place: int | slice) -> T_co | Sequence[T_co]:
        places = range(len(self))
        return self.some(places[place]) if isinstance(place, slice) else self.one(places[place])

    def __iter__(self) -> Iterator[T_co]:
        return (self.one(place) for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(cast("Sequence[object]", other))

    __hash__ = None  # type: ignore[assignment]
