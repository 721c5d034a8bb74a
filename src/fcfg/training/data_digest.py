"""Digests of the data that a run learns from, so that it goes on with no others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import numpy as np

from fcfg.datasets.base import Splits

_ROWS = 4096  # images that are read at a time


def digest_data(splits: Splits, on_progress: Callable[[int, int], None]) -> dict[str, str]:
    """Digests of what training and validation see: which images, their labels, their pixels.

    They depend neither on where the files lie nor on when they were written.

    Args:
        splits: Images as they were loaded.
        on_progress: Callback with the number of images that are done, and of all.
    """
    seen = {split: splits[split] for split in ("train", "val")}
    parts = {part: hashlib.blake2b(digest_size=16) for part in ("split", "labels", "images")}
    done, total = 0, sum(map(len, seen.values()))
    for split, examples in seen.items():
        parts["split"].update(json.dumps([split, examples.names]).encode())
        for name, column in examples.attributes.items():
            parts["labels"].update(json.dumps([split, name, str(column.dtype)]).encode())
            parts["labels"].update(np.ascontiguousarray(column).data)
        parts["images"].update(json.dumps([split, examples.images.shape]).encode())
        for start in range(0, len(examples), _ROWS):
            rows = examples.images[start : start + _ROWS]
            parts["images"].update(np.ascontiguousarray(rows).data)
            done += len(rows)
            on_progress(done, total)
    return {part: digest.hexdigest() for part, digest in parts.items()}
