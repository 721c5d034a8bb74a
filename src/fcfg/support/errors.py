"""The one error a caller's mistake raises, always in the same four parts."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral


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

    __module__ = "fcfg"  # in tracebacks, the name that users know

    def __init__(self, subject: str, *, expected: str, got: object, do: str) -> None:
        self.expected, self.got, self.do = expected, got, do
        message = f"{subject}: expected {expected}, got {got}; {do}"
        super().__init__(" ".join(message.split()) + ("" if do.endswith("?") else "."))

    def about(self, subject: str, do: str) -> InputError:
        """The same error about what the caller knows it by."""
        return InputError(subject, expected=self.expected, got=self.got, do=do)


def short(value: object) -> str:
    """What came, for a message: its kind, and as much of it as is readable.

    >>> short("cfg:3"), short(None), short(list(range(100)))
    ("str 'cfg:3'", 'None', 'list [0, 1, 2, 3, 4, 5, ...]')
    """
    return "None" if value is None else f"{type(value).__name__} {reprlib.repr(value)}"


def check_is(
    subject: str, value: object, kind: type | tuple[type, ...], expected: str, *, do: str = ""
) -> None:
    """Refuse an argument of the wrong type.

    >>> check_is("guidance", 3, str, "a string")
    Traceback (most recent call last):
    fcfg.InputError: guidance: expected a string, got int 3; pass a string.

    Args:
        subject: Name of the argument.
        value: Argument to check.
        kind: Accepted types.
        expected: Description of these types.
        do: Advice; by default, to pass what is expected.
    """
    if not isinstance(value, kind):
        raise InputError(subject, expected=expected, got=short(value), do=do or f"pass {expected}")


def check_integer(subject: str, value: object, low: int, high: int, do: str) -> int:
    """Return an integer within bounds, or raise."""
    if isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high:
        return int(value)
    raise InputError(subject, expected=f"an integer from {low} to {high}", got=short(value), do=do)


def check_among(subject: str, name: object, known: Iterable[str]) -> None:
    """Refuse a name that is not a known one.

    >>> check_among("unit", "kelivn", ["celsius", "kelvin"])
    Traceback (most recent call last):
    fcfg.InputError: unit: expected one of 'celsius', 'kelvin', got 'kelivn'; did you mean
    'kelvin'?
    """
    known = list(known)
    if name not in known:
        raise InputError(
            subject,
            expected=f"one of {quoted(known)}",
            got=repr(name),
            do=nearest(str(name), known),
        )


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


def complaint(*parts: tuple[str, Iterable[str]]) -> str:
    """What is wrong with several lists of names, without the lists that are empty.

    >>> complaint(("none for", ["age"]), ("one for", []))
    "none for 'age'"
    >>> complaint(("none for", ["age"]), ("one for", ["aeg"]))
    "none for 'age' and one for 'aeg'"
    """
    listed = [(what, list(names)) for what, names in parts]
    return " and ".join(f"{what} {quoted(names)}" for what, names in listed if names)
