"""CelebA: faces of celebrities, in two formats, whose layouts ``docs/data.md`` has.

CelebA-HQ has no split of its own. As in the baselines of the paper, an image has the split of its
original in CelebA's official partition, which is by number, with no identity in two splits (the
boundaries below were verified against the official partition of 30,000 images), or in
``list_eval_partition.txt``, if that is present.

CelebA in mosaics is this project's own format: row i of ``labels.csv`` (``file``, ``split``,
``identity`` and the attributes) is cell i mod 1000 of ``mosaic_00.jpg``, ``mosaic_01.jpg``, ...,
64 by 64 pixels each and 40 in a row, of mosaic i div 1000 (verified on its files). Call the data
"CelebA, 64×64 crop" in results, not CelebA-HQ. For non-commercial research only.

References:
    Deep learning face attributes in the wild (Liu et al., ICCV 2015),
    https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html; Progressive growing of GANs
    (Karras et al., 2018); MaskGAN (Lee et al., CVPR 2020). Data and file names:
    https://github.com/switchablenorms/CelebAMask-HQ; the columns of both text files and the split
    sizes were verified on public readers of these files, not on the files themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Literal

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import Case
from fcfg.datasets.columns import LabelTable, Row, find_file
from fcfg.datasets.loading import AbstractDiskData
from fcfg.datasets.pixels import Source
from fcfg.support.errors import InputError
from fcfg.support.tables import check_columns

_SOURCE = "https://github.com/switchablenorms/CelebAMask-HQ"
_AGAIN = f"get the file again from {_SOURCE}"
_MAPPING = "CelebA-HQ-to-CelebA-mapping.txt"
_LAST = {"train": 162770, "val": 182637, "test": 202599}  # last image number of each split
_PARTITION = {"0": "train", "1": "val", "2": "test"}

_CROPS = (
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, and pack it as fcfg.datasets.celeba says"
)
_LABELS = LabelTable(("labels.csv",), _CROPS, ("file", "split", "identity"), others=True)
_CELL, _ACROSS, _CELLS = 64, 40, 1000


class CelebAData(AbstractDiskData, frozen=True):
    """Options of CelebA-HQ; ``path`` is the folder CelebAMask-HQ."""

    format: Literal["celeba-hq"] = "celeba-hq"

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        annotations, images, mapping = (
            find_file(root, [name], _SOURCE)
            for name in ("CelebAMask-HQ-attribute-anno.txt", "CelebA-HQ-img", _MAPPING)
        )
        originals = {words[0]: words[-1] for words in _words(mapping)}  # by image number
        path = root / "list_eval_partition.txt"
        official = {words[0]: words[-1] for words in _words(path)} if path.exists() else None
        for row in _annotations(annotations, space):
            original = originals.get(Path(row["file"]).stem, "")
            split = _split(original, official)
            if split is None:
                expected = f"the original of '{row['file']}' in CelebA"
                got = f"'{original}'" if original else "no row for it"
                raise InputError(str(mapping), expected=expected, got=got, do=_AGAIN)
            values = _values(str(annotations), row, space)
            yield Case(Source(images / row["file"]), row["file"], values, split=split)


class MosaicData(AbstractDiskData, frozen=True):
    """Options of CelebA in mosaics; ``path`` has labels.csv and the mosaics."""

    groups_are: ClassVar[str] = "persons"

    format: Literal["celeba-mosaic"] = "celeba-mosaic"

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        for number, row in enumerate(_LABELS.rows(root)):
            mosaic, cell = divmod(number, _CELLS)
            path = find_file(root, [f"mosaic_{mosaic:02d}.jpg"], _CROPS)
            upper, left = (index * _CELL for index in divmod(cell, _ACROSS))
            source = Source(path, box=(left, upper, left + _CELL, upper + _CELL))
            values = _values("labels.csv", row, space)
            yield Case(source, row["file"], values, row["identity"], row["split"])


def _values(where: str, row: Row, space: AttributeSpace) -> dict[str, str]:
    """Select attributes by the names of their columns in lower case, with -1 replaced by 0."""
    by_name = {column.lower(): text for column, text in row.items()}
    check_columns(where, space.names, by_name)
    return {name: "0" if by_name[name] == "-1" else by_name[name] for name in space.names}


def _annotations(path: Path, space: AttributeSpace) -> Iterator[Row]:
    lines = _words(path)
    header = ["file", *(word for line in lines[1:2] for word in line)]
    _values(str(path), dict.fromkeys(header, ""), space)  # checked without any image, too
    for number, words in enumerate(lines[2:], start=3):
        if len(words) != len(header):
            expected, got = f"a file name and {len(header) - 1} values", f"{len(words)} words"
            raise InputError(f"{path}, line {number}", expected=expected, got=got, do=_AGAIN)
        yield dict(zip(header, words, strict=True))


def _split(original: str, official: Mapping[str, str] | None) -> str | None:
    """Return the split of a file of CelebA: in the official partition, or by its number."""
    if official is not None:
        return _PARTITION.get(official.get(original, ""))
    number = int(original[:6]) if re.fullmatch(r"\d{6}\.jpg", original) else 0
    return next((split for split, last in _LAST.items() if 0 < number <= last), None)


def _words(path: Path) -> list[list[str]]:
    """Split every line that is not empty into words."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [words for words in map(str.split, lines) if words]
