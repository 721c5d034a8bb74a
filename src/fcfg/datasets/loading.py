"""From a listing to splits: the one way every data set on disk takes."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.cache import Cached, cached_images
from fcfg.datasets.columns import read_table
from fcfg.datasets.examples import SPLITS, Examples, OnProgress, Splits
from fcfg.datasets.listing import Listing, listed
from fcfg.datasets.pixels import Pixels
from fcfg.support.errors import InputError


def load_listing(
    listing: Listing,
    space: AttributeSpace,
    pixels: Pixels,
    *,
    cache: Path | None = None,
    skip_bad: bool = False,
    on_progress: OnProgress | None = None,
) -> Splits:
    """Make splits of a listing, with images mapped from one cached file.

    Labels are read first: what is wrong with them is refused before any image is opened.

    Args:
        listing: What a loader gave.
        space: The attributes; columns of others are left aside.
        pixels: The shape of the images.
        cache: Where the cached file lies; see :mod:`fcfg.datasets.cache`.
        skip_bad: Leave images out that cannot be read, with a warning, instead of refusing all.
        on_progress: Called with 'reading images', how many are read, of how many.
    """
    listing = listing.by_split()
    table = read_table(space, listing.columns, listing.names, f"the labels of {listing.root}")
    progress = _named("reading images", on_progress)
    cached = cached_images(listing, pixels, cache, progress)
    if cached.bad:
        _bad(listing, cached, skip_bad=skip_bad)
        rows = [row for row, name in enumerate(listing.names) if name not in cached.bad]
        listing = listing.take(rows)
        table = {name: column[rows] for name, column in table.items()}
    if cached.several:
        warnings.warn(
            f"{len(cached.several)} of {len(listing)} images in {listing.root} are the first of "
            f"several frames: {listed(cached.several)}",
            stacklevel=3,  # whoever called load_data
        )
    splits: Splits = {}
    start, counts = 0, Counter(listing.splits)
    for split in SPLITS:
        rows = slice(start, start := start + counts[split])
        if counts[split]:
            columns = {name: column[rows] for name, column in table.items()}
            splits[split] = Examples(cached.images[rows], columns, listing.names[rows])
    return splits


def _named(what: str, on_progress: OnProgress | None) -> Callable[[int, int], None] | None:
    return None if on_progress is None else lambda done, total: on_progress(what, done, total)


def _bad(listing: Listing, cached: Cached, *, skip_bad: bool) -> None:
    names = list(cached.bad)
    first = f"{listed(names)} (the first: {cached.bad[names[0]]})"
    if not skip_bad or len(names) == len(listing):
        raise InputError(
            f"images in {listing.root}",
            expected=f"{len(listing)} images that can be read",
            got=f"{len(names)} that cannot: {first}",
            do="repair or remove them, or leave them out with --skip-bad (skip_bad=True)",
        )
    warnings.warn(
        f"{len(names)} of {len(listing)} images in {listing.root} cannot be read and are left "
        f"out: {first}",
        stacklevel=4,  # whoever called load_data
    )
