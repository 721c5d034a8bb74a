"""Weights that a user names, read whole: what they hold, and how records name them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from fcfg.support.errors import InputError

T = TypeVar("T")


def read_stored(
    path: Path, read: Callable[[BytesIO], T], *, name: str, expected: str
) -> tuple[T, str]:
    """Return what a file holds, and its SHA-256.

    Args:
        path: The file.
        read: How it is read.
        name: What it should hold, for a refusal.
        expected: What kind of file it should be.
    """
    try:
        data = path.read_bytes()
        return read(BytesIO(data)), hashlib.sha256(data).hexdigest()
    except Exception as error:  # torch raises whatever a broken file provokes
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(
            f"{name} {path}",
            expected=expected,
            got=reason or type(error).__name__,
            do="check the path, and fetch the file again if it is broken",
        ) from error
