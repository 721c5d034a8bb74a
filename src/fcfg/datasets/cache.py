"""Images of a data set in one file that is mapped into memory: decoded once, opened at once.

A cache is ``NAME.npy``, bytes of shape (image, channel, height, width) in the order of a listing,
and ``NAME.json``, which says what is in it and is written last: images without their index are
not taken for a cache. The name holds a digest of everything the pixels depend on (paths, sizes and
times of change of the source files, and the options), so a changed data set gets a new cache.

Caches lie in ``.fcfg-cache`` inside the data set's folder; where that cannot be written, in
``$XDG_CACHE_HOME/fcfg``, which is ``~/.cache/fcfg`` by default; or where ``cache`` says. They can
be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache as remembered
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import UInt8
from numpy.lib import format as npy

from fcfg.datasets.listing import Listing
from fcfg.datasets.pixels import Pixels
from fcfg.datasets.reading import read_all
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically

_VERSION = 2  # of the pixels: another way to read them needs another number


@dataclass(frozen=True, eq=False)
class Cached:
    """Images of a listing, without those that could not be read."""

    images: UInt8[np.ndarray, "example channel height width"] = field(repr=False)
    bad: dict[str, str]  #: why each of the others could not be read, by name
    several: tuple[str, ...] = ()  #: names of those that are the first of several frames


def cached_images(
    listing: Listing,
    pixels: Pixels,
    folder: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Cached:
    """Open the images of a listing; the first time, decode them.

    Args:
        listing: Which, in which order.
        pixels: In which shape.
        folder: Where caches lie, see above.
        on_progress: Called with how many are read, of how many.
    """
    home = cache_folder(listing.root, folder)
    name = f"{pixels.size}x{pixels.size}x{pixels.channels}-{_key(listing, pixels)}"
    images, index = home / f"{name}.npy", home / f"{name}.json"
    found = _opened(images, index)
    if found is None:
        bad, several = _write(images, listing, pixels, on_progress or (lambda done, total: None))
        read = len(listing) - len(bad)
        record = {"version": _VERSION, "images": read, "bad": bad, "several": several}
        write_atomically(index, json.dumps(record, indent=1).encode())
        found = _opened(images, index)
        assert found is not None, "a cache that was just written opens"
    return found


def cache_folder(root: Path, folder: Path | None = None) -> Path:
    """The folder for caches, made where it is missing.

    Args:
        root: The folder of the data set.
        folder: Where the user wants it; this, or a refusal.
    """
    own = root / ".fcfg-cache"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fcfg"
    for candidate in [own, home] if folder is None else [folder]:
        try:
            candidate.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=candidate):
                return candidate
        except OSError:
            continue
    raise InputError(
        "data, cache",
        expected="a folder that can be written",
        got=f"'{folder or home}'",
        do="give another folder as 'cache'",
    )


def _key(listing: Listing, pixels: Pixels) -> str:
    @remembered
    def stamp(path: Path) -> tuple[str, int, int]:
        try:
            state = path.stat()
        except OSError:  # found again, by name, when it is read
            return os.path.relpath(path, listing.root), -1, -1
        return os.path.relpath(path, listing.root), state.st_size, state.st_mtime_ns

    digest = hashlib.blake2b(digest_size=10)
    digest.update(json.dumps([_VERSION, asdict(pixels)]).encode())
    for name, source in zip(listing.names, listing.sources, strict=True):
        digest.update(repr((name, stamp(source.path), source.member, source.box)).encode())
    return digest.hexdigest()


def _opened(images: Path, index: Path) -> Cached | None:
    try:
        record: dict[str, Any] = json.loads(index.read_bytes())
        if not record["images"]:  # nothing can be mapped where nothing could be read
            return Cached(np.zeros((0, 1, 1, 1), np.uint8), record["bad"])
        array = np.load(images, mmap_mode="r")
    except (OSError, ValueError, KeyError, EOFError):
        return None
    whole = len(array) == record["images"] and record["version"] == _VERSION
    return Cached(array, record["bad"], tuple(record["several"])) if whole else None


def _write(
    path: Path, listing: Listing, pixels: Pixels, on_progress: Callable[[int, int], None]
) -> tuple[dict[str, str], list[str]]:
    """Write all images, and return those that could not be read and those with several frames."""
    bad: dict[str, str] = {}
    several: list[str] = []

    def write(file: BinaryIO) -> None:
        start = _write_header(file, len(listing), pixels)
        on_progress(0, len(listing))
        results = read_all(listing.sources, pixels)
        for done, (name, result) in enumerate(zip(listing.names, results, strict=True), start=1):
            if isinstance(result, str):
                bad[name] = result
            else:
                file.write(result.pixels.tobytes())
                several.extend([name] if result.several else [])
            on_progress(done, len(listing))
        if bad:
            file.seek(0)
            end = _write_header(file, len(listing) - len(bad), pixels)
            assert end == start, "NumPy leaves room for any number of images in its header"

    with warnings.catch_warnings():  # Pillow warns of what is refused or harmless here
        warnings.simplefilter("ignore")
        write_atomically(path, write)
    return bad, several


def _write_header(file: BinaryIO, count: int, pixels: Pixels) -> int:
    shape = (count, pixels.channels, pixels.size, pixels.size)
    npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return file.tell()
