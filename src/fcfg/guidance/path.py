"""Which states of the factual image a prediction needs, and how their noise is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

PathKind: TypeAlias = Literal["none", "inferred", "drawn"]

#: Options of a guidance about the path, which the plain conditional model has, too.
PATH_OPTIONS = ("anchor", "drawn_noise", "noises", "correlation", "release")


@dataclass(frozen=True)
class Drawing:
    """How the noise of a path is drawn."""

    noises: int = 1  #: at each time
    correlation: int = -1  #: of each noise and the next: of pairs if -1, of all if 1
