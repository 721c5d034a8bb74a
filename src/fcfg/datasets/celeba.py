"""CelebA-HQ, as CelebAMask-HQ distributes it: 30,000 aligned faces of celebrities.

::

    CelebAMask-HQ/
      CelebA-HQ-img/0.jpg ... 29999.jpg       1024 by 1024
      CelebAMask-HQ-attribute-anno.txt        number of images; 40 names; then one line per
                                              image: its file name and 40 values, -1 or 1
      CelebA-HQ-to-CelebA-mapping.txt         idx, orig_idx, orig_file: which image of CelebA
      list_eval_partition.txt                 (optional, from CelebA) 000001.jpg 0, ...

CelebA-HQ has no split of its own. As in the baselines of the paper, an image has the split of its
original in CelebA's official partition: 24,183 for training, 2,993 for validation and 2,824 for
test (the paper's table rounds to 24,000, 3,000, 3,000). That partition is by number, with no
identity in two splits: 000001 to 162770 train, to 182637 validation, to 202599 test (verified
against the official partition of 30,000 images). If ``list_eval_partition.txt`` is present, it is
used instead.

Attributes are CelebA's forty, in lower case: ``smiling``, ``male``, ``young``, ``eyeglasses``, …

References:
    Deep learning face attributes in the wild (Liu et al., ICCV 2015); Progressive growing of GANs
    (Karras et al., 2018); MaskGAN (Lee et al., CVPR 2020). Data and file names:
    https://github.com/switchablenorms/CelebAMask-HQ; the columns of both text files and the split
    sizes were verified on public readers of these files, not on the files themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.base import find_file
from fcfg.datasets.pixels import Source
from fcfg.datasets.tables import AbstractTableData, Case, Row
from fcfg.support.csv_files import check_columns
from fcfg.support.errors import InputError

_SOURCE = "https://github.com/switchablenorms/CelebAMask-HQ"
_ANNOTATIONS = "CelebAMask-HQ-attribute-anno.txt"
_MAPPING = "CelebA-HQ-to-CelebA-mapping.txt"
_LAST = {"train": 162770, "val": 182637, "test": 202599}  # last image number of each split
_PARTITION = {"0": "train", "1": "val", "2": "test"}


class CelebAData(AbstractTableData, frozen=True):
    """Options of CelebA-HQ; ``path`` is the folder CelebAMask-HQ."""

    format: Literal["celeba-hq"] = "celeba-hq"

    def attributes(self) -> tuple[AttributeSpace, CausalGraph]:
        """Smiling, male, young: three attributes without arrows, as in the paper."""
        return celeba_attributes()

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        """Read the annotations and the mapping without opening an image."""
        annotations = find_file(root, [_ANNOTATIONS], _SOURCE)
        images = find_file(root, ["CelebA-HQ-img"], _SOURCE)
        mapping = find_file(root, [_MAPPING], _SOURCE)
        partition = _partition(root)
        originals = {words[0]: words[-1] for words in _words(mapping)[1:]}  # by image number
        for row in _annotations(annotations, space):
            original = originals.get(Path(row["file"]).stem, "")
            if original not in partition:
                raise InputError(
                    str(mapping),
                    expected=f"the original of '{row['file']}' in CelebA",
                    got=f"'{original}'" if original else "no row for it",
                    do=f"get the file again from {_SOURCE}",
                )
            values = celeba_values(str(annotations), row, space)
            source = Source(images / row["file"])
            yield Case(source, row["file"], values, split=partition[original])


def celeba_attributes() -> tuple[AttributeSpace, CausalGraph]:
    """Smiling, male, young: three attributes without arrows, as in the paper."""
    names = ("smiling", "male", "young")
    return AttributeSpace([Binary(name) for name in names]), CausalGraph({n: [] for n in names})


def celeba_values(where: str, row: Row, space: AttributeSpace) -> dict[str, str]:
    """Select CelebA's attributes by their names in lower case, with -1 replaced by 0.

    Args:
        where: Name of the label file, for messages.
        row: Columns of an image.
        space: Attributes to select.
    """
    by_name = {column.lower(): text for column, text in row.items()}
    check_columns(where, space.names, by_name)
    return {name: "0" if by_name[name] == "-1" else by_name[name] for name in space.names}


def _annotations(path: Path, space: AttributeSpace) -> Iterator[Row]:
    lines = _words(path)
    header = ["file", *(lines[1] if len(lines) > 1 else [])]
    celeba_values(str(path), dict.fromkeys(header, ""), space)  # checked without any image, too
    for number, words in enumerate(lines[2:], start=3):
        if len(words) != len(header):
            raise InputError(
                f"{path}, line {number}",
                expected=f"a file name and {len(header) - 1} values",
                got=f"{len(words)} words",
                do=f"get the file again from {_SOURCE}",
            )
        yield dict(zip(header, words, strict=True))


def _partition(root: Path) -> Mapping[str, str]:
    """Map every file of CelebA to its split."""
    official = root / "list_eval_partition.txt"
    if official.exists():
        return {words[0]: _PARTITION.get(words[-1], words[-1]) for words in _words(official)}
    first, numbers = 1, dict[str, str]()
    for split, last in _LAST.items():
        numbers |= {f"{number:06d}.jpg": split for number in range(first, last + 1)}
        first = last + 1
    return numbers


def _words(path: Path) -> list[list[str]]:
    """Split every line that is not empty into words."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [words for words in map(str.split, lines) if words]
