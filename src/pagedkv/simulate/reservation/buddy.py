"""The buddy allocator: stretches of a power of two of units, halved when taken and merged again when given back.

The pool is cut into arenas that hold the longest sequence, and what is left greedily into smaller powers of two:

    | arena | arena | ... | 1/2 | 1/8 | ... |       units of 16 tokens; tokens that fill no unit are unused

Every stretch starts at a multiple of its length, so a buddy's address differs from its own in one bit.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from pagedkv.simulate.reservation.lengths import next_power_of_two

UNIT = 16  # tokens


class Buddy:
    """Free stretches by length, each list in order of address. Cost: O(log pool) lists, and a search in each.

    longest: tokens of the longest sequence; buddies merge up to the arena that holds it, never beyond.
    """

    def __init__(self, tokens: int, longest: int) -> None:
        units = tokens // UNIT
        self._arena = next_power_of_two(_units(longest))
        # Arenas that were never used are no list: a large pool of short sequences would fill memory. They lie above
        # every arena that was given back, so those come first.
        self._fresh, self._fresh_end = 0, units // self._arena * self._arena
        self._free: dict[int, list[int]] = {1 << bit: [] for bit in range(self._arena.bit_length())}
        self._cut_rest(units)
        self.largest = UNIT * (
            self._arena if self._fresh_end else max((s for s, at in self._free.items() if at), default=0)
        )

    def take(self, tokens: int) -> int | None:
        """The smallest sufficient free length, the lowest address of it; the low half is kept when it is halved."""
        size = wanted = _stretch(tokens)
        while size <= self._arena:
            start = self._lowest(size)
            if start is not None:
                break
            size *= 2
        else:
            return None
        while size > wanted:
            size //= 2
            insort(self._free[size], start + size)
        return start * UNIT

    def give(self, start: int, tokens: int) -> None:
        """Merge with the buddy as long as it is free as a whole."""
        at, size = start // UNIT, _stretch(tokens)
        while size < self._arena and self._remove(size, at ^ size):
            at &= ~size
            size *= 2
        insort(self._free[size], at)

    def _cut_rest(self, units: int) -> None:
        """What is smaller than an arena: never merged with anything, because no two pieces have one length."""
        start, size = self._fresh_end, self._arena
        while size > 1:
            size //= 2
            if start + size <= units:
                self._free[size].append(start)
                start += size

    def _lowest(self, size: int) -> int | None:
        if free := self._free[size]:
            return free.pop(0)
        if size == self._arena and self._fresh < self._fresh_end:
            self._fresh += size
            return self._fresh - size
        return None

    def _remove(self, size: int, start: int) -> bool:
        """Take one stretch out of the free ones; False: it is not free, or not as a whole."""
        free = self._free[size]
        at = bisect_left(free, start)
        if at == len(free) or free[at] != start:
            return False
        del free[at]
        return True


def _units(tokens: int) -> int:
    return -(-tokens // UNIT)


def _stretch(tokens: int) -> int:
    return next_power_of_two(_units(tokens))
