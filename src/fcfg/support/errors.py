"""``InputError``, the error for wrong input, and checks that raise it."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from numbers import Integral
from types import ModuleType
from typing import Any

_MOST = 5  # faults told at once
_LONGEST = 1000  # characters of a part of a message


class InputError(ValueError):
    """Wrong input, found before any work is done.

    The message is one sentence of four parts: the wrong object by the name that the caller knows,
    what is accepted, what was given, and what to do.

    >>> print(InputError("steps", expected="1 to 1000", got=0, do="give a larger number"))
    steps: expected 1 to 1000, got 0; give a larger number.
    """

    __module__ = "fcfg"  # the public name, for tracebacks

    def __init__(self, subject: str, *, expected: str, got: object, do: str) -> None:
        self.subject, self.expected, self.got, self.do = subject, expected, got, do
        parts = [one_line(part) for part in (subject, expected, got, do)]
        stop = "" if do.endswith("?") else "."
        self.sentence = "{}: expected {}, got {}; {}".format(*parts).rstrip() + stop
        super().__init__(self.sentence)
        self.others: list[InputError] = []  #: found together with this one

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(InputError, self.subject, expected=self.expected, do=self.do)
        return partial(again, got=f"{self.got}"), (), {"others": self.others, "args": self.args}

    def about(self, subject: str, do: str) -> InputError:
        """Return the same error with another subject and advice."""
        return InputError(subject, expected=self.expected, got=self.got, do=do)


def one_line(text: object) -> str:
    r"""Return a text as one line of bounded length, which no terminal takes for a command.

    >>> one_line("a\n b \x1b[2J"), len(one_line("x" * 10**6))
    ('a b \\x1b[2J', 1000)
    """
    words = " ".join(str(text).split())
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2 - 1]}…{line[-_LONGEST // 2 :]}"
    return line


def together(*checks: Callable[[], Any]) -> list[Any]:
    """Return what several checks return, or refuse all that is wrong at once."""
    results, faults = list[Any](), list[InputError]()
    for check in checks:
        try:
            results.append(check())
        except InputError as error:
            faults.append(error)
    refuse_all(faults)
    return results


def refuse_all(faults: Iterable[InputError]) -> None:
    """Raise some errors as one, if there are any."""
    if found := list(faults):
        raise joined(found)


def joined(faults: Sequence[InputError]) -> InputError:
    """Return the first of some errors, with the messages of the others after its own."""
    found = {each.sentence: each for fault in faults for each in (fault, *fault.others)}
    sentences, (first, *others) = list(found), found.values()
    rest = [f"{len(sentences) - _MOST} more."] if sentences[_MOST:] else []
    first.args = (" Also: ".join([*sentences[:_MOST], *rest]),)
    first.others = others
    return first


def short(value: object) -> str:
    """Describe a value for a message: a short form of it, and its type unless it is a string.

    >>> short("cfg:3"), short(None), short(list(range(100)))
    ("'cfg:3'", 'None', 'list [0, 1, 2, 3, 4, 5, ...]')
    """
    if value is None or isinstance(value, str):
        return reprlib.repr(value)
    return f"{type(value).__name__} {reprlib.repr(value)}"


def check_is(
    subject: str, value: object, kind: type | tuple[type, ...], expected: str, *, do: str = ""
) -> None:
    """Refuse an argument of the wrong type."""
    if not isinstance(value, kind):
        raise InputError(subject, expected=expected, got=short(value), do=do or f"pass {expected}")


def check_integer(subject: str, value: object, low: int, high: int, do: str) -> int:
    """Return an integer within bounds, or raise."""
    if isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high:
        return int(value)
    raise InputError(subject, expected=f"an integer from {low} to {high}", got=short(value), do=do)


def optional(package: str, subject: str, extra: str) -> ModuleType:
    """Import a package that an extra of fcfg installs, or say how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        expected, do = f"the extra '{extra}' of fcfg", f"run: pip install 'fcfg[{extra}]'"
        raise InputError(subject, expected=expected, got=f"no {package}", do=do) from error


def check_among(subject: str, name: object, known: Iterable[str]) -> None:
    """Refuse an unknown name."""
    known = list(known)
    if name not in known:
        expected, do = f"one of {quoted(known)}", nearest(str(name), known)
        raise InputError(subject, expected=expected, got=repr(name), do=do)


def check_keywords(call: Callable[..., object], given: Iterable[str], more: Iterable[str]) -> None:
    """Refuse keywords that a public function does not take, beside its own and some more."""
    own = signature(call).parameters.values()
    known = [*(each.name for each in own if each.kind is Parameter.KEYWORD_ONLY), *more]
    for name in given:
        check_among(f"{call.__name__}, keyword", name, known)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return advice for an unknown name: the closest known name, or all of them.

    >>> nearest("smilling", ["smiling", "male"]), nearest("age", ["smiling"])
    ("did you mean 'smiling'?", "use one of 'smiling'")
    """
    known = list(known)
    close = get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"use one of {quoted(known)}"


def quoted(names: Iterable[str]) -> str:
    """Quote names and separate them by commas."""
    return ", ".join(f"'{name}'" for name in names) or "nothing"


def complaint(*parts: tuple[str, Iterable[str]]) -> str:
    """Describe lists of names, without the empty ones.

    >>> complaint(("none for", ["age"]), ("one for", ["aeg"]))
    "none for 'age' and one for 'aeg'"
    """
    lists = [(text, list(names)) for text, names in parts]
    return " and ".join(f"{text} {quoted(names)}" for text, names in lists if names)


def listed(names: Sequence[str], shown: int = 10) -> str:
    """Quote the first names for a message, and count the others.

    >>> listed(["a", "b", "c"], shown=2)
    "'a', 'b' and 1 more"
    """
    rest = len(names) - shown
    return quoted(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def check_batch_size(batch_size: object, rows: int) -> None:
    """Refuse a number of network rows per call that is too small for one image."""
    size = check_integer("batch_size", batch_size, 1, 10**9, do="256 is the default")
    if size < rows:
        expected, do = f"at least {rows} network rows", "raise it, or use fewer groups"
        raise InputError("batch_size", expected=f"{expected}, for one image", got=size, do=do)
