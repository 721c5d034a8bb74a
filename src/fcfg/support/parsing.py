"""Text forms: pairs ``name=value``, and the one form of guidance, solvers and settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fcfg.support.errors import InputError, check_is


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

        head, *options = str(text).split(";")
        name, colon, stated = (part.strip() for part in head.partition(":"))
        numbers = {"": stated} if colon else {}
        if "=" in stated:
            numbers = parse_pairs(stated.split(","), subject, example=example)
        switches = {"true": True, "false": False}
        return cls(
            name,
            {group: number(value) for group, value in numbers.items()},
            {
                option: switches[value] if value in switches else number(value)
                for option, value in parse_pairs(options, subject, example=example).items()
            },
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
    """Parse ``name=value`` parts, every name once.

    >>> parse_pairs(["smiling = 1", "male=0"], "do", example="smiling=1")
    {'smiling': '1', 'male': '0'}
    >>> parse_pairs(["smiling"], "do", example="smiling=1")
    Traceback (most recent call last):
    fcfg.InputError: do: expected name=value, every name once, got 'smiling'; write for example
    smiling=1.
    """
    pairs: dict[str, str] = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value) or name in pairs:
            raise InputError(
                subject,
                expected="name=value, every name once",
                got=repr(part),
                do=f"write for example {example}",
            )
        pairs[name] = value
    return pairs
