"""CelebA-HQ, as CelebAMask-HQ distributes it: 30,000 aligned faces of celebrities.

::

    CelebAMask-HQ/
      CelebA-HQ-img/0.jpg ... 29999.jpg       1024 by 1024
      CelebAMask-HQ-attribute-anno.txt        the number of images; 40 names; then for each
                                              image its file name and 40 values, -1 or 1
      CelebA-HQ-to-CelebA-mapping.txt         idx, orig_idx, orig_file: which image of CelebA
      list_eval_partition.txt                 (optional, from CelebA) 000001.jpg 0, ...

CelebA-HQ has no split of its own. As in the baselines of the paper, an image goes where CelebA's
official partition has its original: 24,183 for training, 2,993 for validation and 2,824 for test
(the paper's table rounds to 24,000, 3,000, 3,000). That partition is by number, and no identity
lies in two: 000001 to 162770 train, to 182637 validation, to 202599 test (verified against the
official partition of 30,000 images). ``list_eval_partition.txt``, where it lies beside the other
files, decides instead.

Attributes are CelebA's forty, in lower case: ``smiling``, ``male``, ``young``, ``eyeglasses``, …

References:
    Deep learning face attributes in the wild (Liu et al., ICCV 2015); Progressive growing of GANs
    (Karras et al., 2018); MaskGAN (Lee et al., CVPR 2020). Data and file names:
    https://github.com/switchablenorms/CelebAMask-HQ; the columns of both text files and the split
    sizes were verified on public readers of them; the files themselves were not at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.columns import missing_column
from fcfg.datasets.listing import Listing, Source
from fcfg.datasets.pixels import Pixels
from fcfg.datasets.tables import found
from fcfg.support.errors import InputError

_SOURCE = "https://github.com/switchablenorms/CelebAMask-HQ"
_ANNOTATIONS = "CelebAMask-HQ-attribute-anno.txt"
_MAPPING = "CelebA-HQ-to-CelebA-mapping.txt"
_LAST = {"train": 162770, "val": 182637, "test": 202599}  # numbers of CelebA's images
_PARTITION = {"0": "train", "1": "val", "2": "test"}


class CelebAData(BaseModel):
    """Options of CelebA-HQ."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["celeba-hq"] = "celeba-hq"
    path: Path | None = None  #: the folder CelebAMask-HQ
    size: int = Field(default=64, ge=8, le=2048)  #: height and width of the images
    channels: Literal[1, 3] = 3  #: grey or RGB
    cache: Path | None = None  #: where decoded images are kept, see :mod:`fcfg.datasets.cache`

    @property
    def pixels(self) -> Pixels:
        """The shape of the images."""
        return Pixels(self.size, self.channels)


def listing(config: CelebAData, space: AttributeSpace) -> Listing:
    """Read the annotations and the mapping, open no image."""
    annotations = found(config.path, [_ANNOTATIONS], _SOURCE)
    root = annotations.parent
    found(root, ["CelebA-HQ-img"], _SOURCE)
    table = _annotations(annotations)
    partition = _partition(root)
    originals = _originals(found(root, [_MAPPING], _SOURCE))
    splits: list[str] = []
    for name in table["file"]:
        original = originals.get(Path(name).stem, "")
        if original not in partition:
            raise InputError(
                str(root / _MAPPING),
                expected=f"the original of '{name}' in CelebA",
                got=f"'{original}'" if original else "no row for it",
                do=f"get the file again from {_SOURCE}",
            )
        splits.append(partition[original])
    columns = named_attributes(str(annotations), table, space, ("file",))
    sources = tuple(Source(root / "CelebA-HQ-img" / name) for name in table["file"])
    return Listing(root, sources, tuple(table["file"]), columns, tuple(splits))


def named_attributes(
    where: str, table: Mapping[str, Sequence[str]], space: AttributeSpace, others: Iterable[str]
) -> dict[str, list[str]]:
    """CelebA's attributes by their names in lower case, -1 and 0 as 0.

    Args:
        where: The label file, for messages.
        table: Its columns.
        space: Which attributes are wanted.
        others: Columns that must be there and are no attributes.
    """
    for name in others:
        if name not in table:
            raise missing_column(where, name, table)
    by_name = {column.lower(): column for column in table if column not in others}
    columns: dict[str, list[str]] = {}
    for name in space.names:
        if name not in by_name:
            raise missing_column(where, name, by_name)
        columns[name] = ["0" if text == "-1" else text for text in table[by_name[name]]]
    return columns


def attributes() -> tuple[AttributeSpace, CausalGraph]:
    """Smiling, male, young: three attributes without arrows, as in the paper."""
    names = ("smiling", "male", "young")
    return AttributeSpace([Binary(name) for name in names]), CausalGraph({n: [] for n in names})


def _annotations(path: Path) -> dict[str, list[str]]:
    lines = _words(path)
    header = ["file", *(lines[1] if len(lines) > 1 else [])]
    for number, words in enumerate(lines[2:], start=3):
        if len(words) != len(header):
            raise InputError(
                f"{path}, line {number}",
                expected=f"a file name and {len(header) - 1} values",
                got=f"{len(words)} words",
                do=f"get the file again from {_SOURCE}",
            )
    return {name: [words[i] for words in lines[2:]] for i, name in enumerate(header)}


def _originals(path: Path) -> dict[str, str]:
    """For the number of every image its file in CelebA."""
    return {words[0]: words[-1] for words in _words(path)[1:]}


def _partition(root: Path) -> Mapping[str, str]:
    """For every file of CelebA its split."""
    official = root / "list_eval_partition.txt"
    if official.exists():
        return {words[0]: _PARTITION.get(words[-1], words[-1]) for words in _words(official)}
    first, numbers = 1, dict[str, str]()
    for split, last in _LAST.items():
        numbers |= {f"{number:06d}.jpg": split for number in range(first, last + 1)}
        first = last + 1
    return numbers


def _words(path: Path) -> list[list[str]]:
    """The words of every line that has any."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [words for words in map(str.split, lines) if words]
