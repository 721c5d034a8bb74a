"""Features of the images of a run, and what is computed from them: minimality and distances.

Each block of images has an entry under every question, which is a pair of intervention and
guidance; factual images have an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.answers import Block, Store
from fcfg.causal.attributes import AttributeSpace, Continuous
from fcfg.evaluation.experiment import targets_of
from fcfg.evaluation.realism import classes_of, realism_entries
from fcfg.evaluation.result_files import Result
from fcfg.evaluation.result_schema import JSON
from fcfg.metrics import fifths, frechet_distance, minimality
from fcfg.support.errors import InputError
from fcfg.support.files import remove_files

#: Name of the Fréchet distance over the features of each network.
_DISTANCES = {"judge": "FD-judge", "inception": "FID"}
_ROWS = "rows"  # numbers of the images of a block
_REAL = "real"  # beginning of the key of held-out images


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

    def write_real(
        self, do: str, name: str, features: Mapping[str, Float[np.ndarray, "image feature"]]
    ) -> None:
        """Keep the features of held-out images of a class, for an intervention."""
        tensors = {network: torch.from_numpy(values) for network, values in features.items()}
        count = min(map(len, features.values()))
        self.store.put(tensors | {_ROWS: torch.arange(count)}, _REAL, do, name, 0, 0)

    def has_real(self, do: str, name: str) -> bool:
        """Return whether there are features of held-out images of a class."""
        return self.store.path(_REAL, do, name, 0, 0).exists()

    def is_broken(self, question: Sequence[str], block: Block) -> bool:
        """Return whether there is a file that does not hold the features of these images."""
        key = (*question, self.shard, block.number)
        return self.store.path(*key).exists() and self._entry(*key)[0] != block.rows

    def read(
        self, question: Sequence[str], images: int | None, shards: int
    ) -> dict[str, Float[np.ndarray, "image feature"]]:
        """Return the features of all images, by network; empty if some have none.

        Without a number of images, those that are there are all.
        """
        order: list[int] = []
        blocks: list[dict[str, Tensor]] = []
        for shard in range(shards):
            for number in count():
                path = self.store.path(*question, shard, number)
                if not path.exists():
                    break
                rows, features = self._entry(*question, shard, number)
                if not features or (blocks and _widths(features) != _widths(blocks[0])):
                    raise InputError(
                        f"features {path}",
                        expected="features of a block of images, like the others",
                        got="a part of it, or something else",
                        do="remove it, to go without the Fréchet distances of its question; the "
                        "command of the shard that wrote it computes it again",
                    )
                order += rows
                blocks.append(features)
        if not order or sorted(order) != list(range(len(order) if images is None else images)):
            return {}
        joined = {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}
        return {name: values[np.argsort(order)].numpy() for name, values in joined.items()}

    def remove(self) -> None:
        """Remove all features of a run, and their folder if it is empty then."""
        folder, name = self.store.folder, re.compile(r"[0-9a-f]{32}\.safetensors")
        remove_files(path for path in folder.glob("??/*") if name.fullmatch(path.name))
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def _entry(self, *key: str | int) -> tuple[list[int], dict[str, Tensor]]:
        """Return the rows and features of a block; none if it is broken, or something else."""
        features = self.store.get(*key) or {}
        rows = features.pop(_ROWS, torch.tensor([]))
        is_whole = all(
            name in _DISTANCES and v.ndim == 2 and v.is_floating_point() and len(v) == len(rows)
            for name, v in features.items()
        )
        return (rows.tolist(), features) if is_whole else ([], {})


def _widths(features: Mapping[str, Tensor]) -> dict[str, int]:
    return {name: values.shape[1] for name, values in features.items()}


def missing_entries(result: Result, files: FeatureFiles) -> list[JSON]:
    """Return minimality and Fréchet distances of every question that are not in the result yet.

    A single image has none; nor has a question without the features of all images, such as those
    of a shard that was copied without them.
    """
    images, shards = result.header["images"], result.header["shard"][1]
    real = files.read((), len(images), shards)
    entries: list[JSON] = []
    answers: dict[str, dict[str, Any]] = {}
    for do, guidance in result.header["questions"] if len(images) > 1 else ():
        features = files.read((do, guidance), len(images), shards) if do else {}
        answers.setdefault(do, {})[guidance] = features
        about = {"do": do, "guidance": guidance}
        for network in sorted(real.keys() & features.keys()):
            pair, metric = (real[network], features[network]), _DISTANCES[network]
            if network == "judge" and (do, guidance) not in result.minimality:
                values = _minimality(result, do, guidance, *pair)
                entries.append({"kind": "minimality", **about, "values": values})
            if (do, guidance, metric) not in result.distances:
                value = {"metric": metric, "value": frechet_distance(*pair), "n": len(images)}
                reference = "the factual images of the run"
                entries.append({"kind": "distance", **about, **value, "reference": reference})
    for do, own in answers.items():
        known = {name: files.read((_REAL, do, name), None, 1) for name in classes_of(result, do)}
        entries += realism_entries(result, do, real, own, known)
    return entries


def _minimality(
    result: Result,
    do: str,
    guidance: str,
    factual: Float[np.ndarray, "image feature"],
    counterfactual: Float[np.ndarray, "image feature"],
) -> list[float | None]:
    images, attributes = (result.header[key] for key in ("images", "attributes"))
    space = AttributeSpace.from_config(attributes)
    groups: list[Any] = []  # of every target: own, and requested
    for name in targets_of(do):
        before = [result.real[image]["attributes"][name] for image in images]
        wanted = [result.rows[do, guidance, image]["target"][name] for image in images]
        values = np.array([before, wanted])
        is_continuous = isinstance(space[name], Continuous)
        codes = (
            fifths(values, before) if is_continuous else np.unique(values, return_inverse=True)[1]
        )
        groups.append(codes.reshape(values.shape))
    found = minimality(factual, counterfactual, *np.stack(groups, axis=2))
    return [None if np.isnan(value) else float(value) for value in found]
