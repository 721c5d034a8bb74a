"""What was computed before, by a key of everything that it depends on: on disk, or in memory.

An entry that is missing, broken, or of something else is computed again. So a folder can be
deleted at any time, several processes can share it, and an interrupted run finds what it had.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, cast

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

from fcfg.support.files import write_atomically
from fcfg.support.hashing import hex_digest

#: Tensors by name.
Entry: TypeAlias = Mapping[str, Tensor]


@dataclass(frozen=True)
class Store:
    """Entries of tensors in a folder, one file each, written completely or not at all.

    >>> import tempfile, torch
    >>> store = Store(Path(tempfile.mkdtemp()))
    >>> store.put({"x": torch.ones(2)}, "model of today", "image 7", 50)
    >>> store.get("model of today", "image 7", 50), store.get("model of today", "image 8", 50)
    ({'x': tensor([1., 1.])}, None)
    """

    folder: Path

    def get(self, *key: Any) -> dict[str, Tensor] | None:
        """Return an entry by JSON values of all that it depends on; None if missing or broken."""
        try:
            return load_file(self.path(*key))
        except (OSError, SafetensorError):
            return None

    def put(self, entry: Entry, *key: Any) -> None:
        """Keep an entry by JSON values of all that it depends on, instead of an older one."""
        path = self.path(*key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_bytes({name: value.clone() for name, value in entry.items()}))

    def path(self, *key: Any) -> Path:
        """Return the file of an entry, whose name is a digest of the key."""
        digest = hex_digest(json.dumps(key))
        return self.folder / digest[:2] / f"{digest}.safetensors"


class Memory:
    """Values by key, of a bounded size in all; what was not used for longest is forgotten.

    Threads may share it. A value larger than ``most_bytes`` is not kept.

    >>> memory = Memory(most_bytes=20)
    >>> memory.put("a", "first")
    >>> memory.put("b", "second")
    >>> memory.get("a"), memory.get("b"), memory.size
    (None, 'second', 12)
    """

    def __init__(self, most_bytes: float = float("inf")) -> None:
        self._most, self._lock = most_bytes, Lock()
        self._values: OrderedDict[object, tuple[Any, int]] = OrderedDict()
        self.size = 0  #: bytes of all values

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: object) -> Any:
        """Return a value, which then counts as the last one used; None if it is not there."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: object, value: object) -> None:
        """Keep a value, and forget others until all fit."""
        size = size_of(value)
        with self._lock:
            self.size -= self._values.pop(key, (None, 0))[1]
            self._values[key] = value, size
            self.size += size
            while self.size > self._most:
                self.size -= self._values.popitem(last=False)[1][1]


def size_of(value: object) -> int:
    """Return the bytes of all arrays and texts in a value, at any depth."""
    if isinstance(value, str):
        return 2 * len(value)
    if isinstance(value, Mapping):
        return sum(map(size_of, cast("Mapping[object, object]", value).values()))
    if isinstance(value, list | tuple):
        return sum(map(size_of, cast("list[object]", value)))
    if is_dataclass(value):
        return sum(size_of(getattr(value, field.name)) for field in fields(value))
    return int(getattr(value, "nbytes", 0))
