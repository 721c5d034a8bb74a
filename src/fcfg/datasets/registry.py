"""All data sets by their format: one configuration, one way to load."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.datasets import celeba, embed, folder, mimic, mosaic, nih, portraits
from fcfg.datasets.celeba import CelebAData
from fcfg.datasets.embed import EmbedData
from fcfg.datasets.examples import OnProgress, Splits
from fcfg.datasets.folder import FolderData
from fcfg.datasets.listing import Listing
from fcfg.datasets.loading import load_listing
from fcfg.datasets.mimic import MimicData
from fcfg.datasets.mosaic import MosaicData
from fcfg.datasets.nih import NIHData
from fcfg.datasets.portraits.data import DrawnData, load_drawn
from fcfg.support.errors import check_among

DiskData: TypeAlias = FolderData | CelebAData | MosaicData | EmbedData | MimicData | NIHData
#: What ``data`` may be in a training configuration; ``format`` says which.
DataConfig: TypeAlias = Annotated[DiskData | DrawnData, Field(discriminator="format")]

_ATTRIBUTES = {
    "folder": lambda: None,
    "celeba-hq": celeba.attributes,
    "celeba-mosaic": celeba.attributes,
    "embed": embed.attributes,
    "mimic-cxr": mimic.attributes,
    "nih-cxr14": nih.attributes,
    "portraits": lambda: (portraits.space(), portraits.graph()),
    "portraits-causal": lambda: (
        portraits.space("portraits-causal"),
        portraits.graph("portraits-causal"),
    ),
}
#: The names of all formats.
FORMATS = tuple(_ATTRIBUTES)


def load_data(
    config: DataConfig,
    space: AttributeSpace,
    *,
    skip_bad: bool = False,
    on_progress: OnProgress | None = None,
) -> Splits:
    """Load a data set; see :mod:`fcfg.datasets.cache` for where decoded images are kept.

    Args:
        config: Which, and its options.
        space: The attributes.
        skip_bad: Leave images out that cannot be read, with a warning, instead of refusing all.
        on_progress: Called with what is done, how many, of how many.
    """
    if isinstance(config, DrawnData):
        return load_drawn(config, space, on_progress)
    return load_listing(
        list_data(config, space),
        space,
        config.pixels,
        cache=config.cache,
        skip_bad=skip_bad,
        on_progress=on_progress,
    )


def list_data(config: DiskData, space: AttributeSpace) -> Listing:
    """Read the labels of a data set on disk, open no image.

    >>> list_data(NIHData(), AttributeSpace(nih.attributes()[0].attributes))
    Traceback (most recent call last):
    fcfg.InputError: data, path: expected a folder that exists, got none; give the folder of
    the data set as 'path'.
    """
    match config:
        case FolderData():
            return folder.listing(config, space)
        case CelebAData():
            return celeba.listing(config, space)
        case MosaicData():
            return mosaic.listing(config, space)
        case EmbedData():
            return embed.listing(config, space)
        case MimicData():
            return mimic.listing(config, space)
        case NIHData():
            return nih.listing(config, space)


def default_attributes(format: str) -> tuple[AttributeSpace, CausalGraph] | None:
    """The attributes and the graph of a data set that has natural ones; a folder has none.

    >>> default_attributes("embed")[0].names
    ('density', 'circle')
    """
    check_among("data, format", format, FORMATS)
    return _ATTRIBUTES[format]()
