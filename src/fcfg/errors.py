"""The one error a caller's mistake raises, always in the same four parts."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Something that came in from outside is not usable, and nothing was done with it.

    The message is one sentence of four parts: which object, what was expected, what came,
    what to do.

    >>> print(InputError("steps", expected="1 to 1000", got=0, do="give a larger number"))
    steps: expected 1 to 1000, got 0; give a larger number.

    Args:
        subject: The object that is wrong, as the caller knows it.
        expected: What would have been accepted.
        got: What came instead.
        do: What the caller can do about it.
    """

    def __init__(self, subject: str, *, expected: str, got: object, do: str) -> None:
        super().__init__(f"{subject}: expected {expected}, got {got}; {do}.")


def nearest(name: str, known: Iterable[str]) -> str:
    """Advice for an unknown name: the closest known one, or the list of all.

    >>> nearest("smilling", ["smiling", "male"])
    "did you mean 'smiling'?"
    >>> nearest("age", ["smiling", "male"])
    "use one of 'smiling', 'male'"
    """
    known = list(known)
    close = get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"use one of {quoted(known)}"


def quoted(names: Iterable[str]) -> str:
    """Names for a message: quoted, separated by commas.

    >>> quoted(["age", "sex"])
    "'age', 'sex'"
    """
    return ", ".join(f"'{name}'" for name in names) or "nothing"
