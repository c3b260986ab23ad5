"""Numbers of one read by counter, in a third of a dictionary's room: windows hold hundreds of thousands of reads."""

from __future__ import annotations

from array import array
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from enum import StrEnum
from functools import lru_cache
from operator import sub
from struct import Struct
from typing import Generic, TypeVar, overload

T = TypeVar("T")
K = TypeVar("K", bound=StrEnum)
_NUMBER = Struct("d")
_number_at = _NUMBER.unpack_from


class Numbers(Mapping[K, float], Generic[K]):
    """An immutable mapping to floats. Those with the same keys in the same order share them."""

    __slots__ = ("_packed", "_places")

    def __init__(self, values: Mapping[K, float]) -> None:
        self._places: Mapping[K, int] = _places(tuple(values))
        # Bytes hold their content themselves; an array is as large again.
        self._packed = array("d", values.values()).tobytes()

    def __getitem__(self, key: K) -> float:
        number: float = _number_at(self._packed, self._places[key])[0]
        return number

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return repr(self.plain())

    @overload
    def get(self, key: K, /) -> float | None: ...
    @overload
    def get(self, key: K, /, default: float | T) -> float | T: ...
    def get(self, key: K, /, default: float | T | None = None) -> float | T | None:
        """Return the number of a key, `default` where there is none."""
        place = self._places.get(key)
        return default if place is None else _number_at(self._packed, place)[0]

    def items(self) -> ItemsView[K, float]:
        """Return keys with their numbers."""
        return self.plain().items()

    def values(self) -> ValuesView[float]:
        """Return the numbers."""
        return self.plain().values()

    def plain(self) -> dict[K, float]:
        """Return them as a dictionary of the caller's own."""
        return dict(zip(self._places, self.numbers(), strict=True))

    def numbers(self) -> array[float]:
        """Return the numbers alone, in the order of the keys."""
        return array("d", self._packed)

    def less(self, before: Mapping[K, float]) -> dict[K, float]:
        """Return by how much each exceeds an earlier number, where there is one."""
        if isinstance(before, Numbers) and before._places is self._places:
            return dict(zip(self._places, map(sub, self.numbers(), before.numbers()), strict=True))
        return {key: value - before[key] for key, value in self.items() if key in before}


def sum_of(rows: Sequence[Mapping[K, float]]) -> dict[K, float]:
    """Return the sum of each number that all rows carry; nothing where there is no row."""
    alike = [row for row in rows if isinstance(row, Numbers)]
    if rows and len(alike) == len(rows) and len({id(row._places) for row in alike}) == 1:
        every, width = array("d", b"".join([row._packed for row in alike])), len(alike[0])
        return {key: sum(every[place::width]) for place, key in enumerate(alike[0])}
    common = set.intersection(*map(set, rows)) if rows else set()
    return {key: sum(row[key] for row in rows) for key in common}


@lru_cache(maxsize=1_000)
def _places(keys: tuple[K, ...]) -> Mapping[K, int]:
    return {key: place * _NUMBER.size for place, key in enumerate(keys)}
