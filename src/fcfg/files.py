"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, data: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file so that its name never stands for a part of it, whenever the power fails.

    Args:
        path: In a folder that exists.
        data: The contents, or a function that writes them.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            if callable(data):
                data(file)
            else:
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)  # the rename itself must last, too
        os.fsync(folder)
        os.close(folder)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
