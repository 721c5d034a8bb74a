"""All data sets by name. A new one is a file with a class of options, and a name in the union."""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.base import Measure
from fcfg.datasets.celeba import CelebAData, MosaicData
from fcfg.datasets.embed import EmbedData
from fcfg.datasets.folder import FolderData
from fcfg.datasets.mimic import MimicData
from fcfg.datasets.morphomnist import MorphoMNISTData
from fcfg.datasets.nih import NIHData
from fcfg.datasets.portraits.data import PortraitsData
from fcfg.support.errors import check_among

DiskData: TypeAlias = (
    FolderData | CelebAData | MosaicData | EmbedData | MimicData | NIHData | MorphoMNISTData
)
#: Options of any data set, selected by ``format``; ``data`` in a training configuration.
DataConfig: TypeAlias = Annotated[DiskData | PortraitsData, Field(discriminator="format")]

_CLASSES = {
    format: options
    for options in get_args(DiskData | PortraitsData)
    for format in get_args(options.model_fields["format"].annotation)
}
#: Names of all data sets.
FORMATS = tuple(_CLASSES)


def default_attributes(format: str) -> tuple[AttributeSpace, CausalGraph] | None:
    """Return the natural attributes of a data set and their graph; a folder has none.

    >>> default_attributes("embed")[0].names
    ('density', 'circle')
    """
    check_among("data, format", format, FORMATS)
    return _CLASSES[format](format=format).attributes()


def measures_of(format: str | None) -> dict[str, Measure]:
    """Return how to measure attributes of a data set in an image, without a judge.

    >>> list(measures_of("morphomnist")), list(measures_of("celeba-hq"))
    (['thickness', 'intensity'], [])
    """
    if format != "morphomnist":
        return {}
    from fcfg.metrics import stroke_intensity, stroke_thickness  # with torch

    return {"thickness": stroke_thickness, "intensity": stroke_intensity}
