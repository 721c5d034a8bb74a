"""A cache that holds a bounded number of bytes, and forgets what was not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class BoundedCache(Generic[Value]):
    """Values by key, of a bounded size in all; threads may share it.

    >>> cache = BoundedCache[str](most_bytes=10)
    >>> cache.put("a", "first", 6)
    >>> cache.put("b", "second", 6)
    >>> cache.get("a"), cache.get("b"), cache.size
    (None, 'second', 6)

    Args:
        most_bytes: Largest size of all values together; a larger value is not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most, self._lock = most_bytes, Lock()
        self._values: OrderedDict[object, tuple[Value, int]] = OrderedDict()
        self.size = 0  #: bytes of all values

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: object) -> Value | None:
        """Return a value, which then counts as the last one used; None if it is not there."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: object, value: Value, size: int) -> None:
        """Keep a value, and forget others until all fit."""
        with self._lock:
            self.size -= self._values.pop(key, (None, 0))[1]
            self._values[key] = value, size
            self.size += size
            while self.size > self._most:
                self.size -= self._values.popitem(last=False)[1][1]
