"""Methods that were compared for a model, each with the sampling and the weights that suit it."""

from __future__ import annotations

from statistics import fmean
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fcfg.causal.attributes import AttributeSpace
from fcfg.guidance import Guidance
from fcfg.pipeline.calibration import WeightEstimate, with_weights
from fcfg.sampling import as_sampling
from fcfg.storage import Number, Record, StoredRecord


class Method(Record):
    """A method at its best sampling, with a calibrated weight for every attribute."""

    guidance: str  #: with the searched weight at 1, as text
    variant: str = ""  #: options in which it differs from what is published, as text
    sampling: str  #: solver, grid and steps, as text
    published: str = ""  #: the guidance with the weight that its authors use, as text
    weights: dict[str, WeightEstimate] = Field(min_length=1)
    errors: dict[str, Number]  #: on validation images, by attribute, see :attr:`Methods.criterion`
    distances: dict[str, Number] = Field(default_factory=dict)
    """Mean absolute distance of the answers from the images, by attribute."""
    rows: Number | None = None  #: network evaluations of an answer, on average
    at_end: tuple[str, ...] = ()
    """Attributes whose weight lies at an end of those measured: others may be better."""

    @property
    def error(self) -> float:
        """The mean error over attributes."""
        return fmean(self.errors.values())

    @property
    def rank(self) -> tuple[bool, float]:
        """What is smallest for the best method: whether a weight is in doubt, and the error."""
        return bool(self.at_end), self.error

    def guidance_for(self, name: str, weight: float | None = None) -> Guidance:
        """Return the guidance of an intervention, with its calibrated or with another weight."""
        chosen = self.weights[name].weight if weight is None else weight
        return with_weights(Guidance.parse(self.guidance), {name: chosen})

    @model_validator(mode="after")
    def _check(self) -> Self:
        for text in filter(None, (self.guidance, self.published)):
            Guidance.parse(text)
        as_sampling(self.sampling)
        return self


class Methods(StoredRecord):
    """What :func:`fcfg.compare_methods` found for a model, with images of validation.

    It is set as ``pipeline.methods``. :func:`fcfg.save` and :func:`fcfg.load` keep it with the
    model, and the experiment 'factorial' asks it.
    """

    file: ClassVar[str] = "methods.json"
    noun: ClassVar[str] = "methods"
    needs_judge: ClassVar[bool] = True

    images: int  #: number of images with counterfactuals
    seed: int
    data: dict[str, Any]  #: description of the images
    criterion: Literal["change", "distance"]
    """The error by which sampling and variant were chosen, at calibrated weights: that of the
    pixels that truly change, in drawn worlds; the distance to the image otherwise."""
    measured: tuple[Number, ...]  #: weights, ascending
    methods: dict[str, Method] = Field(min_length=1)

    def check(self, space: AttributeSpace, subject: str) -> None:
        """Refuse weights of other attributes."""
        for method in self.methods.values():
            space.check_known(method.weights, subject)

    @property
    def best(self) -> str:
        """The name of the best method."""
        return min(self.methods, key=lambda name: self.methods[name].rank)
