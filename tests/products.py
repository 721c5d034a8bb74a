"""Products of parameters: each pair of values is met in every run, the rest under ``long``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def covering(*sizes: int) -> list[tuple[int, ...]]:
    """Return few combinations that hold each pair of values, chosen greedily."""

    def held(row: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return set(combinations(enumerate(row), 2))

    rows = list(product(*map(range, sizes)))
    missing, chosen = set().union(*map(held, rows)), []
    while missing:
        best = max(rows, key=lambda row: len(held(row) & missing))
        chosen.append(best)
        missing -= held(best)
    return chosen


def pairwise(*values: Iterable[Any]) -> list[Any]:
    """Return the parameters of a test; those that no pair of values needs are marked ``long``."""
    lists = [list(options) for options in values]
    daily = covering(*map(len, lists))
    return [
        pytest.param(
            *(options[at] for options, at in zip(lists, row, strict=True)),
            marks=() if row in daily else pytest.mark.long,
        )
        for row in product(*(range(len(options)) for options in lists))
    ]
