"""Splits that are drawn: by group, from a seed, whatever the order of the rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fcfg.datasets.examples import SPLITS
from fcfg.support.errors import InputError


def drawn_splits(
    groups: Sequence[str], fractions: tuple[float, float, float], seed: int
) -> list[str]:
    """Give every group one split, and every example that of its group.

    Groups are ordered by a digest of the seed and their name, so that the same group lands in
    the same place on every machine, and a few new groups move few of the others. The fractions
    are those of groups, to the nearest one; a split with a fraction above 0 has at least one.

    >>> drawn_splits(["ann", "bob", "ann", "cleo"], (0.4, 0.3, 0.3), seed=0)
    ['test', 'val', 'test', 'train']

    Args:
        groups: Of each example: the patient or person, or the file where nobody recurs.
        fractions: Of train, val and test; they sum to 1.
        seed: Another seed draws another split.
    """
    _check_fractions(fractions)
    unique = sorted(set(groups), key=lambda group: _digest(seed, group))
    val, test = (max(1, round(f * len(unique))) if f > 0 else 0 for f in fractions[1:])
    train = len(unique) - val - test
    if train < 1:
        raise InputError(
            "data, fractions",
            expected=f"at least {1 + (val > 0) + (test > 0)} groups for {fractions}",
            got=f"{len(unique)}",
            do="add images, or change the fractions",
        )
    names = [split for split, n in zip(SPLITS, (train, val, test), strict=True) for _ in range(n)]
    split_of = dict(zip(unique, names, strict=True))
    return [split_of[group] for group in groups]


def _check_fractions(fractions: tuple[float, float, float]) -> None:
    train, val, test = fractions
    if min(train, val) <= 0 or test < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise InputError(
            "data, fractions",
            expected="three numbers that sum to 1, the first two above 0",
            got=f"{fractions}",
            do="(0.8, 0.1, 0.1) is the default",
        )


def _digest(seed: int, group: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{group}".encode(), digest_size=16).digest()
