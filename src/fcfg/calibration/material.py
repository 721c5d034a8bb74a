"""What a calibration starts from: images, what is asked of them, and what the judge reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fcfg.answers import AnswerLoop, Store, in_blocks
from fcfg.calibration.choice import RealImages
from fcfg.calibration.criterion import Counts
from fcfg.calibration.measurements import Cell, Measurement, readings_of
from fcfg.causal.attributes import Table
from fcfg.causal.scm import Keys
from fcfg.evaluation.measurements import judge_of
from fcfg.evaluation.subset import draw_targets
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge, judged
from fcfg.metrics import Bootstrap
from fcfg.pipeline.calibration import AttributeWeight, Calibration
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.sampling import SamplingConfig
from fcfg.support.errors import InputError, check_integer
from fcfg.support.hashing import digest_of, hex_digest, stream_seed
from fcfg.support.images import ImagesLike, image_keys
from fcfg.support.progress import OnProgress
from fcfg.support.tables import TableLike

_RESAMPLES = 300
_BLOCK = 128  # images that are abducted together, which bounds the memory of their paths
#: Share of the progress after the first weights, and after each weight beyond their end.
_ROUNDS = (0.85, 0.9, 0.95, 1.0)
_MORE = "give more images"

#: Function from the values of a target, one for each image, to the true counterfactuals.
TrueCounterfactual: TypeAlias = Callable[[Table], Tensor]


@dataclass(frozen=True, eq=False, kw_only=True)
class Material:
    """Images of which the first ones are asked about, under one intervention on each attribute."""

    pipeline: CounterfactualPipeline
    judge: AttributeJudge
    images: Float[Tensor, "image channel *size"]  #: that get counterfactuals
    keys: Keys  #: of all images, these first
    table: Table  #: their factual attributes
    readings: Float[np.ndarray, "real attribute"]  #: of their own values
    wanted: Table  #: value of each attribute under the intervention on it
    true: Mapping[str, Tensor]  #: counterfactuals, if known
    true_readings: Mapping[str, Float[np.ndarray, "image"]]
    seed: int
    batch_size: int
    store: Store | None = field(default=None)  #: of what is measured

    @classmethod
    def of(
        cls,
        pipeline: CounterfactualPipeline,
        images: ImagesLike,
        attributes: TableLike,
        *,
        count: int | None,
        seed: int,
        truth: TrueCounterfactual | None,
        cache: Path | None,
        batch_size: int,
    ) -> Self:
        """Read and check images, and ask for the other values of their attributes."""
        space, judge = pipeline.space, judge_of(pipeline)
        x = pipeline.read_images(images)
        table, keys = space.parse(attributes, len(x)), image_keys(x)
        asked = check_integer("count", len(x) if count is None else count, 2, len(x), do=_MORE)
        drawn = draw_targets(space, table, space.names, keys, seed, "quantiles")
        wanted = {name: column[:asked] for name, column in drawn.items()}
        true = {} if truth is None else {n: truth({n: column}) for n, column in wanted.items()}
        found = cls(
            pipeline=pipeline,
            judge=judge,
            images=x[:asked],
            keys=keys,
            table=table,
            readings=readings_of(space, judge.read(x, batch_size=batch_size), table),
            wanted=wanted,
            true=true,
            true_readings={
                name: judged(space[name], judge.read(drawing).scores[name], wanted[name])
                for name, drawing in true.items()
            },
            seed=seed,
            batch_size=batch_size,
            store=None if cache is None else Store(cache),
        )
        if not found.targets:
            raise InputError(
                "images",
                expected="an attribute of which several images have each of two values",
                got=f"none, with counterfactuals of {asked} of {len(x)} images",
                do=_MORE,
            )
        return found

    @cached_property
    def real(self) -> RealImages:
        """What the judge reads on all images."""
        asked, total = len(self.images), len(self.readings)
        counts = _resamples(asked, total, self.seed)
        space, graph = self.pipeline.space, self.pipeline.graph
        return RealImages(space, graph, self.table, self.readings, counts)

    @cached_property
    def targets(self) -> Table:
        """The values of the attributes of which several images have each of two."""
        own = self.wanted.items()
        return {name: column for name, column in own if self.real.directions(name, column)}

    @cached_property
    def about(self) -> str:
        """Digest of everything that measurements depend on, beside guidance and weights."""
        model, every = self.pipeline, (self.table, self.wanted)
        columns = [{name: column.tolist() for name, column in own.items()} for own in every]
        digests = digest_of(model.image_model, model.scm), digest_of(self.judge)
        known = [*digests, list(self.keys), *columns, sorted(self.true), self.seed]
        return hex_digest(json.dumps(known))

    def some(self, rows: NDArray[np.int64]) -> Material:
        """Return the same with counterfactuals of fewer images; the others count as real ones."""
        rest = np.setdiff1d(np.arange(len(self.readings)), rows)
        every, keys = np.concatenate([rows, rest]), list[Any](self.keys)
        return replace(
            self,
            images=self.images[rows],
            keys=[keys[row] for row in every],
            table={name: column[every] for name, column in self.table.items()},
            readings=self.readings[every],
            wanted={name: column[rows] for name, column in self.wanted.items()},
            true={name: drawing[rows] for name, drawing in self.true.items()},
            true_readings={name: column[rows] for name, column in self.true_readings.items()},
        )

    def measurement(self, rule: Guidance, sampling: SamplingConfig) -> Measurement:
        """Return the counterfactuals to measure under a guidance."""
        asked = len(self.images)
        asking = AnswerLoop(
            self.pipeline,
            self.images,
            {name: column[:asked] for name, column in self.table.items()},
            [],
            blocks=in_blocks(range(asked), _BLOCK),
            keys=self.keys[:asked],
            batch_size=self.batch_size,
            strict=True,
        )
        judge, true = self.judge, self.true
        return Measurement(
            asking, judge, rule, sampling, self.targets, true, self.seed, self.store
        )

    def calibration(
        self,
        measurement: Measurement,
        weights: Sequence[float],
        on_progress: OnProgress,
        *,
        data: Mapping[str, Any] | None = None,
        raises: bool = False,
    ) -> Calibration:
        """Choose the weight of every attribute under a guidance."""

        def choose(name: str, cells: Mapping[float, Cell]) -> AttributeWeight:
            truth = self.true_readings.get(name)
            return self.real.weight(name, self.targets[name], cells, truth, at_least_real=raises)

        return Calibration(
            model=Calibration.digest(self.pipeline.denoiser),
            rule=repr(measurement.guidance),
            sampling=str(measurement.sampling),
            images=len(self.images),
            references=len(self.readings),
            seed=self.seed,
            data=dict(data or {}),
            at_least_real=raises,
            attributes=_search(measurement, weights, choose, on_progress),
        )


def _search(
    measurement: Measurement,
    grid: Sequence[float],
    choose: Callable[[str, Mapping[float, Cell]], AttributeWeight],
    on_progress: OnProgress,
) -> dict[str, AttributeWeight]:
    """Return the weight of every attribute, and measure beyond the end where it lies there."""
    cells: dict[str, dict[float, Cell]] = {name: {} for name in measurement.targets}
    found: dict[str, AttributeWeight] = {}
    wanted: dict[str, Sequence[float]] = dict.fromkeys(cells, grid)
    for start, end in pairwise((0.0, *_ROUNDS)):

        def report_round(share: float, low: float = start, high: float = end) -> None:
            on_progress(low + (high - low) * share)

        try:
            measured = measurement.cells(wanted, report_round)
        except InputError:  # a weight beyond the end that the rule does not have, or that breaks
            if not found:
                raise
            break
        for name, own in measured.items():
            if own:
                cells[name] = dict(sorted((cells[name] | own).items()))
                found[name] = choose(name, cells[name])
        wanted = {name: _beyond(own) for name, own in found.items()}
        if not any(wanted.values()):
            break
    on_progress(1.0)
    return found


def _beyond(own: AttributeWeight) -> list[float]:
    """Return the next weight beyond the end where a weight lies, if it does."""
    (first, *_), *_, (last, *_) = own.curve
    if not own.is_at_end:
        return []
    return [1.5 * last] if own.weight > (first + last) / 2 else [first / 2] * (first > 0)


def _resamples(asked: int, total: int, seed: int) -> Counts:
    """Resample the images with counterfactuals, and the others, each among themselves."""
    parts = [
        Bootstrap(n, resamples=_RESAMPLES, seed=stream_seed(seed, "resample", part)).counts
        for part, n in (("asked", asked), ("others", total - asked))
        if n
    ]
    return np.concatenate(parts, axis=1)
