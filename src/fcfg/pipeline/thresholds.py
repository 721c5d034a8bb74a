"""Thresholds of trust: how large each signal is on images that are in order.

:func:`fcfg.trust.trust_thresholds` measures them, and ``trust.json`` keeps them beside the weights
of a model.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from fcfg.guidance import Guidance
from fcfg.pipeline.stored_record import Number, StoredRecord
from fcfg.sampling import SamplingConfig

WAY_BACK = ("residual", "correction", "composition")  #: signals that depend on the sampling


class Thresholds(StoredRecord):
    """The largest ordinary value of each signal of trust, see :mod:`fcfg.trust.signals`.

    It is set as ``pipeline.thresholds``. :func:`fcfg.save` and :func:`fcfg.load` keep it with the
    model.
    """

    file: ClassVar[str] = "trust.json"
    noun: ClassVar[str] = "thresholds"

    sampling: str  #: solver, grid and steps of the way back, as text
    guidance: tuple[str, ...]  #: of the way back to the picture, as text
    share: Number  #: of ordinary images that each kind of signal may exceed
    images: int  #: number of images that the network worked on
    references: int  #: number of real images that the judge read
    data: dict[str, Any] = Field(default_factory=dict)  #: description of the images
    limits: dict[str, Number] = Field(min_length=1)  #: by the name of the signal

    def limits_for(self, sampling: SamplingConfig, guidance: Guidance) -> dict[str, float]:
        """Return the limits that hold for a question; those of the way back may not.

        Args:
            sampling: Solver, grid and steps.
            guidance: The guidance.
        """
        if str(sampling) == self.sampling and str(way_back_guidance(guidance)) in self.guidance:
            return self.limits
        return {name: limit for name, limit in self.limits.items() if name not in WAY_BACK}


def way_back_guidance(guidance: Guidance) -> Guidance:
    """Return what a guidance is under factual attributes.

    >>> way_back_guidance(Guidance.parse("contrast:1.5;anchor=true"))
    none;anchor=true
    """
    return guidance.factual.replace(anchor=guidance.anchor)
