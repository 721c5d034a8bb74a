"""The folder of a run: result files of its shards, features, and what is computed from them."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes

from fcfg.evaluation.minimality import minimality_entry
from fcfg.evaluation.pictures import INDEX, remove_pictures
from fcfg.evaluation.result_files import (
    Result,
    ResultFile,
    check_same_experiment,
    check_same_run,
    read_lines,
    read_results,
)
from fcfg.evaluation.result_schema import JSON
from fcfg.metrics import frechet_distance
from fcfg.support.errors import InputError
from fcfg.support.files import remove_files, single_writer, write_atomically
from fcfg.support.hashing import hex_digest
from fcfg.support.outputs import make_folder

#: Name of the Fréchet distance over the features of each network.
_DISTANCES = {"judge": "FD-judge", "inception": "FID"}


class RunFolder:
    """The files of a run, as one shard sees them.

    Args:
        path: Path of the folder.
        shard: Number of the shard, and how many there are.
    """

    def __init__(self, path: Path, shard: tuple[int, int] = (0, 1)) -> None:
        self.path, self.shard = path, shard
        self.features = FeatureFiles(path)

    @property
    def _result_files(self) -> list[Path]:
        return sorted(self.path.glob("results-*-of-*.jsonl"))

    @property
    def _headers(self) -> list[JSON]:
        firsts = (next(read_lines(path, unfinished=True), None) for path in self._result_files)
        return [first[1] for first in firsts if first is not None]

    def is_finished(self, header: JSON) -> bool:
        """Return whether all rows are there; refuse the folder of another run."""
        self._check_pictures()
        if not self._headers:
            return False  # empty, or killed before the first line was complete
        result = read_results(self.path, unfinished=True)
        check_same_run(self.path, header, result.header)
        return not result.missing

    def discard(self, header: JSON) -> None:
        """Remove a run of the same experiment and model, and no other files."""
        for other in self._headers:
            check_same_experiment(self.path, header, other)
        for path in self._result_files:
            path.unlink()
        self.features.remove()
        remove_pictures(self.path)

    @contextmanager
    def writing(self, header: JSON) -> Generator[tuple[ResultFile, list[JSON]]]:
        """Lock this shard; give its result file and all lines of it, the header first."""
        number, count = self.shard
        name = f"results-{number}-of-{count}"
        make_folder(self.path)
        with single_writer(self.path, f".{name}.lock"):
            self._check_pictures()
            self._check_shards()
            file = ResultFile(self.path / f"{name}.jsonl")
            lines = file.begin(header)
            read_results(self.path, unfinished=True)  # refuses shards of another run
            yield file, lines

    def completed(self, file: ResultFile) -> Result:
        """Read the run; if all rows are there, add what features give and is missing."""
        with single_writer(self.path, ".distances.lock", wait=True):
            result = read_results(self.path, unfinished=True)
            entries = [] if result.missing else missing_entries(result, self.features)
            if entries:
                file.append(entries)
                result = read_results(self.path, unfinished=True)
        return result

    def _check_pictures(self) -> None:
        """Refuse to replace an index of pictures that no evaluation wrote."""
        if (self.path / INDEX).exists() and not self._result_files:
            raise InputError(
                f"out {self.path}",
                expected="the folder of an evaluation, or a new one",
                got=f"'{INDEX}' and no result file",
                do="choose another --out, or move it",
            )

    def _check_shards(self) -> None:
        """Refuse to resume with another number of shards, which would answer images twice."""
        count = self.shard[1]
        names = [path.name for path in self._result_files]
        other = next((name for name in names if not name.endswith(f"-of-{count}.jsonl")), None)
        if other is not None:
            raise InputError(
                f"results {self.path}",
                expected="one number of shards",
                got=f"{other} beside {count} of them",
                do="resume with the number it began with, or choose another --out",
            )


class FeatureFiles:
    """Features of images, one file for each block of images under each question.

    A question is an intervention and a guidance; factual images have an empty one.

    Args:
        folder: Folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "features"

    def write(
        self,
        question: Sequence[str],
        images: Sequence[str],
        features: Mapping[str, Float[np.ndarray, "image feature"]],
    ) -> None:
        """Keep the features of a block of images under one question."""
        self.folder.mkdir(exist_ok=True)
        tensors = {name: torch.from_numpy(rows) for name, rows in features.items()}
        write_atomically(self._path(question, images[0]), to_bytes(tensors))

    def read(
        self, question: Sequence[str], images: Sequence[str], shards: int
    ) -> dict[str, Float[np.ndarray, "image feature"]]:
        """Return the features of all images of a run, by network; empty if some have none.

        Args:
            question: Intervention and guidance; empty for factual images.
            images: Names of the images of the run, in its order.
            shards: Number of shards; a block has every so many-th image.
        """
        blocks: list[dict[str, torch.Tensor]] = []
        first, order = {_digest((name,)): row for row, name in enumerate(images)}, list[int]()
        for path in sorted(self.folder.glob(f"{_digest(question)}-*.safetensors")):
            block = _load(path)
            if block is None or (blocks and _widths(block) != _widths(blocks[0])):
                raise InputError(
                    f"features {path}",
                    expected="features of a block of images, like the others",
                    got="a part of it, or something else",
                    do="remove it, to go without the Fréchet distances of its question; the "
                    "command of the shard that wrote it computes it again",
                )
            blocks.append(block)
            start, count = first.get(path.stem.split("-")[1], -1), len(next(iter(block.values())))
            order += range(start, start + shards * count, shards)
        if sorted(order) != list(range(len(images))):
            return {}
        rows = torch.tensor(order).argsort()
        return {name: torch.cat([b[name] for b in blocks])[rows].numpy() for name in blocks[0]}

    def remove(self) -> None:
        """Remove all features of a run, and their folder if it is empty then."""
        name = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.safetensors$")
        remove_files(path for path in self.folder.glob("*-*") if name.match(path.name))

    def is_broken(self, question: Sequence[str], images: Sequence[str]) -> bool:
        """Return whether there is a file that does not hold the features of these images."""
        path = self._path(question, images[0])
        block = _load(path) if path.exists() else {}
        return block is None or any(len(rows) != len(images) for rows in block.values())

    def _path(self, question: Sequence[str], first: str) -> Path:
        return self.folder / f"{_digest(question)}-{_digest((first,))}.safetensors"


def _load(path: Path) -> dict[str, Float[torch.Tensor, "image feature"]] | None:
    """Return the features in a file; None if it holds something else."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError):
        return None
    is_whole = tensors and all(
        name in _DISTANCES and rows.ndim == 2 and rows.is_floating_point() and len(rows)
        for name, rows in tensors.items()
    )
    return tensors if is_whole else None


def _widths(block: Mapping[str, torch.Tensor]) -> dict[str, int]:
    return {name: rows.shape[1] for name, rows in block.items()}


def _digest(words: Sequence[str]) -> str:
    return hex_digest("\n".join(words), size=8)


def missing_entries(result: Result, files: FeatureFiles) -> list[JSON]:
    """Return minimality and Fréchet distances of every question that are not in the result yet.

    A single image has none; nor has a question without the features of all images, such as those
    of a shard that was copied without them.

    Args:
        result: A whole run.
        files: Features of its images.
    """
    images, shards = result.header["images"], result.header["shard"][1]
    present = {(entry["do"], entry["guidance"], entry["metric"]) for entry in result.distances}
    real = files.read((), images, shards)
    entries: list[JSON] = []
    distances: list[JSON] = []
    for do, guidance in result.header["questions"] if len(images) > 1 else ():
        features = files.read((do, guidance), images, shards) if do else {}
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
