"""The images of a calibration: from the validation split of the data set of a model."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fcfg.calibration.material import TrueCounterfactual
from fcfg.causal.attributes import AttributeSpace, Continuous, Table
from fcfg.datasets import portraits
from fcfg.datasets.base import Examples, OnProgress, silent
from fcfg.datasets.portraits import Portraits
from fcfg.datasets.portraits.data import VALIDATION_SEED, PortraitsData
from fcfg.evaluation.result_schema import JSON
from fcfg.evaluation.subset import balanced_rows, find_data
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.errors import InputError, check_integer
from fcfg.support.images import images_from_bytes, images_to_bytes

_DRAWN = 2000  # drawings to choose from
_SMALL = 8  # pixels of their sides, before some are chosen: size does not change who is drawn
_REFERENCES = (256, 2000)  # fewest and most images that the judge reads, if there are so many
_SHARE = 8  # so many for each image with counterfactuals, between these numbers


@dataclass(frozen=True, eq=False)
class ValidationImages:
    """Images for :func:`fcfg.calibrate`."""

    images: Float[Tensor, "image channel *size"] = field(repr=False)
    attributes: Table = field(repr=False)
    count: int  #: number of images that get counterfactuals, the first ones
    truth: TrueCounterfactual | None = field(repr=False)  #: in a drawn world
    data: JSON  #: description


def choose_images(
    pipeline: CounterfactualPipeline,
    count: int,
    *,
    seed: int = 0,
    data: Path | None = None,
    on_progress: OnProgress = silent,
) -> ValidationImages:
    """Choose images of the validation split, with all combinations of values equally often.

    Where a combination is rare, images are drawn at random instead. At most ``count`` of them get
    counterfactuals. The data set is that of the model's training; ``data`` is its folder, if it
    has moved since.
    """
    check_integer("images", count, 2, 10**6, do="give a larger number")
    space, config = pipeline.space, find_data(pipeline, data)
    drawn, truth = None, None
    if isinstance(config, PortraitsData):
        drawn = portraits.sample(_DRAWN, VALIDATION_SEED, _SMALL, config.format)
        columns = {name: drawn.attributes[name] for name in space.names}
        names = tuple(f"{VALIDATION_SEED}-{number:08d}.png" for number in range(_DRAWN))
        examples = Examples(images_to_bytes(drawn.images).numpy(), columns, names)
    else:
        examples = config.load(space, on_progress=on_progress)["val"]
    rows, first, balanced = _balanced(space, examples, count, seed)
    pixels = examples.images[rows]
    if drawn is not None:  # those that were chosen, in full size
        large = replace(drawn.some(rows), size=config.size)
        pixels = images_to_bytes(portraits.counterfactual(large, {}).images).numpy()
        truth = _truth(large.some(slice(first)))
    return ValidationImages(
        images_from_bytes(pixels),
        {name: column[rows] for name, column in examples.attributes.items()},
        first,
        truth,
        {"format": config.format, "split": "val", "of": len(examples), "balanced": balanced},
    )


def _balanced(
    space: AttributeSpace, examples: Examples, count: int, seed: int
) -> tuple[NDArray[np.int64], int, list[str]]:
    """Return the rows, how many of them come first, and the balanced attributes."""
    discrete = [a.name for a in space if not isinstance(a, Continuous)]
    count = min(count, len(examples))
    most = min(max(_SHARE * count, _REFERENCES[0]), max(count, _REFERENCES[1]), len(examples))

    def balanced_over(names: list[str]) -> tuple[NDArray[np.int64], int, list[str]]:
        first, every = (balanced_rows(space, examples, names, n, seed) for n in (count, most))
        return np.concatenate([first, np.setdiff1d(every, first)]), len(first), names

    with suppress(InputError):  # no image has some combination
        found = balanced_over(discrete)
        if found[1] > count / 2:
            return found
    return balanced_over([])


def _truth(own: Portraits) -> TrueCounterfactual:
    """Return the function that draws the true counterfactuals of some portraits."""
    return lambda do: portraits.counterfactual(own, do).images
