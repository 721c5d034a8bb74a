"""Options of rules, solvers and settings: fields of frozen dataclasses, with legal values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import field, fields
from numbers import Real
from typing import Any, TypeGuard, TypeVar

from fcfg.support.errors import InputError, quoted, short

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
        if kind is bool:
            expected, legal = "true or false", isinstance(value, bool)
        else:
            expected = each.metadata.get("expected", "a number")
            legal = is_number(value) and (kind is float or value % 1 == 0)
            is_legal = each.metadata.get("is_legal")
            legal = legal and (is_legal is None or is_legal(value))
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
    """Refuse a class whose name or options could not be written in a text form.

    Args:
        made: Class with a ``name``, whose fields are its options.
        kind: Kind of class, for messages.
        taken: Names of others.
        most: Largest number of options.
        reserved: Names that no option may have.
    """
    name, subject = getattr(made, "name", None), f"{kind} {made.__name__}"
    legal = isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9+_-]*", name)
    if not legal or name in taken:
        raise InputError(
            subject,
            expected="a name of small letters, digits, +, - and _ that is not taken",
            got=short(name),
            do=f"set another one in the class than {quoted(sorted(taken))}",
        )
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
