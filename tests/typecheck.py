"""The run-time type checker of the tests.

A whole number may stand where a float is declared. What the package refuses by itself, with an
error worth testing, passes: names as any text, pictures as any sequence.
"""

from collections.abc import Sequence
from typing import Literal

from beartype import BeartypeConf, FrozenDict, beartype
from PIL.Image import Image

checked = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,
        hint_overrides=FrozenDict(
            {
                Literal["linear", "cosine"]: str,
                Literal["noise", "image", "velocity"]: str,
                Sequence[Image]: Sequence,
            }
        ),
    )
)
