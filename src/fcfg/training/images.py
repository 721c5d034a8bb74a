"""The images of a run: loaded, and the same ones whenever the run goes on."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from fcfg.datasets.base import OnProgress, Splits
from fcfg.support.config_files import parse_json, read_text
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically
from fcfg.training.config import TrainingConfig
from fcfg.training.loop import Surroundings
from fcfg.training.workspace import Workspace

_CHANGES = {  # by part of the digest
    "split": "other images in its splits, or another order",
    "labels": "other labels",
    "images": "images with other pixels",
}
_ROWS = 4096  # images to hash at a time


def load_images(
    config: TrainingConfig, workspace: Workspace, around: Surroundings, *, skip_bad: bool
) -> Splits:
    """Load the images, and refuse others than those that the run began with."""

    def counted(activity: str, done: int, total: int) -> None:
        around.stop.check(activity)
        around.reporter.progress(activity, done, total)

    data, space = config.data, config.space
    with around.accelerator.main_process_first():  # it fills the cache of images
        splits = data.load(space, skip_bad=skip_bad, on_progress=counted)
    if around.is_main and not data.is_drawn:  # drawn ones follow from the configuration
        _check_digests(workspace, _digests(splits, counted))
    counts = ", ".join(f"{len(examples)} {name}" for name, examples in splits.items())
    reasons = [f"{count} ({reason})" for reason, count in data.excluded(space).items()]
    around.reporter.say(
        f"images: {counts}" + (f"; left out: {', '.join(reasons)}" if reasons else "")
    )
    return splits


def _check_digests(workspace: Workspace, digests: dict[str, str]) -> None:
    """Write the digests of the data, or refuse to resume with different data."""
    path = workspace.folder / "data.json"
    if path.exists() and workspace.is_begun:
        subject, do = f"run {workspace.out}, {path.name}", "delete it, if the data are the same"
        before = parse_json(read_text(path, subject, expected="digests"), subject, do=do)
        for part, change in _CHANGES.items():
            if before.get(part) != digests[part]:
                raise InputError(
                    f"run {workspace.out}",
                    expected="the data it began with",
                    got=change,
                    do="choose another --out, or go back to the old data",
                )
    write_atomically(path, json.dumps(digests, indent=1).encode())


def _digests(splits: Splits, on_progress: OnProgress) -> dict[str, str]:
    """Return digests of names, labels and pixels, whatever the place and age of their files."""
    used = {split: splits[split] for split in ("train", "val")}
    parts = {part: hashlib.blake2b(digest_size=16) for part in _CHANGES}
    done, total = 0, sum(map(len, used.values()))
    for split, examples in used.items():
        parts["split"].update(json.dumps([split, examples.names]).encode())
        for name, column in examples.attributes.items():
            parts["labels"].update(json.dumps([split, name, str(column.dtype)]).encode())
            parts["labels"].update(np.ascontiguousarray(column).data)
        parts["images"].update(json.dumps([split, examples.images.shape]).encode())
        for start in range(0, len(examples), _ROWS):
            rows = examples.images[start : start + _ROWS]
            parts["images"].update(np.ascontiguousarray(rows).data)
            done += len(rows)
            on_progress("hashing images", done, total)
    return {part: digest.hexdigest() for part, digest in parts.items()}
