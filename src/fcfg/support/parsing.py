"""The text form of options: ``name=value``."""

from __future__ import annotations

from collections.abc import Iterable

from fcfg.support.errors import InputError


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
