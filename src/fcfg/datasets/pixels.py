"""Images from files, many in parallel, in the format of a data set."""

from __future__ import annotations

import io
import itertools
import os
import zipfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from PIL import Image

from fcfg.support.pictures import (
    DICOM,
    Cube,
    DecodedImage,
    OpenedImage,
    Pixels,
    UnreadableError,
    decode,
    nibabel,
    open_image,
    pydicom,
    reason,
    to_bytes,
)

_GROUP = 256  # members of an archive that one thread reads, to open it less often


@dataclass(frozen=True)
class Source:
    """Location of an image: a file, a member of an archive, or a part of a large picture."""

    path: Path
    member: str | None = None  #: name inside a zip archive, or of an array in an npz archive
    box: tuple[int, int, int, int] | None = None
    """Left, upper, right, lower, in a large picture; outside of an array's row it is black."""
    row: int | None = None  #: number of the image in its array, which holds grey bytes


#: An image, or the reason why it cannot be read.
Result: TypeAlias = DecodedImage | str


def read_all(sources: Sequence[Source], wanted: Pixels | Cube) -> Iterator[Result]:
    """Read images with several threads: one result per source, in order.

    Pillow releases the interpreter lock while it decodes and resizes. Few groups are in flight at
    a time, so memory does not grow with the number of images.
    """
    if any((source.member or source.path.name).lower().endswith(DICOM) for source in sources):
        pydicom()  # fails once here instead of once per file
    if isinstance(wanted, Cube):
        nibabel()
    threads = min(32, (os.cpu_count() or 1) + 2)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fcfg-reading")
    reading = (pool.submit(_read_group, group, wanted) for group in _groups(sources))
    try:
        waiting = deque(itertools.islice(reading, 2 * threads))
        while waiting:
            yield from waiting.popleft().result()
            waiting.extend(itertools.islice(reading, 1))
    finally:  # also when the caller stops early
        pool.shutdown(wait=True, cancel_futures=True)


def _groups(sources: Sequence[Source]) -> Iterator[list[Source]]:
    """Group neighbours in the same file, so that a large picture is decoded once."""
    for _, same in itertools.groupby(sources, key=lambda source: source.path):
        members = list(same)
        is_one_file = members[0].member is None or members[0].row is not None
        together = len(members) if is_one_file else _GROUP
        for start in range(0, len(members), together):
            yield members[start : start + together]


def _read_group(group: list[Source], wanted: Pixels | Cube) -> list[Result]:
    """Read sources in the same file; what is wrong with it holds for all of them."""
    path, first = group[0].path, group[0]
    is_whole = first == Source(path)
    try:
        if isinstance(wanted, Cube):
            from fcfg.support.volumes import read_cube

            return [read_cube(path, wanted)] * len(group)
        if first.row is not None:
            return _from_arrays(group, wanted)
        if first.member is not None:
            with zipfile.ZipFile(path) as archive:
                return [_from_archive(archive, source.member or "", wanted) for source in group]
        with path.open("rb") as file:
            enough = 2 * wanted.size if is_whole else None
            image = open_image(file, path.name, wanted.intensity, enough)
        return [_part(image, source, wanted) for source in group]
    except Exception as error:  # NumPy, zlib and Pillow raise many kinds for broken files
        why = str(error) if isinstance(error, UnreadableError) else reason(error)
        return [why if is_whole else f"{path.name}: {why}"] * len(group)


def _from_archive(archive: zipfile.ZipFile, member: str, wanted: Pixels) -> Result:
    try:
        return decode(io.BytesIO(archive.read(member)), member, wanted)
    except (KeyError, zipfile.BadZipFile, UnreadableError) as error:
        return str(error).strip("\"'")


def _from_arrays(group: list[Source], wanted: Pixels) -> list[Result]:
    with np.load(group[0].path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in {source.member or "" for source in group}}
    pictures = (Image.fromarray(arrays[s.member or ""][s.row]).crop(s.box) for s in group)
    return [DecodedImage(to_bytes(each, wanted), (each.size, each.mode)) for each in pictures]


def _part(image: OpenedImage, source: Source, wanted: Pixels) -> Result:
    picture = image.picture
    if source.box is not None:
        if source.box[2] > picture.width or source.box[3] > picture.height:
            return f"outside of the {picture.width} by {picture.height} pixels of its file"
        picture = picture.crop(source.box)
    return DecodedImage(to_bytes(picture, wanted), image.stored, image.several_frames)
