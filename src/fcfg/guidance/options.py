"""The options of guidance and their types, for those who write them and for type checkers."""

from __future__ import annotations

from typing import TypedDict


class CommonOptions(TypedDict, total=False):
    """Options of every guidance."""

    start: float
    stop: float
    tolerance: float
    anchor: bool
    align: int
    drawn_noise: bool


class Options(CommonOptions, total=False):
    """Options of every guidance and of the rules of this package."""

    eta: float
    momentum: float
    radius: float
    raw: bool


COMMON_OPTIONS = tuple(CommonOptions.__annotations__)
