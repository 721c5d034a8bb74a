"""From readings to the weight of an attribute, by directions and with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from fcfg.calibration.criterion import (
    Counts,
    Separation,
    Shifts,
    Side,
    choose_weights,
    criterion,
    lowest,
    over_directions,
    rounded,
    sufficient_weight,
)
from fcfg.calibration.measurements import Cell
from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Column, Continuous, Table
from fcfg.causal.graph import CausalGraph
from fcfg.pipeline.calibration import FEWEST, AttributeWeight, Direction, WeightEstimate

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

        ``values`` are those that the first images are set to. Directions with fewer than two of
        either are left out.
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
        *,
        at_least_real: bool = False,
    ) -> AttributeWeight:
        """Choose the weight of an attribute with directions, from measurements under every weight.

        With ``at_least_real``, that of a binary attribute is raised until the judge tells its
        values apart as well as those of real images.
        """
        sides = self._sides(name, values, cells)
        both, one = list(sides.values()), np.ones((1, len(self.readings)))
        best, own = choose_weights(both, self.counts)
        chosen, separation = best, None
        if isinstance(self.space[name], Binary) and len(both) == 2:
            if at_least_real:
                chosen = sufficient_weight(both, self.counts, best, own)
            found = Separation.of(both, np.array([chosen.weight]), one)
            separation = float(found.real[0]), float(found.answers[0, 0])
        weights = both[0].weights
        terms = [side.terms(weights, one) for side in both]
        total, squares = criterion(terms), over_directions(terms, lambda term: term.off_target)
        shifts = np.sqrt(squares[:, 0].clip(0))
        return AttributeWeight(
            **chosen.model_dump(),
            directions={
                label: _direction(side, estimate, chosen.weight)
                for (label, side), estimate in zip(sides.items(), own, strict=True)
                if min(len(side.rows), len(side.real_rows)) >= FEWEST
            },
            off_target=float(np.interp(chosen.weight, weights, shifts)),
            curve=tuple(zip(weights.tolist(), total[:, 0].tolist(), shifts.tolist(), strict=True)),
            truth={} if true_readings is None else _by_truth(both, true_readings, cells),
            separation=separation,
            raised_from=best.weight if chosen.weight > best.weight else None,
        )

    def _sides(self, name: str, values: Column, cells: Mapping[float, Cell]) -> dict[str, Side]:
        """Return the readings of every direction, under all weights."""
        position, weights = self.space.names.index(name), np.array(list(cells))
        read = np.stack([cell.readings for cell in cells.values()])
        sides: dict[str, Side] = {}
        for label, (rows, real_rows) in self.directions(name, values).items():
            real = self.readings[real_rows, position]
            sd, own = float(real.std()) or 1.0, read[:, rows, position]
            others = self._others(name, rows, read)
            sides[label] = Side(weights, rows, own / sd, others, real_rows, real / sd, sd)
        return sides

    def _others(
        self,
        name: str,
        rows: NDArray[np.int64],
        read: Float[np.ndarray, "weights image attribute"],
    ) -> tuple[Shifts, ...]:
        """Return the shifts of attributes that should stay, by their factual values."""
        affected, found = self.graph.affected([name]), list[Shifts]()
        for position, other in enumerate(self.space):
            if other.name in affected:
                continue
            own = self.attributes[other.name][rows]
            parts = np.zeros(len(rows)) if isinstance(other, Continuous) else own
            for part in np.unique(parts):
                here = rows[parts == part]
                shifts = read[:, here, position] - self.readings[here, position]
                found.append(Shifts(here, shifts / self._spread(position)))
        return tuple(found)

    def _spread(self, position: int) -> float:
        """Standard deviation of a reading over the real images with the same value."""
        reading, attribute = self.readings[:, position], list(self.space)[position]
        if not isinstance(attribute, Continuous):
            own = self.attributes[attribute.name]
            means = {value: reading[own == value].mean() for value in np.unique(own).tolist()}
            reading = reading - np.array([means[value] for value in own.tolist()])
        return float(reading.std()) or 1.0


def _direction(side: Side, estimate: WeightEstimate, weight: float) -> Direction:
    """Describe a direction, with its readings at the weight of the attribute."""
    read = side.sd * side.read_at(np.array([weight]))
    return Direction(
        **estimate.model_dump(),
        images=len(side.rows),
        real=(float(side.sd * side.real.mean()), float(side.sd * side.real.std())),
        read=(float(read.mean()), float(read.std())),
    )


def _by_truth(
    sides: Sequence[Side], readings: Float[np.ndarray, "image"], cells: Mapping[float, Cell]
) -> dict[str, float]:
    """Return the weights that the true counterfactuals would choose, by their readings."""
    known = [replace(s, real_rows=s.rows, real=readings[s.rows] / s.sd) for s in sides]
    error, missed, changed = np.stack([cell.errors.sum(axis=0) for cell in cells.values()]).T
    errors = np.stack([error, missed / changed.clip(1e-9)], axis=1)
    return {
        "reading": choose_weights(known, np.ones((1, len(readings))))[0].weight,
        **dict(
            zip(("mae", "change"), map(rounded, lowest(sides[0].weights, errors)), strict=True)
        ),
    }
