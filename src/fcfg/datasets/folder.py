"""Your own images: a folder with ``metadata.csv``, in the layout of Hugging Face's ImageFolder.

``file_name`` is relative to the folder. Every other column can be an attribute (see
:mod:`fcfg.datasets.columns` for its values), the split (``train``, ``val`` or ``test``) or the
group. ``docs/data.md`` has the rest.

References:
    https://huggingface.co/docs/datasets/image_dataset#imagefolder (``metadata.csv`` and
    ``file_name``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from pydantic import Field

from fcfg.causal.attributes import AbstractAttribute, AttributeSpace
from fcfg.datasets.base import Case
from fcfg.datasets.columns import parse_column
from fcfg.datasets.loading import AbstractDrawnData
from fcfg.datasets.pixels import Source
from fcfg.support.errors import InputError
from fcfg.support.pictures import Cube, Fit, Intensity, Pixels, Window
from fcfg.support.tables import check_columns, read_columns

METADATA = "metadata.csv"
Labels: TypeAlias = Mapping[str, Sequence[str]]  # by name of the column


class FolderData(AbstractDrawnData, frozen=True):
    """Options of a folder of images."""

    groups_are: ClassVar[str] = "groups"

    format: Literal["folder"] = "folder"
    intensity: Intensity = "full"  #: of more than 8 bits, see :mod:`fcfg.support.pictures`
    fit: Fit = "crop"  #: how a picture becomes square
    split: str | None = None  #: column that holds 'train', 'val' or 'test'
    group: str | None = None  #: column with the patient or person
    missing: Literal["error", "drop"] = "error"  #: rows without a value: drop leaves them out
    rename: dict[str, str] = Field(default_factory=dict)  #: attribute: column
    dimensions: Literal[2, 3] = 2  #: 3 for volumes in NIfTI files, cut or padded to cubes
    window: Window | None = None  #: of volumes: values that become -1 and 1

    @property
    def pixels(self) -> Pixels | Cube:
        if self.dimensions == 3:
            return Cube(self.size, self.channels, self.window)
        return super().pixels

    @property
    def special(self) -> list[str]:
        """Columns of the split and of the groups, as far as there are some."""
        return [name for name in (self.split, self.group) if name is not None]

    def column_of(self, attribute: str) -> str:
        """Name of the column that holds an attribute."""
        return self.rename.get(attribute, attribute)

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        space.check_known(self.rename, "data, rename")
        table = read_metadata(root)
        check_columns(METADATA, [self.column_of(name) for name in space.names], table)
        yield from self.labelled(root, table, space)

    def labelled(
        self, root: Path, table: Labels, attributes: Iterable[AbstractAttribute]
    ) -> Iterator[Case]:
        """Yield the rows of a table that has the columns of some attributes."""
        check_columns(METADATA, self.special, table)
        columns = {each: table[self.column_of(each.name)] for each in attributes}
        gone = {
            f"no value for {each.name}": set(parse_column(each, texts).missing)
            for each, texts in columns.items()
            if self.missing == "drop"
        }
        for row, name in enumerate(table["file_name"]):
            yield Case(
                Source(root / name),
                name,
                {each.name: texts[row] for each, texts in columns.items()},
                None if self.group is None else table[self.group][row],
                "" if self.split is None else table[self.split][row] or "none",
                {reason: row in rows for reason, rows in gone.items()},
            )


def read_metadata(root: Path) -> dict[str, list[str]]:
    """Read ``metadata.csv``, which must have a column ``file_name``."""
    if not (root / METADATA).is_file():
        expected = f"a file '{METADATA}' with a column 'file_name'"
        do = "list the images and their attributes in it"
        raise InputError(f"data in {root}", expected=expected, got="none", do=do)
    table = read_columns(root / METADATA)
    check_columns(METADATA, ["file_name"], table)
    return table
