"""The text form of a guidance: ``RULE:NUMBER`` or ``RULE:group=w[,group=w…]``, then options."""

from __future__ import annotations

from collections.abc import Iterable

from fcfg.guidance.rule import RULES, UNGUIDED
from fcfg.support.errors import InputError, check_is, nearest, quoted
from fcfg.support.parsing import parse_pairs

GLOBAL = "all"  # the only group of a rule that is not factored


def read_text(text: str) -> tuple[str, bool, dict[str, float], dict[str, float | bool]]:
    """Read the rule, whether it is factored, the weights and the options.

    >>> read_text("fcfg:affected=3,invariant=1.2;start=0.1")
    ('cfg', True, {'affected': 3.0, 'invariant': 1.2}, {'start': 0.1})
    """
    check_is("guidance", text, str, "a string", do="write it as fcfg:affected=3,invariant=1.2")
    head, colon, tail = text.partition(":")
    rule, *options = (part.strip() for part in head.split(";"))
    if rule == UNGUIDED and not colon:
        return UNGUIDED, False, {}, _options(text, options)
    rules = [prefix + name for name in RULES for prefix in ("", "f")]
    if rule not in rules:
        raise InputError(
            f"guidance '{text}'",
            expected=f"'{UNGUIDED}' or a rule among {quoted(rules)}, a colon and weights",
            got=repr(rule),
            do=nearest(rule.replace("pp", "++"), rules)
            if rule != UNGUIDED
            else "write none alone",
        )
    weights, *options = tail.split(";")
    factored = rule not in RULES
    groups = _pairs(text, weights.split(",")) if factored else {GLOBAL: weights}
    return (
        rule.removeprefix("f") if factored else rule,
        factored,
        {group: _number(text, weight) for group, weight in groups.items()},
        _options(text, options),
    )


def value_text(value: object) -> str:
    """Write a weight or the value of an option."""
    if callable(value):
        return f"<{getattr(value, '__name__', type(value).__name__)}>"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _pairs(text: str, parts: Iterable[str]) -> dict[str, str]:
    example = "fcfg:affected=3,invariant=1.2;start=0.1"
    return parse_pairs(parts, f"guidance '{text}'", example=example)


def _options(text: str, parts: Iterable[str]) -> dict[str, float | bool]:
    return {
        name: value == "true" if value in ("true", "false") else _number(text, value)
        for name, value in _pairs(text, parts).items()
    }


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise InputError(
            f"guidance '{text}'",
            expected="a number",
            got=repr(value),
            do="write options behind a semicolon, such as cfg:3.0;anchor=true"
            if "=" in value or value in ("true", "false")
            else "write for example cfg:3.0, or fcfg:affected=3,invariant=1.2",
        ) from error
