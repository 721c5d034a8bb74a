"""Features of the images of a run, and the distances that are computed from them.

Each block of images has an entry under every question, which is a pair of intervention and
guidance; factual images have an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.answers import Block, Store
from fcfg.evaluation.minimality import minimality_entry
from fcfg.evaluation.result_files import Result
from fcfg.evaluation.result_schema import JSON
from fcfg.metrics import frechet_distance
from fcfg.support.errors import InputError
from fcfg.support.files import remove_files

#: Name of the Fréchet distance over the features of each network.
_DISTANCES = {"judge": "FD-judge", "inception": "FID"}
_ROWS = "rows"  # numbers of the images of a block


class FeatureFiles:
    """The entries of one shard, which can read those of all shards."""

    def __init__(self, folder: Path, shard: int) -> None:
        self.store, self.shard = Store(folder / "features"), shard

    def write(
        self,
        question: Sequence[str],
        block: Block,
        features: Mapping[str, Float[np.ndarray, "image feature"]],
    ) -> None:
        """Keep the features of a block of images under one question, by network."""
        tensors = {name: torch.from_numpy(values) for name, values in features.items()}
        tensors[_ROWS] = torch.tensor(block.rows)
        self.store.put(tensors, *question, self.shard, block.number)

    def is_broken(self, question: Sequence[str], block: Block) -> bool:
        """Return whether there is a file that does not hold the features of these images."""
        key = (*question, self.shard, block.number)
        if not self.store.path(*key).exists():
            return False
        entry = self._whole(*key)
        return entry is None or entry[_ROWS].tolist() != block.rows

    def read(
        self, question: Sequence[str], images: int, shards: int
    ) -> dict[str, Float[np.ndarray, "image feature"]]:
        """Return the features of all images, by network; empty if some have none."""
        blocks: list[dict[str, Tensor]] = []
        for shard in range(shards):
            for number in count():
                path = self.store.path(*question, shard, number)
                if not path.exists():
                    break
                entry = self._whole(*question, shard, number)
                if entry is None or (blocks and _widths(entry) != _widths(blocks[0])):
                    raise InputError(
                        f"features {path}",
                        expected="features of a block of images, like the others",
                        got="a part of it, or something else",
                        do="remove it, to go without the Fréchet distances of its question; the "
                        "command of the shard that wrote it computes it again",
                    )
                blocks.append(entry)
        order = torch.cat([block[_ROWS] for block in blocks]) if blocks else torch.tensor([])
        if order.sort().values.tolist() != list(range(images)):
            return {}
        rows = order.argsort()
        joined = {
            name: torch.cat([block[name] for block in blocks]) for name in _widths(blocks[0])
        }
        return {name: values[rows].numpy() for name, values in joined.items()}

    def remove(self) -> None:
        """Remove all features of a run, and their folder if it is empty then."""
        folder, name = self.store.folder, re.compile(r"[0-9a-f]{32}\.safetensors")
        remove_files(path for path in folder.glob("??/*") if name.fullmatch(path.name))
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def _whole(self, *key: str | int) -> dict[str, Tensor] | None:
        """Return an entry; None if it holds something else."""
        entry = self.store.get(*key) or {}
        is_whole = len(entry) > 1 and all(
            name == _ROWS or (name in _DISTANCES and v.ndim == 2 and v.is_floating_point())
            for name, v in entry.items()
        )
        counts = {len(values) for values in entry.values()} if is_whole else set[int]()
        return entry if _ROWS in entry and len(counts) == 1 else None


def _widths(entry: Mapping[str, Tensor]) -> dict[str, int]:
    return {name: values.shape[1] for name, values in entry.items() if name != _ROWS}


def missing_entries(result: Result, files: FeatureFiles) -> list[JSON]:
    """Return minimality and Fréchet distances of every question that are not in the result yet.

    A single image has none; nor has a question without the features of all images, such as those
    of a shard that was copied without them.
    """
    images, shards = result.header["images"], result.header["shard"][1]
    present = {(entry["do"], entry["guidance"], entry["metric"]) for entry in result.distances}
    real = files.read((), len(images), shards)
    entries: list[JSON] = []
    distances: list[JSON] = []
    for do, guidance in result.header["questions"] if len(images) > 1 else ():
        features = files.read((do, guidance), len(images), shards) if do else {}
        for network in sorted(real.keys() & features.keys()):
            pair, metric = (real[network], features[network]), _DISTANCES[network]
            if network == "judge" and (do, guidance) not in result.minimality:
                entries.append(minimality_entry(result, (do, guidance), *pair))
            if (do, guidance, metric) not in present:
                distances.append(
                    {
                        "kind": "distance",
                        "do": do,
                        "guidance": guidance,
                        "metric": metric,
                        "value": frechet_distance(*pair),
                        "n": len(images),
                        "reference": "the factual images of the run",
                    }
                )
    return entries + distances
