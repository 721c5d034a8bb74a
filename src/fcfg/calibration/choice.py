"""From readings to the weight of an attribute, by directions and with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from fcfg.calibration.criterion import (
    Counts,
    Side,
    Terms,
    Weights,
    choose_weights,
    criterion,
    interpolated,
    lowest,
    rounded,
)
from fcfg.calibration.measurements import Cell
from fcfg.causal.attributes import AttributeSpace, Categorical, Column, Continuous, Table
from fcfg.causal.graph import CausalGraph
from fcfg.pipeline.calibration import AttributeWeight, Direction, WeightEstimate

_FEW = 8  # a direction with fewer images has no weight of its own
_NEAR = 0.2  # share of the real images that count as having the value of a continuous attribute


@dataclass(frozen=True, eq=False)
class RealImages:
    """Real images as the judge reads them; the first ones have counterfactuals."""

    space: AttributeSpace
    graph: CausalGraph
    attributes: Table = field(repr=False)
    readings: Float[np.ndarray, "image attribute"] = field(repr=False)  #: of their own values
    counts: Counts = field(repr=False)  #: in each bootstrap resample

    def directions(
        self, name: str, values: Column
    ) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return the images of every direction, and the real images that have its value.

        Directions with fewer than two of either are left out.

        Args:
            name: Attribute intervened on.
            values: Value that each of the first images is set to.
        """
        attribute, own = self.space[name], self.attributes[name]
        found: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for value in np.unique(values):
            rows, real = (values == value).nonzero()[0], (own == value).nonzero()[0]
            label = attribute.levels[value] if isinstance(attribute, Categorical) else f"{value:g}"
            if isinstance(attribute, Continuous):
                nearest = np.abs(own - value).argsort(kind="stable")
                real = np.sort(nearest[: int(np.ceil(_NEAR * len(own)))])
            if min(len(rows), len(real)) > 1:
                found[f"to {label}"] = rows, real
        return found

    def weight(
        self,
        name: str,
        values: Column,
        cells: Mapping[float, Cell],
        true_readings: Float[np.ndarray, "image"] | None,
    ) -> AttributeWeight:
        """Choose the weight of an attribute.

        Args:
            name: Attribute intervened on, which has at least one direction.
            values: Value that each of the first images is set to.
            cells: Measurements under every weight.
            true_readings: Readings of the true counterfactuals, if they are known.
        """
        position, weights = self.space.names.index(name), np.array(list(cells))
        read = np.stack([cell.readings[:, position] for cell in cells.values()])
        off_target = self._off_target(name, cells)
        sides: dict[str, Side] = {}
        for label, (rows, real_rows) in self.directions(name, values).items():
            real = self.readings[real_rows, position]
            sd = float(real.std()) or 1.0
            sides[label] = Side(
                rows, read[:, rows] / sd, off_target[:, rows], real_rows, real / sd, sd
            )
        chosen, own = choose_weights(list(sides.values()), weights, self.counts)
        one = np.ones((1, len(self.readings)))
        curve = criterion([Terms.of(side, weights, weights, one) for side in sides.values()])
        changes = off_target.mean(axis=1)
        truth: dict[str, float] = {}
        if true_readings is not None:
            truth = _by_truth(list(sides.values()), true_readings, weights, cells)
        return AttributeWeight(
            **chosen.model_dump(),
            directions={
                label: _direction(side, estimate, weights, chosen.weight)
                for (label, side), estimate in zip(sides.items(), own, strict=True)
                if min(len(side.rows), len(side.real_rows)) >= _FEW
            },
            off_target=float(np.interp(chosen.weight, weights, changes)),
            curve=tuple(
                zip(weights.tolist(), curve[:, 0].tolist(), changes.tolist(), strict=True)
            ),
            truth=truth,
        )

    def _off_target(
        self, name: str, cells: Mapping[float, Cell]
    ) -> Float[np.ndarray, "weights image"]:
        """Mean absolute change over the attributes that should stay, in standard deviations."""
        affected = self.graph.affected([name])
        kept = [i for i, other in enumerate(self.space.names) if other not in affected]
        scale = np.array([self._spread(i) for i in kept])
        changes = [np.zeros(len(cell.readings)) for cell in cells.values()]
        if kept:
            factual = self.readings[: len(changes[0]), kept]
            changes = [
                (np.abs(cell.readings[:, kept] - factual) / scale).mean(axis=1)
                for cell in cells.values()
            ]
        return np.stack(changes)

    def _spread(self, position: int) -> float:
        """Standard deviation of a reading over the real images with the same value."""
        reading, attribute = self.readings[:, position], list(self.space)[position]
        if not isinstance(attribute, Continuous):
            own = self.attributes[attribute.name]
            means = {value: reading[own == value].mean() for value in np.unique(own).tolist()}
            reading = reading - np.array([means[value] for value in own.tolist()])
        return float(reading.std()) or 1.0


def _direction(side: Side, estimate: WeightEstimate, weights: Weights, weight: float) -> Direction:
    """Describe a direction, with its readings at the weight of the attribute."""
    read = side.sd * interpolated(weights, side.read, np.array([weight]))
    return Direction(
        **estimate.model_dump(),
        images=len(side.rows),
        real=(float(side.sd * side.real.mean()), float(side.sd * side.real.std())),
        read=(float(read.mean()), float(read.std())),
    )


def _by_truth(
    sides: Sequence[Side],
    readings: Float[np.ndarray, "image"],
    weights: Weights,
    cells: Mapping[float, Cell],
) -> dict[str, float]:
    """Return the weights that the true counterfactuals would choose.

    Args:
        sides: Directions to consider.
        readings: Readings of the true counterfactuals.
        weights: Measured weights.
        cells: Measurements under these weights.
    """
    known = [replace(s, real_rows=s.rows, real=readings[s.rows] / s.sd) for s in sides]
    error, missed, changed = np.stack([cell.errors.sum(axis=0) for cell in cells.values()]).T
    errors = np.stack([error, missed / changed.clip(1e-9)], axis=1)
    return {
        "reading": choose_weights(known, weights, np.ones((1, len(readings))))[0].weight,
        **dict(zip(("mae", "change"), map(rounded, lowest(weights, errors)), strict=True)),
    }
