"""Held-out pictures that come with a model, in the folder ``samples`` beside its weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.generation.parsing import find_attributes
from fcfg.generation.picture_files import find_pictures, read_files
from fcfg.model import AnyModel, model_pixels


@dataclass(frozen=True, eq=False)
class SamplePictures:
    """Pictures of a model's data set that it was not trained on."""

    images: Float[Tensor, "batch channel height width"] = field(repr=False)  #: in [-1, 1]
    attributes: Table
    names: tuple[str, ...]  #: of the files


def sample_pictures(model: AnyModel) -> SamplePictures | None:
    """Read the pictures that come with a model; None if there are none.

    >>> import fcfg
    >>> sample_pictures(fcfg.load("digits")).images.shape
    torch.Size([10, 1, 32, 32])

    Args:
        model: A model that :func:`fcfg.load` read.
    """
    if model.folder is None or not (model.folder / "samples").is_dir():
        return None
    folder = model.folder / "samples"
    paths = find_pictures([folder])
    images = torch.stack([picture.image for picture in read_files(paths, model_pixels(model))])
    factual = find_attributes(folder / "attributes.csv", model.space, paths, None, {})
    return SamplePictures(images, factual.attributes, tuple(path.name for path in paths))
