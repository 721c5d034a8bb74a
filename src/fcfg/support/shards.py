"""Shards: the images that one of several processes works on.

A shard is a pair ``(number, count)``, and numbers count from 0.
"""

from __future__ import annotations

from fcfg.support.errors import check_integer


def check_shard(shard: tuple[int, int], images: int) -> None:
    """Refuse a shard that does not exist."""
    number, count = shard
    check_integer("shard, count", count, 1, images, do="use at most one shard per image")
    check_integer("shard, number", number, 0, count - 1, do="count from 0")


def strided_rows(images: int, shard: tuple[int, int]) -> range:
    """Return every count-th row: each shard of an evaluation covers the whole subset.

    >>> list(strided_rows(7, (1, 3)))
    [1, 4]
    """
    number, count = shard
    return range(number, images, count)


def contiguous_rows(images: int, shard: tuple[int, int]) -> range:
    """Return neighbouring rows: each shard of a generation owns one stretch of the files.

    >>> list(contiguous_rows(7, (1, 3)))
    [2, 3]
    """
    number, count = shard
    return range(number * images // count, (number + 1) * images // count)
