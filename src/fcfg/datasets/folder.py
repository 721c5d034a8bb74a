"""Your own images: a folder with ``metadata.csv``, in the layout of Hugging Face's ImageFolder.

::

    faces/
      metadata.csv        file_name,smiling,age,person
      0001.png            0001.png,1,34,ann
      more/0002.png       more/0002.png,0,51,bob

``file_name`` is relative to the folder and may be in a subfolder. Every other column can be an
attribute (see :mod:`fcfg.datasets.columns` for its values). Other columns and files are ignored;
``fcfg data check`` lists them.

The column that ``split`` names holds exactly ``train``, ``val`` or ``test``. Without it, the split
is drawn at random from a seed, by group if there is one: images of one person must not be in two
splits.

References:
    https://huggingface.co/docs/datasets/image_dataset#imagefolder (``metadata.csv`` and
    ``file_name``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from pydantic import Field

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import (
    SPLITS,
    AbstractDiskData,
    Fractions,
    Listing,
    check_unique,
    existing_folder,
    split_by_group,
)
from fcfg.datasets.columns import is_missing, parse_column
from fcfg.datasets.pixels import Source
from fcfg.support.csv_files import check_columns, read_columns
from fcfg.support.errors import InputError, check_among, listed
from fcfg.support.pictures import Fit, Intensity

METADATA = "metadata.csv"
Missing: TypeAlias = Literal["error", "drop"]


class FolderData(AbstractDiskData, frozen=True):
    """Options of a folder of images."""

    format: Literal["folder"] = "folder"
    intensity: Intensity = "full"  #: of more than 8 bits, see :mod:`fcfg.support.pictures`
    fit: Fit = "crop"  #: how a picture becomes square
    split: str | None = None  #: column that holds 'train', 'val' or 'test'
    fractions: Fractions = (0.8, 0.1, 0.1)  #: of groups, without such a column
    split_seed: int = 0  #: seed for the split
    group: str | None = None  #: column with the patient or person
    missing: Missing = "error"  #: what to do about rows without a value for an attribute
    rename: dict[str, str] = Field(default_factory=dict)  #: attribute: column

    def attributes(self) -> None:
        """A folder has no attributes of its own."""

    def column_of(self, attribute: str) -> str:
        """Name of the column that holds an attribute."""
        return self.rename.get(attribute, attribute)

    def listing(self, space: AttributeSpace) -> Listing:
        """Read ``metadata.csv`` without opening an image."""
        root = existing_folder(self.path)
        table = read_metadata(root)
        space.check_known(self.rename, "data, rename")
        columns = {name: self.column_of(name) for name in space.names}
        special = [name for name in (self.split, self.group) if name is not None]
        check_columns(METADATA, [*special, *columns.values()], table)
        table, dropped = self.complete(table, space)
        names = table["file_name"]
        _check_inside(names)
        check_unique(METADATA, names)
        groups = None if self.group is None else table[self.group]
        if groups is not None:
            _check_complete(names, groups, str(self.group))
        return Listing(
            root,
            tuple(Source(root / name) for name in names),
            tuple(names),
            {name: table[column] for name, column in columns.items()},
            tuple(self._splits(table, groups)),
            None if groups is None else tuple(groups),
            dropped,
        )

    def complete(
        self, table: Mapping[str, Sequence[str]], space: AttributeSpace
    ) -> tuple[Mapping[str, Sequence[str]], dict[str, int]]:
        """Leave out rows without a value, if ``missing`` is 'drop', and count them by reason."""
        dropped: dict[str, int] = {}
        for attribute in space if self.missing == "drop" else ():
            texts = table.get(self.column_of(attribute.name), [])
            if gone := set(parse_column(attribute, texts).missing):
                dropped[f"no value for {attribute.name}"] = len(gone)
                table = {
                    name: [text for row, text in enumerate(column) if row not in gone]
                    for name, column in table.items()
                }
        return table, dropped

    def _splits(
        self, table: Mapping[str, Sequence[str]], groups: Sequence[str] | None
    ) -> Sequence[str]:
        if self.split is None:
            return split_by_group(groups or table["file_name"], self.fractions, self.split_seed)
        for split in dict.fromkeys(table[self.split]):  # 'validation' is not repaired to 'val'
            check_among(f"{METADATA}, split '{self.split}'", split, SPLITS)
        return table[self.split]


def read_metadata(root: Path) -> dict[str, list[str]]:
    """Read ``metadata.csv``, which must have a column ``file_name``."""
    if not (root / METADATA).is_file():
        raise InputError(
            f"data in {root}",
            expected=f"a file '{METADATA}' with a column 'file_name'",
            got="none",
            do="list the images and their attributes in it",
        )
    table = read_columns(root / METADATA)
    check_columns(METADATA, ["file_name"], table)
    return table


def leaves_folder(name: str) -> bool:
    """Whether a file name is empty or points outside of the folder.

    >>> [leaves_folder(name) for name in ("a/b.png", "../b.png", "/b.png", "a/../b.png", "")]
    [False, True, True, True, True]
    """
    path = PurePosixPath(name.replace("\\", "/"))
    return not name or path.is_absolute() or ".." in path.parts


def _check_inside(names: Sequence[str]) -> None:
    outside = [name for name in names if leaves_folder(name)]
    if outside:
        raise InputError(
            f"{METADATA}, file_name",
            expected="paths inside the folder, without '..'",
            got=listed(outside),
            do="move the images into the folder",
        )


def _check_complete(names: Sequence[str], groups: Sequence[str], column: str) -> None:
    without = [name for name, group in zip(names, groups, strict=True) if is_missing(group)]
    if without:
        raise InputError(
            f"{METADATA}, group '{column}'",
            expected="a value for every image",
            got=f"none for {listed(without)}",
            do="fill it in; use the file name for people with a single image",
        )
