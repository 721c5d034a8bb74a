"""Many images, in their order, decoded by several threads; broken ones told apart."""

from __future__ import annotations

import io
import itertools
import os
import zipfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

from fcfg.datasets.listing import Source
from fcfg.datasets.pixels import (
    DICOM,
    Decoded,
    Pixels,
    UnreadableError,
    decoded,
    opened,
    pydicom,
    read_picture,
    to_bytes,
)

#: An image, or why it could not be read.
Result: TypeAlias = Decoded | str

_TOGETHER = 256  # members of an archive that one thread reads: opening it costs as much as some


def read_all(sources: Sequence[Source], wanted: Pixels) -> Iterator[Result]:
    """Read images, one result for each source, in order.

    Threads suffice: Pillow decodes and resizes without holding the interpreter. No more than a
    few groups wait at a time, so memory stays small however many there are.
    """
    if any((source.member or source.path.name).lower().endswith(DICOM) for source in sources):
        pydicom()  # refused here once, not for every file
    threads = min(32, (os.cpu_count() or 1) + 2)
    groups = _groups(sources)
    waiting: deque[Future[list[Result]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fcfg-reading")
    try:
        for group in itertools.islice(groups, 2 * threads):
            waiting.append(pool.submit(_read_group, group, wanted))
        while waiting:
            yield from waiting.popleft().result()
            for group in itertools.islice(groups, 1):
                waiting.append(pool.submit(_read_group, group, wanted))
    finally:  # also when the caller stops early
        pool.shutdown(wait=True, cancel_futures=True)


def _groups(sources: Sequence[Source]) -> Iterator[list[Source]]:
    """Neighbours that share a file are read together; a large picture is decoded once."""
    for _, same in itertools.groupby(sources, key=lambda source: source.path):
        members = list(same)
        together = len(members) if members[0].member is None else _TOGETHER
        for start in range(0, len(members), together):
            yield members[start : start + together]


def _read_group(group: list[Source], wanted: Pixels) -> list[Result]:
    try:
        if group[0].member is not None:
            return _from_archive(group, wanted)
        if group[0].box is not None:
            return _from_mosaic(group, wanted)
    except (OSError, zipfile.BadZipFile, UnreadableError) as error:
        return [f"{group[0].path.name}: {error}"] * len(group)
    return [_attempt(source, wanted) for source in group]


def _attempt(source: Source, wanted: Pixels) -> Result:
    try:
        return read_picture(source.path, wanted)
    except UnreadableError as error:
        return str(error)


def _from_archive(group: list[Source], wanted: Pixels) -> list[Result]:
    results: list[Result] = []
    with zipfile.ZipFile(group[0].path) as archive:
        for source in group:
            member = source.member or ""
            try:
                results.append(decoded(io.BytesIO(archive.read(member)), member, wanted))
            except (KeyError, zipfile.BadZipFile, UnreadableError) as error:
                results.append(str(error).strip("\"'"))
    return results


def _from_mosaic(group: list[Source], wanted: Pixels) -> list[Result]:
    with group[0].path.open("rb") as file:
        image = opened(file, group[0].path.name, wanted.intensity)
    large = image.picture
    results: list[Result] = []
    for source in group:
        left, upper, right, lower = source.box or (0, 0, 0, 0)
        if right > large.width or lower > large.height:
            results.append(f"outside of the {large.width} by {large.height} pixels of its file")
        else:
            part = to_bytes(large.crop((left, upper, right, lower)), wanted)
            results.append(Decoded(part, image.several))
    return results
