"""Readings of counterfactuals under several weights, measured once and kept on disk.

A cell is a block of images under one intervention and one weight. Each has a file, named by a
digest of everything that it depends on. A calibration that was interrupted, or one with further
weights or images, measures only what is missing. The folder can be deleted at any time.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from torch import Tensor

from fcfg.calibration.criterion import judged
from fcfg.causal.attributes import AttributeSpace, Column, Table
from fcfg.causal.scm import Keys
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge, Reading
from fcfg.metrics import image_errors
from fcfg.pipeline.calibration import with_weights
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.records import Abduction
from fcfg.sampling import SamplingConfig
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically
from fcfg.support.hashing import digest_of, hex_digest
from fcfg.support.progress import OnProgress, Progress
from fcfg.version import __version__

_BLOCK = 128  # images that are abducted together, which bounds the memory of their paths


@dataclass(frozen=True, eq=False)
class Cell:
    """What was measured on counterfactuals."""

    readings: Float[np.ndarray, "image attribute"]  #: of the counterfactual values
    errors: Float[np.ndarray, "image 3"]
    """In drawn worlds: mean absolute error, error on changed pixels, change of these pixels;
    otherwise NaN."""


@dataclass(frozen=True, eq=False)
class Request:
    """The counterfactuals to measure."""

    pipeline: CounterfactualPipeline
    judge: AttributeJudge
    guidance: Guidance
    sampling: SamplingConfig
    weights: Mapping[str, Sequence[float]]  #: of each attribute
    images: Float[Tensor, "image channel height width"]
    attributes: Table  #: factual
    keys: Keys  #: name of each image
    targets: Mapping[str, Column]  #: value of each attribute under the intervention on it
    truth: Mapping[str, Tensor]  #: true counterfactuals under each intervention, if known
    seed: int
    batch_size: int

    def measure(
        self, cache: Path | None, on_progress: OnProgress | None
    ) -> dict[str, dict[float, Cell]]:
        """Return the cells of all images, by attribute and weight.

        Args:
            cache: Folder that keeps finished cells, or None.
            on_progress: Callback invoked with the share that is done.
        """
        firsts = range(0, len(self.images), _BLOCK)
        # An anchor serves all interventions under one guidance.
        asked = sorted((w, i, n) for i, n in enumerate(self.targets) for w in self.weights[n])
        progress = Progress(len(firsts) * (1 + len(asked)), on_progress)
        model = [digest_of(self.pipeline.denoiser, self.pipeline.scm), digest_of(self.judge)]
        cells: dict[str, dict[float, list[Cell]]] = {
            name: {weight: [] for weight in self.weights[name]} for name in self.targets
        }
        for first in firsts:
            rows = slice(first, first + _BLOCK)
            abduction: Abduction | None = None
            for weight, _, name in asked:
                path = None if cache is None else cache / self._file(model, name, weight, rows)
                cell = None if path is None else _read(path, self._shape(rows))
                if cell is None:
                    if abduction is None:
                        abduction = self._abduct(rows, progress)
                        progress.advance(1)
                    cell, abduction = self._measure(abduction, name, weight, rows, progress)
                    if path is not None:
                        path.parent.mkdir(parents=True, exist_ok=True)
                        write_atomically(path, _to_bytes(cell))
                cells[name][weight].append(cell)
                progress.advance(1)
            progress.advance(abduction is None)
        return {n: {w: _joined(parts) for w, parts in own.items()} for n, own in cells.items()}

    def _shape(self, rows: slice) -> tuple[int, int]:
        return len(self.keys[rows]), len(self.pipeline.space)

    def _file(self, model: list[str], name: str, weight: float, rows: slice) -> str:
        factual = {key: column[rows].tolist() for key, column in self.attributes.items()}
        guidance = repr(with_weights(self.guidance, {name: weight}))
        question = [name, self.targets[name][rows].tolist(), guidance, str(self.sampling)]
        about = [list(self.keys[rows]), factual, self.seed, name in self.truth, __version__]
        digest = hex_digest(json.dumps([*model, *question, *about]))
        return f"{digest[:2]}/{digest}.json"

    def _abduct(self, rows: slice, progress: Progress) -> Abduction:
        return self.pipeline.abduct(
            self.images[rows],
            {name: column[rows] for name, column in self.attributes.items()},
            sampling=self.sampling,
            anchor=self.guidance.needs_path,
            drawn_noise=self.guidance.drawn_noise,
            keys=self.keys[rows],
            batch_size=self.batch_size,
            on_step=progress.phase(1),
        )

    def _measure(
        self, abduction: Abduction, name: str, weight: float, rows: slice, progress: Progress
    ) -> tuple[Cell, Abduction]:
        guidance = with_weights(self.guidance, {name: weight})
        do = {name: self.targets[name][rows]}
        action = self.pipeline.act(abduction.attributes, do, seed=self.seed, keys=abduction.keys)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "counterfactual: NaN")  # refused below
            pair = self.pipeline.predict(
                abduction,
                action,
                guidance,
                batch_size=self.batch_size,
                on_step=progress.phase(1),
            )
        images = pair.images.float()
        if not bool(images.isfinite().all()):
            raise InputError(
                f"do({name}) under {guidance}",
                expected="images of finite numbers",
                got="NaN or infinity",
                do="give smaller weights, or take more steps; what is measured is kept",
            )
        readings = readings_of(
            self.pipeline.space,
            self.judge.read(images),
            self.pipeline.space.parse(pair.attributes),
        )
        errors = np.full((len(images), 3), np.nan)
        if name in self.truth:
            found = image_errors(images, self.truth[name][rows], self.images[rows].float())
            errors = np.stack([found.mae, found.missed, found.changed], axis=1)
        return Cell(readings, errors), pair.abduction


def readings_of(
    space: AttributeSpace, reading: Reading, values: Table
) -> Float[np.ndarray, "image attribute"]:
    """Return how clearly the judge reads given values, see :func:`judged`."""
    columns = [judged(a, reading.scores[a.name], values[a.name]) for a in space]
    return np.stack(columns, axis=1)


def _joined(cells: Sequence[Cell]) -> Cell:
    readings = np.concatenate([cell.readings for cell in cells])
    return Cell(readings, np.concatenate([cell.errors for cell in cells]))


def _to_bytes(cell: Cell) -> bytes:
    values = {"readings": cell.readings.tolist(), "errors": cell.errors.tolist()}
    return json.dumps(values).encode()


def _read(path: Path, shape: tuple[int, int]) -> Cell | None:
    """Return the cell in a file; None if it is missing or something else."""
    try:
        values = json.loads(path.read_bytes())
        readings, errors = (np.array(values[key], dtype=float) for key in ("readings", "errors"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    fits = readings.shape == shape and errors.shape == (shape[0], 3)
    return Cell(readings, errors) if fits else None
