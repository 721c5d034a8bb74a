"""The text form of guidance: ``RULE:NUMBER`` or ``RULE:group=w[,group=w…]``, then options."""

from __future__ import annotations

from collections.abc import Iterable

from fcfg.support.errors import InputError, check_is, nearest, quoted

GLOBAL = "all"  # the one group of a rule that is not factored


def read_text(
    text: str, names: Iterable[str]
) -> tuple[str, bool, dict[str, float], dict[str, float | bool]]:
    """Split a text into rule, whether it is factored, weights and options.

    >>> read_text("fcfg:affected=3,invariant=1.2;start=0.1", ["cfg"])
    ('cfg', True, {'affected': 3.0, 'invariant': 1.2}, {'start': 0.1})

    Args:
        text: What the user wrote.
        names: Names of the rules; with an f before it, a rule names its groups.
    """
    check_is("guidance", text, str, "a string", do="write it as fcfg:affected=3,invariant=1.2")
    head, _, tail = text.partition(":")
    rule, known = head.strip(), list(names)
    rules = [prefix + name for name in known for prefix in ("", "f")]
    if rule not in rules:
        raise InputError(
            f"guidance '{text}'",
            expected=f"'none' or a rule among {quoted(rules)}, a colon and weights",
            got=repr(rule),
            do=nearest(rule.replace("pp", "++"), rules) if rule != "none" else "write none alone",
        )
    stated, *options = tail.split(";")
    factored = rule not in known
    if factored:
        weights = {g: _number(text, w) for g, w in _pairs(text, stated.split(",")).items()}
    else:
        weights = {GLOBAL: _number(text, stated)}
    chosen = {name: _option(text, value) for name, value in _pairs(text, options).items()}
    return rule.removeprefix("f") if factored else rule, factored, weights, chosen


def value_text(value: object) -> str:
    """How a weight or an option is written."""
    if callable(value):
        return f"<{getattr(value, '__name__', type(value).__name__)}>"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _pairs(text: str, parts: Iterable[str]) -> dict[str, str]:
    """Read ``name=value`` parts, every name once."""
    pairs: dict[str, str] = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value) or name in pairs:
            raise InputError(
                f"guidance '{text}'",
                expected="name=value, every name once",
                got=repr(part),
                do="write for example fcfg:affected=3,invariant=1.2;start=0.1",
            )
        pairs[name] = value
    return pairs


def _option(text: str, value: str) -> float | bool:
    return value == "true" if value in ("true", "false") else _number(text, value)


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise InputError(
            f"guidance '{text}'",
            expected="a number",
            got=repr(value),
            do="write for example cfg:3.0, or fcfg:affected=3,invariant=1.2",
        ) from error
