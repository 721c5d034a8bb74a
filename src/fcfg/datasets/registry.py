"""All data sets by name. A new one is a file with a class of options, and a name in the union."""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from fcfg.datasets.base import Measure
from fcfg.datasets.celeba import CelebAData, MosaicData
from fcfg.datasets.embed import EmbedData
from fcfg.datasets.folder import FolderData
from fcfg.datasets.mimic import MimicData
from fcfg.datasets.morphomnist import MorphoMNISTData
from fcfg.datasets.nih import NIHData
from fcfg.datasets.portraits.data import PortraitsData

DiskData: TypeAlias = (
    FolderData | CelebAData | MosaicData | EmbedData | MimicData | NIHData | MorphoMNISTData
)
#: Options of any data set, selected by ``format``; ``data`` in a training configuration.
DataConfig: TypeAlias = Annotated[DiskData | PortraitsData, Field(discriminator="format")]

#: The options of all data sets, by name.
DATA_SETS = {
    format: options
    for options in get_args(DiskData | PortraitsData)
    for format in get_args(options.model_fields["format"].annotation)
}


def measures_of(format: str | None) -> dict[str, Measure]:
    """Return how to measure attributes of a data set in an image, without a judge."""
    return DATA_SETS[format]().measures() if format in DATA_SETS else {}
