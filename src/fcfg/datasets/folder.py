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
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import (
    Fractions,
    Listing,
    check_listing,
    existing_folder,
    split_by_group,
)
from fcfg.datasets.columns import parse_column
from fcfg.datasets.loading import AbstractDiskData
from fcfg.datasets.pixels import Source
from fcfg.support.csv_files import check_columns, read_columns
from fcfg.support.errors import InputError
from fcfg.support.pictures import Fit, Intensity

METADATA = "metadata.csv"
Labels: TypeAlias = Mapping[str, Sequence[str]]  # by name of the column


class FolderData(AbstractDiskData, frozen=True):
    """Options of a folder of images."""

    format: Literal["folder"] = "folder"
    intensity: Intensity = "full"  #: of more than 8 bits, see :mod:`fcfg.support.pictures`
    fit: Fit = "crop"  #: how a picture becomes square
    split: str | None = None  #: column that holds 'train', 'val' or 'test'
    fractions: Fractions = (0.8, 0.1, 0.1)  #: of groups, without such a column
    split_seed: int = 0  #: seed for the split
    group: str | None = None  #: column with the patient or person
    missing: Literal["error", "drop"] = "error"  #: what to do about rows without a value
    rename: dict[str, str] = Field(default_factory=dict)  #: attribute: column

    def attributes(self) -> None:
        """A folder has no attributes of its own."""

    def column_of(self, attribute: str) -> str:
        """Name of the column that holds an attribute."""
        return self.rename.get(attribute, attribute)

    def listing(self, space: AttributeSpace) -> Listing:
        """Read ``metadata.csv`` without opening an image."""
        root = existing_folder(self.path)
        space.check_known(self.rename, "data, rename")
        columns = {name: self.column_of(name) for name in space.names}
        table, dropped = self.complete(read_metadata(root), space)
        check_columns(METADATA, columns.values(), table)
        names, groups = table["file_name"], self.groups(table)
        check_listing(root, names, groups=groups)  # before a split is drawn by them
        return Listing(
            root,
            [Source(root / name) for name in names],
            names,
            {name: table[column] for name, column in columns.items()},
            self.splits(table),
            groups,
            {reason: len(gone) for reason, gone in dropped.items()},
        )

    def complete(
        self, table: Labels, space: AttributeSpace
    ) -> tuple[Labels, dict[str, Sequence[str]]]:
        """Leave out rows without a value, if ``missing`` is 'drop'; return their names, too."""
        dropped: dict[str, Sequence[str]] = {}
        for attribute in space if self.missing == "drop" else ():
            texts = table.get(self.column_of(attribute.name), ())
            if gone := parse_column(attribute, texts).missing:
                dropped[f"no value for {attribute.name}"] = [table["file_name"][n] for n in gone]
                kept = sorted(set(range(len(texts))) - set(gone))
                table = {name: [column[n] for n in kept] for name, column in table.items()}
        return table, dropped

    def groups(self, table: Labels) -> Sequence[str] | None:
        """Return the patient or person of every row, if a column names them."""
        if self.group is None:
            return None
        check_columns(METADATA, [self.group], table)
        return table[self.group]

    def splits(self, table: Labels) -> Sequence[str]:
        """Return the split of every row, as its column says, or drawn by group."""
        if self.split is not None:
            check_columns(METADATA, [self.split], table)
            return table[self.split]
        groups = self.groups(table) or table["file_name"]
        return split_by_group(groups, self.fractions, self.split_seed)


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
