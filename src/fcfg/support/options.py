"""The one text form of guidance, solvers and settings, and their options.

Options are fields of frozen dataclasses, with legal values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, TypeGuard, TypeVar

from fcfg.support.errors import InputError, check_is, quoted, short

T = TypeVar("T", int, float)


def option(default: T, expected: str, is_legal: Callable[[T], bool]) -> T:
    """Declare an option and its legal values, which :func:`check_options` asks for."""
    return field(default=default, metadata={"expected": expected, "is_legal": is_legal})


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, NumPy's included, and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_options(options: Any, subject: str) -> None:
    """Refuse illegal options, and give the others the types of their defaults."""
    for each in fields(options):
        kind, value = type(each.default), getattr(options, each.name)
        if kind not in (bool, int, float):
            continue
        expected = each.metadata.get("expected", "a number")
        is_legal = each.metadata.get("is_legal", is_number)
        legal = is_number(value) and (kind is float or value % 1 == 0) and is_legal(value)
        if kind is bool:
            expected, legal = "true or false", isinstance(value, bool)
        if not legal:
            do = f"{each.default} is the default"
            raise InputError(f"{subject} {each.name}", expected=expected, got=short(value), do=do)
        object.__setattr__(options, each.name, kind(value))


def check_registrable(
    made: type,
    kind: str,
    taken: Collection[str],
    *,
    most: int = 99,
    reserved: Collection[str] = (),
) -> None:
    """Refuse a class whose name or options, its fields, could not be written in a text form."""
    name, subject = getattr(made, "name", None), f"{kind} {made.__name__}"
    legal = isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9+_-]*", name)
    if not legal or name in taken:
        expected = "a name of small letters, digits, +, - and _ that is not taken"
        do = f"set another one in the class than {quoted(sorted(taken))}"
        raise InputError(subject, expected=expected, got=short(name), do=do)
    options, is_dataclass = fields(made), "__dataclass_fields__" in vars(made)
    illegal = [o.name for o in options if not isinstance(o.default, bool | int | float)]
    illegal += [o.name for o in options if o.name in reserved] + [o.name for o in options[most:]]
    if not is_dataclass or illegal:
        raise InputError(
            subject,
            expected=f"a frozen dataclass whose fields, at most {most}, have numbers as defaults"
            + (f", and other names than {quoted(reserved)}" if reserved else ""),
            got=quoted(illegal) if illegal else "another class",
            do="put @dataclass(frozen=True) before it, and give its options defaults",
        )


@dataclass(frozen=True)
class TextForm:
    """A name, numbers behind a colon, and options behind semicolons; ``str`` writes the text.

    >>> TextForm.read("fcfg:affected=3,invariant=1.2;anchor=true", "guidance", "cfg:3")
    TextForm(name='fcfg', numbers={'affected': 3.0, 'invariant': 1.2}, options={'anchor': True})
    >>> TextForm.read("fixed-point:5", "solver", "bdia:1.0")
    TextForm(name='fixed-point', numbers={'': 5.0}, options={})
    >>> str(TextForm("cfg", {"": 3.0}, {"start": 0.2, "anchor": True}))
    'cfg:3.0;start=0.2;anchor=true'
    """

    name: str
    numbers: Mapping[str, Any]  #: by group; a single number has no name
    options: Mapping[str, Any]

    @classmethod
    def read(cls, text: object, kind: str, example: str) -> TextForm:
        """Read a text, or refuse it as a text of its kind, with an example of a better one."""
        check_is(kind, text, str, "a string", do=f"write it as {example}")
        subject = f"{kind} '{text}'"

        def number(value: str) -> float:
            try:
                return float(value)
            except ValueError as error:
                do = f"write for example {example}"
                raise InputError(subject, expected="a number", got=repr(value), do=do) from error

        head, *stated_options = str(text).split(";")
        name, colon, stated = (part.strip() for part in head.partition(":"))
        numbers = {"": stated} if colon else {}
        if "=" in stated:
            numbers = parse_pairs(stated.split(","), subject, example=example)
        options = parse_pairs(stated_options, subject, example=example)
        switches = {"true": True, "false": False}
        return cls(
            name,
            {group: number(value) for group, value in numbers.items()},
            {key: switches[x] if x in switches else number(x) for key, x in options.items()},
        )

    def __str__(self) -> str:
        numbers = [
            f"{group}={_written(value)}" if group else _written(value)
            for group, value in self.numbers.items()
        ]
        options = [f";{option}={_written(value)}" for option, value in self.options.items()]
        return f"{self.name}{':' * bool(numbers)}{','.join(numbers)}{''.join(options)}"


def _written(value: object) -> str:
    """Write a number, a boolean, or the name of a function."""
    if callable(value):
        return f"<{getattr(value, '__name__', type(value).__name__)}>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_pairs(parts: Iterable[str], subject: str, *, example: str) -> dict[str, str]:
    """Parse ``name=value`` parts, every name once."""
    pairs: dict[str, str] = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value) or name in pairs:
            expected, do = "name=value, every name once", f"write for example {example}"
            raise InputError(subject, expected=expected, got=repr(part), do=do)
        pairs[name] = value
    return pairs
