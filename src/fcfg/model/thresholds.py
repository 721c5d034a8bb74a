"""Thresholds of trust: how large each signal is on images that are in order.

:func:`fcfg.trust.trust_thresholds` measures them, and ``trust.json`` keeps them beside the weights
of a model.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, ClassVar

from pydantic import Field

from fcfg.causal.attributes import AttributeSpace, Continuous
from fcfg.guidance import PATH_OPTIONS, Guidance
from fcfg.sampling import SamplingConfig
from fcfg.storage import Number, StoredRecord
from fcfg.support.errors import InputError, quoted

WAY_BACK = ("residual", "correction", "composition")  #: signals that depend on the sampling
LEVELS = (0.1, 0.25, 0.6, 1.5)  #: strengths of the noise of losses, relative to the image
SURE = 1e-3  #: probabilities closer to 0 or 1 than this are not told apart
_LARGEST = 3.4e38  # of a float32
_ROUNDING = 1.001  # signals may be as much larger than is possible


def signal_ranges(space: AttributeSpace) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest value of every signal that can have a limit."""
    image = 2 * _ROUNDING  # the distance of images in [-1, 1]
    ranges = {f"loss {level}": (-104.0, 89.0) for level in LEVELS}  # logarithms of a float32
    ranges |= dict(zip(WAY_BACK, [(0, _LARGEST), (0, _LARGEST), (0, image)], strict=True))
    for attribute in space:
        is_number = isinstance(attribute, Continuous)
        read = _ROUNDING * (attribute.high - attribute.low if is_number else math.log(1 / SURE))
        moved = read if is_number else 2 * read  # log-odds have both signs
        ends = {"given": read, "asked": read, "moved": moved, "change": image}
        ranges |= {f"{kind} {attribute.name}": (0, end) for kind, end in ends.items()}
    return ranges


class Thresholds(StoredRecord):
    """The largest ordinary value of each signal of trust, see :mod:`fcfg.trust.signals`.

    It is set as ``pipeline.thresholds``. :func:`fcfg.save` and :func:`fcfg.load` keep it with the
    model.
    """

    file: ClassVar[str] = "trust.json"
    noun: ClassVar[str] = "thresholds"
    needs_judge: ClassVar[bool] = True

    sampling: str  #: solver, grid and steps, as text
    guidance: tuple[str, ...]  #: those of the way back to the picture, as text
    share: Number  #: of ordinary images that each kind of signal may exceed
    images: int  #: number of images that the network worked on
    references: int  #: number of real images that the judge read
    data: dict[str, Any] = Field(default_factory=dict)  #: description of the images
    limits: dict[str, Number] = Field(min_length=1)  #: by the name of the signal

    def check(self, space: AttributeSpace, subject: str) -> None:
        """Refuse limits of unknown signals, and limits that a signal cannot reach."""
        ranges = signal_ranges(space)
        for name, limit in self.limits.items():
            expected = f"names of signals, such as {quoted(list(ranges)[::7])}"
            if name in ranges:
                low, high = ranges[name]
                expected = f"'{name}' from {low:g} to {high:g}"
                if low <= limit <= high:
                    continue
            do = "remove the file, and run 'fcfg calibrate' again"
            raise InputError(subject, expected=expected, got=f"'{name}': {limit:g}", do=do)

    def limits_for(
        self, targets: Collection[str], guidance: Guidance, sampling: SamplingConfig
    ) -> dict[str, float]:
        """Return the limits that hold for a question.

        Those of the way back hold for the guidance and sampling that they were measured with.
        Several targets may change as much as all of them together.
        """
        limits = dict(self.limits)
        if not self.knows_way_back(guidance, sampling):
            limits = {name: limit for name, limit in limits.items() if name not in WAY_BACK}
        changes = [f"change {target}" for target in targets]
        if all(name in limits for name in changes):
            limits["change"] = sum(limits[name] for name in changes)
        return limits

    def knows_way_back(self, guidance: Guidance, sampling: SamplingConfig) -> bool:
        """Return whether limits of the way back hold for a guidance and a sampling."""
        known = str(way_back_guidance(guidance)) in self.guidance
        return known and str(sampling) == self.sampling


def way_back_guidance(guidance: Guidance) -> Guidance:
    """Return what a guidance is under factual attributes.

    >>> way_back_guidance(Guidance.parse("contrast:1.5;anchor=true"))
    none;anchor=true
    """
    if guidance.source is not None:  # its branches differ under equal attributes, too
        return guidance
    return guidance.factual.replace(**{name: getattr(guidance, name) for name in PATH_OPTIONS})
