"""Your own images: a folder with ``metadata.csv``, as Hugging Face's ImageFolder has it.

::

    faces/
      metadata.csv        file_name,smiling,age,person
      0001.png            0001.png,1,34,ann
      more/0002.png       more/0002.png,0,51,bob

``file_name`` is relative to the folder, in sub-folders or not; every other column may be an
attribute (see :mod:`fcfg.datasets.columns` for what may stand in it). Columns and files that
nobody asks for are left aside; ``fcfg data check`` lists them.

Where a column says the split, it holds exactly ``train``, ``val`` or ``test``. Where none does,
the split is drawn from a seed, by group if there is one: pictures of one person must not lie on
both sides.

References:
    https://huggingface.co/docs/datasets/image_dataset#imagefolder (``metadata.csv`` and
    ``file_name``).
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.columns import is_missing, missing_column
from fcfg.datasets.examples import SPLITS
from fcfg.datasets.listing import Listing, Source, check_unique, listed
from fcfg.datasets.pixels import Fit, Intensity, Pixels
from fcfg.datasets.splitting import drawn_splits
from fcfg.datasets.tables import folder_of, found, read_columns
from fcfg.support.errors import InputError, check_among

METADATA = "metadata.csv"


class FolderData(BaseModel):
    """Options of a folder of images."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["folder"] = "folder"
    path: Path | None = None  #: the folder
    size: int = Field(default=64, ge=8, le=2048)  #: height and width of the images
    channels: Literal[1, 3] = 3  #: grey or RGB
    intensity: Intensity = "full"  #: of more than 8 bits, see :mod:`fcfg.datasets.pixels`
    fit: Fit = "crop"  #: how a picture becomes square
    split: str | None = None  #: the column that holds 'train', 'val' or 'test'
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)  #: of groups, where none does
    split_seed: int = 0  #: which split is drawn
    group: str | None = None  #: the column with the patient or person
    rename: dict[str, str] = Field(default_factory=dict)  #: attribute: column
    cache: Path | None = None  #: where decoded images are kept, see :mod:`fcfg.datasets.cache`

    @property
    def pixels(self) -> Pixels:
        """The shape of the images."""
        return Pixels(self.size, self.channels, self.intensity, self.fit)


def listing(config: FolderData, space: AttributeSpace) -> Listing:
    """Read ``metadata.csv``, open no image.

    Args:
        config: The options; ``path`` must be set.
        space: The attributes, each a column of the same name unless ``rename`` says another.
    """
    root = folder_of(config.path)
    table = read_columns(found(root, [METADATA], "you: it lists the images and their attributes"))
    for name in ["file_name", config.split, config.group]:
        if name is not None and name not in table:
            raise missing_column(METADATA, name, table)
    space.check_known(config.rename, "data, rename")
    columns: dict[str, list[str]] = {}
    for name, column in column_names(config, space.names).items():
        if column not in table:
            raise missing_column(METADATA, column, table)
        columns[name] = table[column]
    names = table["file_name"]
    check_inside(names)
    check_unique(METADATA, names)
    groups = None if config.group is None else table[config.group]
    if groups is not None:
        _check_whole(names, groups, str(config.group))
    splits = _splits(config, table, groups)
    sources = tuple(Source(root / name) for name in names)
    return Listing(
        root,
        sources,
        tuple(names),
        columns,
        tuple(splits),
        None if groups is None else tuple(groups),
    )


def column_names(config: FolderData, attributes: tuple[str, ...]) -> dict[str, str]:
    """For every attribute the column that holds it."""
    return {name: config.rename.get(name, name) for name in attributes}


def leaves_folder(name: str) -> bool:
    """Whether a file name points outside of the folder, or nowhere.

    >>> [leaves_folder(name) for name in ("a/b.png", "../b.png", "/b.png", "a/../b.png", "")]
    [False, True, True, True, True]
    """
    path = PurePosixPath(name.replace("\\", "/"))
    return not name or path.is_absolute() or ".." in path.parts


def check_inside(names: list[str]) -> None:
    """Refuse file names that leave the folder."""
    outside = [name for name in names if leaves_folder(name)]
    if outside:
        raise InputError(
            f"{METADATA}, file_name",
            expected="paths inside the folder, without '..'",
            got=listed(outside),
            do="move the images into the folder",
        )


def _check_whole(names: list[str], groups: list[str], column: str) -> None:
    nobody = [name for name, group in zip(names, groups, strict=True) if is_missing(group)]
    if nobody:
        raise InputError(
            f"{METADATA}, group '{column}'",
            expected="a value for every image",
            got=f"none for {listed(nobody)}",
            do="fill it in; where nobody recurs, the file name will do",
        )


def _splits(
    config: FolderData, table: dict[str, list[str]], groups: list[str] | None
) -> list[str]:
    if config.split is None:
        return drawn_splits(groups or table["file_name"], config.fractions, config.split_seed)
    for split in dict.fromkeys(table[config.split]):  # 'validation' is not repaired to 'val'
        check_among(f"{METADATA}, split '{config.split}'", split, SPLITS)
    return table[config.split]
