"""Standard output and error that can always be written to.

A terminal without UTF-8 gets the nearest ASCII text, and output to a closed stream is dropped. So
is what standard error cannot take, as on a full disk: the exit code says the same without it.
"""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, TextIO, cast

_LETTERS = zip("→−–±×·Δωλ", ("->", "-", "-", "+-", "x", "-", "d", "w", "l"), strict=True)
_ASCII = str.maketrans(dict(_LETTERS))
_ERRORS = "fcfg-ascii"  # name of our error handler


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Return the nearest ASCII text, without accents, with a question mark where there is none."""
    failed = cast(UnicodeEncodeError, error)
    text = failed.object[failed.start : failed.end].translate(_ASCII)
    parts = [unicodedata.normalize("NFKD", letter).encode("ascii", "ignore") for letter in text]
    return "".join(part.decode() or "?" for part in parts), failed.end


class _Dropping:
    """A stream that leads nowhere from the first text that it cannot write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._or_nowhere(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._or_nowhere(self._stream.flush)

    def _or_nowhere(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


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
        sys.stderr = cast("Any", _Dropping(sys.stderr))
        try:
            yield
        finally:
            sys.stderr.flush()  # what waits is dropped here, not refused by what follows
            for stream, errors in changed:
                stream.reconfigure(errors=errors)
            sys.stdout, sys.stderr = before


def open_closed(numbers: Iterable[int]) -> None:
    """Open closed standard streams, so that no other file gets their number."""
    for number in numbers:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
