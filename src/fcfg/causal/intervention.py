"""Interventions: what ``do`` may hold for an attribute, and the resulting column (Sec. 2).

An intervention is a value for all images, a column with one value per image, a function of the
factual column, or a string, such as ``40``, ``=-3``, ``+5``, ``-5%``, ``*1.5`` or ``flip``; see
``docs/generate.md``. A level of a categorical attribute is always written as its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fcfg.causal.attributes import AbstractAttribute, Binary, Categorical, Column, Continuous
from fcfg.causal.codes import binary_code
from fcfg.support.errors import InputError

Intervention: TypeAlias = ArrayLike | Callable[[Column], ArrayLike]

FLIP = "flip"
_OPERATORS = ("+=", "-=", "+", "-", "*", "=")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def intervened(attribute: AbstractAttribute, value: Intervention, factual: Column) -> Column:
    """Return the counterfactual column of a target.

    >>> from fcfg.causal.attributes import Binary, Continuous
    >>> intervened(Binary("smiling"), lambda smiling: 1 - smiling, np.array([0, 1, 1]))
    array([1, 0, 0])
    >>> intervened(Continuous("age", 0, 100), "+10%", np.array([20.0, 50.0]))
    array([22., 55.])
    """
    subject = f"intervention on '{attribute.name}'"
    if isinstance(value, str):
        value = from_text(attribute, value)
    if callable(value):
        value = value(factual.copy())
    try:
        column = attribute.parse(value)
    except InputError as error:
        raise error.about(subject, "choose another value") from error
    if np.ndim(value) == 0:
        column = np.repeat(column, len(factual))
    if len(column) != len(factual):
        do = "give one value for each row"
        raise InputError(subject, expected=f"one value or {len(factual)}", got=len(column), do=do)
    return column


def from_text(attribute: AbstractAttribute, text: str) -> Intervention:
    """Read a string: the result is a value, or a function of the factual column."""
    word = text.strip()
    if isinstance(attribute, Binary):
        value = binary_code(word.removeprefix("="), attribute.levels)
        return flip if word == FLIP else text if value is None else value
    if isinstance(attribute, Categorical):
        return text if text in attribute.levels else word.removeprefix("=")
    assert isinstance(attribute, Continuous)
    operator = next((sign for sign in _OPERATORS if word.startswith(sign)), "")
    amount = word.removeprefix(operator).strip()
    is_share = amount.endswith("%") and operator in ("+", "-", "+=", "-=")
    digits = amount.removesuffix("%") if is_share else amount
    subject = f"intervention on '{attribute.name}'"
    if not _NUMBER.fullmatch(digits.removeprefix("-") if operator == "=" else digits):
        do = "only binary attributes can be flipped" if word == FLIP else "write one of these"
        if word.endswith("%") and not operator:
            do = f"write +{word} or -{word}"
        expected = "a number, or a change such as +5, -10% or *1.5"
        raise InputError(subject, expected=expected, got=repr(text), do=do)
    number = float(digits)
    if operator in ("", "="):
        return number
    if operator == "-" and not is_share and attribute.low < 0:
        expected = f"'={word}' for the value {word}, or '-={amount}' for a decrease"
        got, do = f"'{word}', which could mean either", "write one of them"
        raise InputError(subject, expected=expected, got=got, do=do)
    change = -number if operator.startswith("-") else number
    if operator == "*":
        return lambda column: column * number
    if is_share:
        return lambda column: column * (1 + change / 100)
    return lambda column: column + change


def flip(column: Column) -> Column:
    """Return the other value of a binary attribute."""
    return 1 - column
