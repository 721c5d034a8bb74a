"""Fréchet distances of a whole run, from features that are kept beside its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes

from fcfg.evaluation.result_files import JSON, Result
from fcfg.metrics import frechet_distance
from fcfg.support.errors import InputError
from fcfg.support.files import remove_files, write_atomically
from fcfg.support.hashing import hex_digest

FEATURES = "features"
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.safetensors$")
#: What a distance over the features of each network is called.
NAMES = {"judge": "FD-judge", "inception": "FID"}


class FeatureFiles:
    """Features of images, a file for each block of them under each question.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FEATURES

    def write(
        self,
        question: Sequence[str],
        images: Sequence[str],
        features: Mapping[str, Float[np.ndarray, "image feature"]],
    ) -> None:
        """Keep the features of some images under one question.

        Args:
            question: Intervention and guidance; nothing for factual images.
            images: Their names.
            features: For each network, one row an image.
        """
        self.folder.mkdir(exist_ok=True)
        tensors = {name: torch.from_numpy(rows) for name, rows in features.items()}
        write_atomically(self._path(question, images[0]), to_bytes(tensors))

    def read(self, question: Sequence[str]) -> dict[str, Float[np.ndarray, "image feature"]]:
        """The features of all images, for each network; nothing where none were kept.

        Args:
            question: Intervention and guidance; nothing for factual images.
        """
        paths = sorted(self.folder.glob(f"{_digest(question)}-*.safetensors"))
        blocks: list[dict[str, torch.Tensor]] = []
        for path in paths:
            block = _load(path)
            if block is None or (blocks and _widths(block) != _widths(blocks[0])):
                raise InputError(
                    f"features {path}",
                    expected="what 'fcfg evaluate' kept of a block of images, like the others",
                    got="a part of it, or something else",
                    do="remove it, to go without the Fréchet distances of its question; the "
                    "command of the shard that wrote it computes it again",
                )
            blocks.append(block)
        names = blocks[0] if blocks else ()
        return {name: torch.cat([block[name] for block in blocks]).numpy() for name in names}

    def remove(self) -> None:
        """Remove all features of a run, and its folder where nothing else lies in it."""
        remove_files(
            path for path in self.folder.glob("*-*.safetensors") if _NAME.match(path.name)
        )

    def is_broken(self, question: Sequence[str], images: Sequence[str]) -> bool:
        """Whether there is a file, but not what was kept of these images.

        Args:
            question: Intervention and guidance; nothing for factual images.
            images: Their names.
        """
        path = self._path(question, images[0])
        block = _load(path) if path.exists() else {}
        return block is None or any(len(rows) != len(images) for rows in block.values())

    def _path(self, question: Sequence[str], first: str) -> Path:
        return self.folder / f"{_digest(question)}-{_digest((first,))}.safetensors"


def _load(path: Path) -> dict[str, Float[torch.Tensor, "image feature"]] | None:
    """The features in a file; None where it is no such file."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError):
        return None
    is_whole = tensors and all(
        name in NAMES and rows.ndim == 2 and rows.is_floating_point() and len(rows)
        for name, rows in tensors.items()
    )
    return tensors if is_whole else None


def _widths(block: Mapping[str, torch.Tensor]) -> dict[str, int]:
    return {name: rows.shape[1] for name, rows in block.items()}


def _digest(words: Sequence[str]) -> str:
    return hex_digest("\n".join(words), size=8)


def missing_distances(result: Result) -> list[JSON]:
    """Distances of every question's images to the factual ones, those that are not there yet.

    One image alone has none; nor has a question whose features are not all in the folder, such as
    those of a shard that came without them.

    Args:
        result: A whole run, in its folder.
    """
    assert result.folder is not None
    files, count = FeatureFiles(result.folder), len(result.header["images"])
    there = {(entry["do"], entry["guidance"], entry["metric"]) for entry in result.distances}
    real = files.read(())
    entries: list[JSON] = []
    for do, guidance in result.header["questions"] if count > 1 else ():
        for network, features in files.read((do, guidance)).items() if do else ():
            metric, reference = NAMES[network], real.get(network, features[:0])
            whole = len(features) == len(reference) == count
            if whole and (do, guidance, metric) not in there:
                entries.append(
                    {
                        "kind": "distance",
                        "do": do,
                        "guidance": guidance,
                        "metric": metric,
                        "value": frechet_distance(features, reference),
                        "n": count,
                        "reference": "the factual images of the run",
                    }
                )
    return entries
