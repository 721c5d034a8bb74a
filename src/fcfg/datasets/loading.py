"""Data sets on disk, and their images, loaded through a cache of decoded pixels.

A data set on disk is a class of options with a method ``cases``, which reads the labels and opens
no image. Excluding, splitting, checking and loading are the same for all.

Images are decoded once, into one file that later runs map into memory. A cache is ``NAME.npy``,
bytes of shape (image, channel, height, width) in the order of the listing, and its index
``NAME.json``, which is written last: pixels without an index are ignored. The name contains a
digest of everything that the pixels depend on (options, and paths, sizes and modification times of
the source files), so a changed data set gets a new cache. Caches can be deleted at any time.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache as memoize
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self, TypeAlias

import numpy as np
from jaxtyping import UInt8
from numpy.lib import format as npy

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import (
    SPLITS,
    AbstractData,
    Case,
    Channels,
    Examples,
    Fractions,
    Listing,
    OnProgress,
    Size,
    Splits,
    existing_folder,
    name_faults,
    silent,
    split_by_group,
    split_faults,
)
from fcfg.datasets.columns import parse_table
from fcfg.datasets.pixels import read_all
from fcfg.support.errors import InputError, listed, refuse_all
from fcfg.support.files import write_atomically
from fcfg.support.hashing import hex_digest
from fcfg.support.pictures import Cube, Pixels

_VERSION = 3  # of the decoding; increase it when the same file gives other pixels

# Readable images; the reasons for unreadable ones, by name; names of those with further frames.
_Cached: TypeAlias = tuple[UInt8[np.ndarray, "example channel *size"], dict[str, str], list[str]]


def cache_folder(root: Path | None, folder: Path | None = None) -> Path:
    """Return a writable folder for caches: the one of the user, or one for the data set."""
    own = [] if root is None else [root / ".fcfg-cache"]
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "fcfg"
    own += [] if home.parts[0] == "~" else [home]  # a user without a home
    for candidate in own if folder is None else [folder]:
        try:
            candidate.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=candidate):
                return candidate
        except OSError:
            continue
    got, do = f"'{folder or home}'", "give another folder as 'cache'"
    raise InputError("data, cache", expected="a folder that can be written", got=got, do=do)


def _key(root: Path, cases: Sequence[Case], pixels: Pixels | Cube) -> str:
    @memoize
    def stamp(path: Path) -> tuple[str, int, int]:
        name = os.path.relpath(path, root)
        try:
            state = path.stat()
        except (OSError, ValueError):  # reported by name when the image is read
            return name, -1, -1
        return name, state.st_size, state.st_mtime_ns

    parts = [json.dumps([_VERSION, asdict(pixels)])]
    for case in cases:
        source = case.source
        place = (stamp(source.path), source.member, source.box, source.row)
        parts.append(repr((case.name, *place)))
    return hex_digest("".join(parts), size=10)


def _open(path: Path) -> _Cached | None:
    """Map the pixels that an index says to be complete."""
    try:
        record: dict[str, Any] = json.loads(path.with_suffix(".json").read_bytes())
        images = np.load(path, mmap_mode="r")[: record["images"]]
    except (OSError, ValueError, KeyError, EOFError):
        return None
    return images, record["bad"], record["several"]


def _write(
    path: Path, cases: Sequence[Case], pixels: Pixels | Cube, on_progress: OnProgress
) -> _Cached:
    """Write the readable images, padded to the number of all, then their index."""
    bad, several = dict[str, str](), list[str]()
    shape = (len(cases), *pixels.shape)

    def write(file: BinaryIO) -> None:
        npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        on_progress("reading images", 0, len(cases))
        results = read_all([case.source for case in cases], pixels)
        for done, (case, result) in enumerate(zip(cases, results, strict=True), start=1):
            if isinstance(result, str):
                bad[case.name] = result
            else:
                file.write(result.pixels.tobytes())
                several.extend([case.name] if result.several_frames else [])
            on_progress("reading images", done, len(cases))
        file.truncate(file.tell() + len(bad) * math.prod(shape[1:]))

    with warnings.catch_warnings():  # Pillow warns of what is refused or harmless here
        warnings.simplefilter("ignore")
        write_atomically(path, write)
    record = {"images": len(cases) - len(bad), "bad": bad, "several": several}
    write_atomically(path.with_suffix(".json"), json.dumps(record, indent=1).encode())
    written = _open(path)
    assert written is not None, "a cache that was just written opens"
    return written


class AbstractDiskData(AbstractData, frozen=True):
    """Options that all data sets on disk have."""

    #: Reasons that exclude an image after its patient was drawn into a split.
    after_split: ClassVar[frozenset[str]] = frozenset()

    path: Path | None = None  #: folder of the data set
    size: Size = 64  #: height and width of the images
    channels: Channels = 3  #: 1 for grey, 3 for RGB
    cache: Path | None = None  #: folder of decoded images, see :mod:`fcfg.datasets.loading`

    @property
    def pixels(self) -> Pixels | Cube:
        """Common format of the images."""
        return Pixels(**self.model_dump(include={"size", "channels", "intensity", "fit"}))

    def at(self, folder: Path) -> Self:
        return self.model_copy(update={"path": folder.absolute()})

    @abstractmethod
    def cases(self, root: Path, space: AttributeSpace) -> Iterable[Case]:
        """Read the labels of some attributes without opening an image."""

    def with_splits(self, cases: Sequence[Case]) -> Sequence[Case]:
        """Give each case its split: by default the labels say it."""
        return cases

    def listing(self, space: AttributeSpace) -> Listing:
        """Read the labels of some attributes without opening an image."""
        root = existing_folder(self.path)
        found = list(self.cases(root, space))
        early = [case for case in found if not case.reason or case.reason in self.after_split]
        refuse_all(name_faults(root, [case for case in early if not case.reason]))
        excluded = Counter(case.reason for case in found if case.reason)
        return Listing(root, [c for c in self.with_splits(early) if not c.reason], excluded)

    def load(
        self, space: AttributeSpace, *, skip_bad: bool = False, on_progress: OnProgress = silent
    ) -> Splits:
        listing, pixels = self.listing(space), self.pixels
        root, cases = listing.root, [c for split in SPLITS for c in listing.split(split)]
        names, where = [case.name for case in cases], f"the labels of {root}"
        texts = {name: [case.values[name] for case in cases] for name in space.names}
        table = parse_table(space, texts, names, where)
        name = f"{pixels.size}x{pixels.size}x{pixels.channels}-{_key(root, cases, pixels)}"
        path = cache_folder(root, self.cache) / f"{name}.npy"
        images, bad, several = _open(path) or _write(path, cases, pixels, on_progress)
        total = f"{len(names)} images"
        if bad:
            first = f"{listed(list(bad))} (the first: {next(iter(bad.values()))})"
            if not skip_bad or len(bad) == len(names):
                expected, got = f"{total} that can be read", f"{len(bad)} that cannot: {first}"
                do = "repair or remove them, or skip them with --skip-bad (skip_bad=True)"
                raise InputError(f"images in {root}", expected=expected, got=got, do=do)
            what = f"{len(bad)} of {total} in {root} cannot be read and are skipped"
            warnings.warn(f"{what}: {first}", stacklevel=2)
            left = [case for case in cases if case.name not in bad]
            refuse_all(split_faults(root, left, listing.excluded))
        if several:
            what = f"{len(several)} of {total} in {root} are the first of several frames"
            warnings.warn(f"{what}: {listed(several)}", stacklevel=2)
        good = [row for row, name in enumerate(names) if name not in bad]
        splits: Splits = {}
        for split in SPLITS:
            if own := [n for n, row in enumerate(good) if cases[row].split == split]:
                pixels_of, rows = images[own[0] : own[-1] + 1], [good[n] for n in own]
                columns = {name: column[rows] for name, column in table.items()}
                groups = tuple(group for row in rows if (group := cases[row].group) is not None)
                splits[split] = Examples(
                    pixels_of,
                    columns,
                    tuple(names[row] for row in rows),
                    groups=groups if len(groups) == len(rows) else None,
                )
        return splits

    def training_images(self, space: AttributeSpace) -> int | None:
        return None if self.path is None else len(self.listing(space).split("train"))

    def excluded(self, space: AttributeSpace) -> Mapping[str, int]:
        return self.listing(space).excluded


class AbstractDrawnData(AbstractDiskData, frozen=True):
    """Options of data sets without a split: groups are drawn into one at random."""

    fractions: Fractions = (0.8, 0.1, 0.1)  #: of groups, such as patients
    split_seed: int = 0  #: seed for the split

    def with_splits(self, cases: Sequence[Case]) -> Sequence[Case]:
        if not cases or cases[0].split:
            return cases
        groups = [case.name if case.group is None else case.group for case in cases]
        splits = split_by_group(groups, self.fractions, self.split_seed)
        return [replace(case, split=split) for case, split in zip(cases, splits, strict=True)]
