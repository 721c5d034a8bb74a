"""Readings of counterfactuals under several weights, measured once and kept on disk.

A cell is a block of images under one intervention and one weight. A calibration that was
interrupted, or one with further weights or images, measures only those that are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.answers import Answer, AnswerLoop, Block, Question, Store
from fcfg.causal.attributes import AttributeSpace, Column, Table
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge, Reading, judged
from fcfg.metrics import image_errors, image_mae
from fcfg.pipeline.calibration import with_weights
from fcfg.sampling import SamplingConfig
from fcfg.support.hashing import digest_of
from fcfg.support.progress import OnProgress
from fcfg.version import __version__


@dataclass(frozen=True, eq=False)
class Cell:
    """What was measured on counterfactuals."""

    readings: Float[np.ndarray, "image attribute"]  #: of the counterfactual values
    errors: Float[np.ndarray, "image 3"]
    """In drawn worlds: mean absolute error, error on changed pixels, change of these pixels;
    otherwise NaN."""
    distances: Float[np.ndarray, "image"]  #: mean absolute distance from the factual image
    rows: Float[np.ndarray, "image"]  #: of the network


@dataclass(frozen=True, eq=False)
class Measurement:
    """The counterfactuals to measure: one intervention on each attribute."""

    asking: AnswerLoop  #: of the model and the images, without questions
    judge: AttributeJudge
    guidance: Guidance
    sampling: SamplingConfig
    targets: Mapping[str, Column]  #: value of each attribute under the intervention on it
    truth: Mapping[str, Tensor]  #: true counterfactuals under each intervention, if known
    seed: int
    store: Store | None  #: of finished cells

    def cells(
        self, weights: Mapping[str, Sequence[float]], on_progress: OnProgress
    ) -> dict[str, dict[float, Cell]]:
        """Return the cells of all images, by attribute and weight."""
        # An anchor serves all interventions under one guidance.
        order = sorted((w, i, name) for i, name in enumerate(self.targets) for w in weights[name])
        asked = [self._question(name, weight) for weight, _, name in order]
        parts: dict[Question, list[Cell]] = {question: [] for question in asked}
        model = self.asking.model
        about = digest_of(model.image_model, model.scm), digest_of(self.judge)
        for block in replace(self.asking, questions=asked, on_progress=on_progress):
            keys = {q: [*about, *self._key(q, block)] for q in asked}
            known = {q: self._kept(key) for q, key in keys.items()}
            for answer in block.answers(q for q in asked if known[q] is None):
                cell = known[answer.question] = self._measured(answer, block)
                if self.store is not None:
                    values = {name: torch.from_numpy(own) for name, own in vars(cell).items()}
                    self.store.put(values, *keys[answer.question])
            for question, cell in known.items():
                parts[question] += [] if cell is None else [cell]
        found: dict[str, dict[float, Cell]] = {name: {} for name in self.targets}
        for question, own in parts.items():
            name, weight = question.key
            columns = zip(*(vars(cell).values() for cell in own), strict=True)
            found[name][weight] = Cell(*map(np.concatenate, columns))
        return found

    def _question(self, name: str, weight: float) -> Question:
        guidance = with_weights(self.guidance, {name: weight})
        asking, do = self.asking, {name: self.targets[name]}
        plan = asking.model.plan([name], guidance, sampling=self.sampling)
        act = partial(asking.model.act, asking.attributes, do, seed=self.seed, keys=asking.keys)
        return Question(f"do({name}) under {guidance}", plan, act, key=(name, weight))

    def _key(self, question: Question, block: Block) -> list[Any]:
        """Return everything that a cell depends on, beside the networks."""
        name, _ = question.key
        factual = {key: column.tolist() for key, column in block.attributes.items()}
        setting, wanted = repr(question.plan.setting), self.targets[name][block.rows].tolist()
        asked = [name, wanted, setting, str(self.sampling)]
        return [*asked, list(block.keys), factual, self.seed, name in self.truth, __version__]

    def _kept(self, key: Sequence[Any]) -> Cell | None:
        entry = None if self.store is None else self.store.get(*key)
        if entry is None or {field.name for field in fields(Cell)} - entry.keys():
            return None
        return Cell(**{name: own.numpy() for name, own in entry.items()})

    def _measured(self, answer: Answer, block: Block) -> Cell:
        images, factual = answer.pair.images.float(), block.images.float()
        space = self.asking.model.space
        name, _ = answer.question.key
        errors = np.full((len(images), 3), np.nan)
        if name in self.truth:
            found = image_errors(images, self.truth[name][block.rows], factual)
            errors = np.stack([found.mae, found.missed, found.changed], axis=1)
        values = space.parse(answer.pair.attributes)
        readings = readings_of(space, self.judge.read(images), values)
        rows = np.array(answer.pair.spent, dtype=np.float64)
        return Cell(readings, errors, image_mae(images, factual), rows)


def readings_of(
    space: AttributeSpace, reading: Reading, values: Table
) -> Float[np.ndarray, "image attribute"]:
    """Return how clearly the judge reads given values, see :func:`fcfg.judge.judged`."""
    columns = [judged(a, reading.scores[a.name], values[a.name]) for a in space]
    return np.stack(columns, axis=1)
