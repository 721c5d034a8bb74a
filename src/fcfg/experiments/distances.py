"""Fréchet distances of a whole run, from features that are kept beside its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes

from fcfg.experiments.record import JSON
from fcfg.files import write_atomically
from fcfg.metrics import frechet_distance

_FOLDER = "features"
#: What a distance over the features of each network is called.
NAMES = {"judge": "FD-judge", "inception": "FID"}


class FeatureFiles:
    """Features of images, a file for each block of them under each question.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / _FOLDER

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
        """The features of all images, in an order that is the same for every question.

        Args:
            question: Intervention and guidance; nothing for factual images.
        """
        paths = sorted(self.folder.glob(f"{_digest(question)}-*.safetensors"))
        blocks = [load_file(path) for path in paths]
        return {name: torch.cat([block[name] for block in blocks]).numpy() for name in blocks[0]}

    def _path(self, question: Sequence[str], first: str) -> Path:
        return self.folder / f"{_digest(question)}-{_digest((first,))}.safetensors"


def _digest(words: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(words).encode(), digest_size=8).hexdigest()


def distances(files: FeatureFiles, questions: Sequence[Sequence[str]]) -> list[JSON]:
    """Entries with the distance of every question's images to the factual ones.

    Args:
        files: Where the features are.
        questions: Intervention and guidance of each.
    """
    real = files.read(())
    entries: list[JSON] = []
    for do, guidance in questions:
        for network, features in files.read((do, guidance)).items():
            entries.append(
                {
                    "kind": "distance",
                    "do": do,
                    "guidance": guidance,
                    "metric": NAMES[network],
                    "value": frechet_distance(features, real[network]),
                    "n": len(features),
                    "reference": "the factual images of the run",
                }
            )
    return entries
