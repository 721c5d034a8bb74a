"""Standard output and error that can always be written to.

A terminal without UTF-8 gets the nearest ASCII text, and output to a closed stream is dropped.
"""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

_ASCII = dict(zip("→−–±×·Δωλ", ("->", "-", "-", "+-", "x", "-", "d", "w", "l"), strict=True))
_ERRORS = "fcfg-ascii"  # name of our error handler


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Return the nearest ASCII text for characters that cannot be encoded."""
    failed = cast(UnicodeEncodeError, error)
    text = failed.object[failed.start : failed.end]
    return "".join(map(_plain, text)), failed.end


def _plain(letter: str) -> str:
    """Return a letter in ASCII, without accents; a question mark if there is none."""
    parts = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _ASCII.get(letter) or parts or "?"


@contextmanager
def usable_streams() -> Generator[None]:
    """Make standard output and error usable while a command runs."""
    open_closed((0, 1, 2))
    codecs.register_error(_ERRORS, _nearest)
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        # They are None if their descriptors were closed when Python started.
        sys.stdout, sys.stderr = (cast("Any", stream) or nowhere for stream in before)
        changed = [(s, s.errors) for s in (sys.stdout, sys.stderr) if hasattr(s, "reconfigure")]
        for stream, _ in changed:
            stream.reconfigure(errors=_ERRORS)
        try:
            yield
        finally:
            for stream, errors in changed:
                stream.reconfigure(errors=errors)
            sys.stdout, sys.stderr = before


def open_closed(numbers: Iterable[int]) -> None:
    """Open closed standard streams, so that no other file gets their number.

    Args:
        numbers: Numbers of the streams, in ascending order.
    """
    for number in numbers:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
