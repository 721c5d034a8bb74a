"""Summaries of results: numbers with intervals for each intervention and guidance.

All cells of a run use the same resamples of its images, so differences between them are paired.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Column,
    Continuous,
)
from fcfg.causal.graph import CausalGraph
from fcfg.evaluation.experiment import targets_of
from fcfg.evaluation.result_files import BASELINE, JSON, Result
from fcfg.judge import judged
from fcfg.metrics import (
    MIN_IMAGES,
    Bootstrap,
    Estimate,
    auroc,
    correlation,
    directions,
    level_scores,
    mean,
    mean_absolute_error,
    ratio,
    signed_shift,
)
from fcfg.metrics.strength import strength
from fcfg.support.errors import InputError

Key: TypeAlias = tuple[str, str]  # intervention and guidance
Estimates: TypeAlias = dict[str, Estimate]  # by attribute
Reached: TypeAlias = dict[tuple[str, str], Estimate]  # by metric and attribute
_COSTS = ("evaluations", "seconds")
_CLOSEST = 1e-6  # to 0 or 1 that files tell apart, of a probability
#: Metric of each distance to held-out real images, and in which multiple it is shown.
TO_REAL = {
    "FD-judge to real": ("real_fd_judge", 1.0),
    "KID-judge to real": ("real_kid_judge", 1000.0),
    "FID to real": ("real_fid", 1.0),
    "KID to real": ("real_kid", 1000.0),
}
#: Rows beside those of settings, with their numbers in an entry of a distance.
BESIDE = {"no change": "no_change", "real against real": "real"}


@dataclass(frozen=True, eq=False)
class Cell:
    """One intervention under one guidance."""

    do: str
    guidance: str
    attributes: tuple[str, ...]  #: of the run
    targets: tuple[str, ...]  #: attributes that the intervention sets
    affected: tuple[str, ...]  #: the targets and their descendants
    values: dict[str, tuple[Any, ...]] = field(repr=False)  #: requested of the targets, sorted
    numbers: dict[tuple[str, str], Estimate | float] = field(repr=False)
    """By metric and attribute, which is "" for whole images; what was not measured is missing.

    Metrics are those of :data:`~fcfg.evaluation.metric_table.METRICS` and, for checks of a run,
    ``correlation`` of the judge's scores with the requested attributes, from any number of images,
    ``moved``, and those beside distances to real images, by the names of :data:`BESIDE`.
    ``moved`` is how far the judge's score of a target moved from the original image towards the
    requested value, in the unit of a shift.
    """

    def of(self, metric: str) -> Estimates:
        """A metric of attributes."""
        found = {name: value for (kind, name), value in self.numbers.items() if kind == metric}
        return {name: value for name, value in found.items() if isinstance(value, Estimate)}

    def whole(self, metric: str) -> Estimate | None:
        """A metric of whole images."""
        return self.of(metric).get("")

    @property
    def drift(self) -> Estimates:
        """Signed shift of every attribute, against the truth if it is known."""
        return self.of("factor_error") or self.of("shift")

    @property
    def invariant(self) -> tuple[str, ...]:
        """Attributes that should not change."""
        return tuple(name for name in self.attributes if name not in self.affected)


@dataclass(frozen=True, eq=False)
class Summary:
    """All cells of a run."""

    header: JSON = field(repr=False)
    space: AttributeSpace
    cells: dict[Key, Cell] = field(repr=False)  #: in the order of the header
    real: Reached = field(repr=False)  #: effectiveness on the original images
    real_correlation: Estimates = field(repr=False)  #: of the judge's scores on them
    unrelated: Estimate | None = field(repr=False)
    """Mean absolute error between unrelated original images, if the run measured it."""
    n: int

    @property
    def composition(self) -> Cell | None:
        """Null intervention without guidance."""
        return self.cells.get(("", BASELINE))

    @property
    def dos(self) -> tuple[str, ...]:
        """Interventions, in order."""
        return tuple(dict.fromkeys(do for do, _ in self.cells if do))

    @property
    def settings(self) -> tuple[str, ...]:
        """Guidances, in order; an intervention need not have all of them."""
        return tuple(dict.fromkeys(guidance for do, guidance in self.cells if do))

    @property
    def knows_truth(self) -> bool:
        """Whether true counterfactuals are known."""
        return any(cell.of("factor_error") for cell in self.cells.values())

    def cells_of(self, do: str) -> list[Cell]:
        """Cells of one intervention, in order."""
        return [cell for cell in self.cells.values() if cell.do == do]


def summarise(result: Result, *, resamples: int = 2000, seed: int = 0) -> Summary:
    """Compute all numbers of tables and figures of a whole run, by resamples of its images.

    Where several images are of one patient or person, patients are resampled, with their images.
    """
    check_whole(result)
    header = result.header
    groups = header.get("groups", {}).get("rows")
    draws = Bootstrap(len(header["images"]), resamples=resamples, seed=seed, groups=groups)
    builder = _Builder(result, draws)
    return Summary(
        header,
        builder.space,
        {(do, guidance): builder.cell(do, guidance) for do, guidance in header["questions"]},
        builder.real,
        builder.correlation(builder.factual, "attributes"),
        builder.unrelated(),
        builder.n,
    )


def check_whole(result: Result) -> None:
    """Refuse a run that is not finished."""
    rows, images = len(result.rows), len(result.header["images"])
    if not rows or result.missing or len(result.real) < images:
        raise InputError(
            f"results of '{result.header['experiment']}'",
            expected=f"{rows + result.missing:,} rows, and {images:,} real images",
            got=f"{rows:,} and {len(result.real):,}",
            do="run the same 'fcfg evaluate' again, or the shards that are missing",
        )


class _Builder:
    """The columns of a result, in the order of its images."""

    def __init__(self, result: Result, bootstrap: Bootstrap) -> None:
        header = result.header
        self.bootstrap, self.n = bootstrap, len(header["images"])
        self.space = AttributeSpace.from_config(header["attributes"])
        self.graph = CausalGraph(header["graph"])
        self.rows = {
            (do, guidance): [result.rows[do, guidance, image] for image in header["images"]]
            for do, guidance in header["questions"]
        }
        self.distances, self.minimality = result.distances, result.minimality
        self.factual = [result.real[image] for image in header["images"]]
        self.real = self._effectiveness(self.factual, "attributes")
        self.effectiveness = {
            key: self._effectiveness(rows, "target") for key, rows in self.rows.items()
        }

    def cell(self, do: str, guidance: str) -> Cell:
        rows, base = self.rows[do, guidance], self.rows.get((do, BASELINE), [])
        targets, reached = targets_of(do), self.effectiveness[do, guidance]
        affected = self.graph.affected(targets)
        of_attributes = {
            "delta": _differences(reached, self.effectiveness.get((do, BASELINE), {})),
            "delta_real": _differences(reached, self.real),
            "shift": {a.name: self._shift(a, rows, base) for a in self.space if base},
            "factor_error": self._factor_error(rows),
            "correlation": self.correlation(rows, "target"),
            "moved": {name: self._moved(self.space[name], rows) for name in targets},
            "strength": {
                name: found
                for name in targets
                if (found := self._strength(self.space[name], rows))
            },
        }
        errors = product(("change", "reversal", "fresh", "repeated", "truth"), ("mae", "lpips"))
        of_images = {f"{part}_{name}": self._mean(rows, part, name) for part, name in errors} | {
            "truth_changed": self._truth_changed(rows),
            "minimality": self._minimality(do, guidance),
            "fd_judge": self._distance(do, guidance, "FD-judge"),
            "fid": self._distance(do, guidance, "FID"),
            **{name: float(np.mean([row[name] for row in rows])) for name in _COSTS},
        }
        return Cell(
            do,
            guidance,
            self.space.names,
            targets,
            tuple(name for name in self.space.names if name in affected),
            {name: tuple(sorted({row["target"][name] for row in rows})) for name in targets},
            {**reached}
            | self._to_real(do, guidance)
            | {(kind, name): e for kind, own in of_attributes.items() for name, e in own.items()}
            | {(kind, ""): value for kind, value in of_images.items() if value is not None},
        )

    def _effectiveness(self, entries: list[JSON], key: str) -> Reached:
        found: Reached = {}
        for attribute in self.space:
            scores, wanted = _scores(attribute, entries), _values(attribute, entries, key)
            if isinstance(attribute, Continuous):
                error = mean_absolute_error(scores, wanted, self.bootstrap)
                found["error", attribute.name] = error
            elif self.n >= MIN_IMAGES and len(np.unique(wanted)) > 1:
                area = auroc(scores, wanted, self.bootstrap).scaled(100)
                found["auroc", attribute.name] = area
        return found

    def correlation(self, entries: list[JSON], key: str) -> Estimates:
        estimates: Estimates = {}
        for attribute in self.space:
            wanted = _values(attribute, entries, key)
            if isinstance(attribute, Categorical):
                wanted = np.eye(len(attribute.levels))[wanted]
            found = correlation(_scores(attribute, entries), wanted, self.bootstrap)
            estimates |= {attribute.name: found} if found is not None else {}
        return estimates

    def unrelated(self) -> Estimate | None:
        values = [entry.get("unrelated") for entry in self.factual]
        return None if None in values else mean(np.array(values), self.bootstrap)

    def _shift(
        self,
        attribute: AbstractAttribute,
        rows: list[JSON],
        base: list[JSON],
        toward: Column | None = None,
    ) -> Estimate:
        """Distance of the judge's scores from others, toward given values, or those requested."""
        wanted = _values(attribute, rows, "target")
        factual = _values(attribute, self.factual, "attributes")
        scale = float(factual.std()) or 1.0 if isinstance(attribute, Continuous) else 1.0
        kind = attribute.to_config()["kind"]
        sign = directions(kind, wanted if toward is None else toward, factual)
        seen, reference = (_scores(attribute, entries) for entries in (rows, base))
        if isinstance(attribute, Categorical):  # of the requested level
            seen, reference = level_scores(seen, wanted), level_scores(reference, wanted)
        return signed_shift(seen, reference, sign, self.bootstrap, scale=scale)

    def _moved(self, attribute: AbstractAttribute, rows: list[JSON]) -> Estimate:
        toward = _values(attribute, rows, "target")
        if isinstance(attribute, Continuous):  # from its own value, not from the mean
            factual = _values(attribute, self.factual, "attributes")
            toward = factual.mean() + toward - factual
        return self._shift(attribute, rows, self.factual, toward)

    def _strength(self, attribute: AbstractAttribute, rows: list[JSON]) -> Estimate | None:
        factual = _values(attribute, self.factual, "attributes")
        wanted, same = _values(attribute, rows, "target"), np.zeros(self.n)
        read, real = (
            judged(attribute, _scores(attribute, entries), values, _CLOSEST)
            for entries, values in ((rows, wanted), (self.factual, factual))
        )
        if isinstance(attribute, Continuous):
            return strength(read, same, real, same, self.bootstrap, np.sign(wanted - factual))
        return strength(read, wanted, real, factual, self.bootstrap)

    def _factor_error(self, rows: list[JSON]) -> Estimates:
        """Factor errors of binary attributes; other factors have no direction towards a value."""
        if any(row["truth"] is None for row in rows):
            return {}
        estimates: Estimates = {}
        read, truths = [row["factors"] for row in rows], [row["truth"] for row in rows]
        for attribute in self.space:
            name = attribute.name
            if isinstance(attribute, Binary) and name in read[0]:
                scale = float(np.std([entry["factors"][name] for entry in self.factual])) or 1.0
                estimates[name] = signed_shift(
                    [factors[name] for factors in read],
                    [truth["factors"][name] for truth in truths],
                    directions("binary", [truth["target"][name] for truth in truths]),
                    self.bootstrap,
                    scale=scale,
                )
        return estimates

    def _mean(self, rows: list[JSON], part: str, name: str) -> Estimate | None:
        values = [None if row.get(part) is None else row[part].get(name) for row in rows]
        return None if None in values else mean(np.array(values), self.bootstrap)

    def _distance(self, *key: str) -> float | None:
        entry = self.distances.get(key, {"n": 0})
        # A distance between few images depends on their number.
        return entry["value"] if entry["n"] >= MIN_IMAGES else None

    def _to_real(self, do: str, guidance: str) -> dict[tuple[str, str], Estimate | float]:
        """Distances to held-out real images, and those of the rows beside them."""
        found: dict[tuple[str, str], Estimate | float] = {}
        for name, (metric, scale) in TO_REAL.items():
            entry = self.distances.get((do, guidance, name), {})
            if None not in map(entry.get, ("low", "high", *BESIDE.values())):
                own = [entry["value"], entry["low"], entry["high"]]
                rows = {"": own, **{row: entry[field] for row, field in BESIDE.items()}}
                for row, (value, low, high) in rows.items():
                    same = np.full(self.bootstrap.resamples, value)
                    ends = value - low, high - value
                    found[metric, row] = Estimate(value, same, self.n, ends).scaled(scale)
        return found

    def _minimality(self, do: str, guidance: str) -> Estimate | None:
        """Mean over the images that have one."""
        values = np.array(self.minimality.get((do, guidance), {}).get("values", ()), np.float64)
        known = np.isfinite(values)
        return ratio(np.where(known, values, 0), known, self.bootstrap) if known.any() else None

    def _truth_changed(self, rows: list[JSON]) -> Estimate | None:
        truths = [row["truth"] for row in rows if row["truth"] is not None]
        missed, changed = ([truth[key] for truth in truths] for key in ("missed", "changed"))
        return ratio(missed, changed, self.bootstrap) if sum(changed) else None


def _scores(attribute: AbstractAttribute, entries: list[JSON]) -> NDArray[np.float64]:
    return np.array([entry["scores"][attribute.name] for entry in entries], np.float64)


def _values(attribute: AbstractAttribute, entries: list[JSON], key: str) -> Column:
    """The values of an attribute, levels by their numbers."""
    values = [entry[key][attribute.name] for entry in entries]
    if isinstance(attribute, Categorical):
        values = [attribute.levels.index(value) for value in values]
    return np.array(values)


def _differences(ours: Reached, others: Reached) -> Estimates:
    return {key[1]: ours[key] - others[key] for key in ours if key in others}
