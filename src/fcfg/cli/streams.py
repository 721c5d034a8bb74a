"""Standard output and error that can always be written to, whatever the terminal is.

A terminal that does not speak UTF-8 gets the nearest ASCII text; a stream that was closed gets
nothing, and nothing fails.
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
_ERRORS = "fcfg-ascii"  # name of the way to write what an encoding lacks


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """The nearest ASCII text of what cannot be encoded."""
    failed = cast(UnicodeEncodeError, error)
    lacking = failed.object[failed.start : failed.end]
    return "".join(map(_plain, lacking)), failed.end


def _plain(letter: str) -> str:
    """A letter in ASCII, without its accents; a question mark where there is none."""
    parts = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _ASCII.get(letter) or parts or "?"


@contextmanager
def usable_streams() -> Generator[None]:
    """Make standard output and error usable for as long as a command runs."""
    open_closed((0, 1, 2))
    codecs.register_error(_ERRORS, _nearest)
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        # Python leaves None where a descriptor was closed when it started.
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
    """Keep files that are opened later from getting the number of a standard stream.

    Args:
        numbers: Numbers of the streams, from the lowest.
    """
    for number in numbers:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # which takes the lowest number that is free
