"""Runs on the same images, and what was measured; one run is a comparison of its settings.

All runs are summarised over the same images in the same order, with the same resamples, so
differences between them are paired as those within a run are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

from fcfg.evaluation.experiment import parts_of
from fcfg.evaluation.metric_table import METRICS, Metric
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell, summarise
from fcfg.metrics import MIN_IMAGES
from fcfg.pipeline.plans import DEFAULT_GUIDANCE
from fcfg.reports.comparable import Run, read_comparable
from fcfg.reports.failures import failures, unread
from fcfg.reports.measures import Measured, Row, measure
from fcfg.reports.rule_styles import TINTS, setting, strongest
from fcfg.reports.wording import has_trait, listed, missing, named, too_few
from fcfg.support.errors import InputError, check_among, quoted


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs that answer the same questions on the same images."""

    runs: tuple[Run, ...]
    drift: Metric  #: how far an attribute moved
    measured: dict[str, Measured]
    """By intervention that at least two runs have, if there are two. The null intervention is
    last, if it was asked."""
    notes: tuple[str, ...]  #: what is missing or left out, and why
    against: tuple[str, str] | None
    """Name and setting of the reference of differences; "" is the default or strongest."""

    @property
    def n(self) -> int:
        """Number of common images."""
        return self.runs[0].summary.n

    @property
    def is_alone(self) -> bool:
        """Whether there is one run, whose settings are compared."""
        return len(self.runs) == 1

    @property
    def dos(self) -> tuple[str, ...]:
        """Interventions that change something."""
        return tuple(do for do in self.measured if do)

    @property
    def failures(self) -> list[str]:
        """Reasons why runs say nothing about guidance; empty if all is well."""
        found = [(run.name, line) for run in self.runs for line in failures(run.summary)]
        return [line if self.is_alone else f"{name}: {line}" for name, line in found]

    def representative(self, do: str) -> list[Row]:
        """For each model its default, or its largest weight, factored if several have that."""

        def rank(row: Row) -> tuple[bool, float, bool]:
            return row.is_default, row.setting.strength, row.setting.factored

        by_model = groupby(self.measured[do].drawn, lambda row: row.run.name)
        return [max(rows, key=rank) for _, rows in by_model]

    def picked(self, do: str) -> list[Row]:
        """The rows that pictures show: one for each model, or three that differ most.

        Those are the strongest global setting, a factored one, and the first anchored one.
        """
        if not self.is_alone:
            return self.representative(do)
        rows = {row.setting: row for row in self.measured[do].drawn}
        anchored = [own for own in rows if own.anchored and own.weights][:1]
        chosen = dict.fromkeys(own for own in (*strongest([*rows]), *anchored) if own)
        return [rows[own] for own in chosen or [*rows][:1]]

    def reference(self, do: str) -> Row | None:
        """The row that others are compared with; None if there is none, or it was not run."""
        if self.against is None:
            return None
        name, text = self.against
        rows = self.measured[do].rows if text else self.representative(do)
        found = (r for r in rows if r.run.name == name and text in ("", r.cell.guidance))
        return next(found, None)


def compare(
    *paths: str | os.PathLike[str], against: str | None = None, resamples: int = 2000
) -> Comparison:
    """Read one run, or several and check that they can be compared.

    Args:
        *paths: Folders of runs, or result files.
        against: Name of a model, alone or followed by a colon and a setting: the reference of
            paired differences. By default the first of several models at its default or strongest
            setting.
        resamples: Number of bootstrap resamples of the images.
    """
    sources, notes = read_comparable(paths)
    runs = [
        Run(own.path, own.name, own.result, summarise(own.result, resamples=resamples))
        for own in sources
    ]
    return compared(runs, notes, against)


def compared(
    runs: Sequence[Run], notes: Sequence[str] = (), against: str | None = None
) -> Comparison:
    """Compare runs on the same images, with notes on them."""
    dos, alone = _shared_interventions(runs)
    blind = dict.fromkeys(name for run in runs for name in unread(run.summary))
    drift, n = _drift(runs), runs[0].summary.n
    measured = {do: measure(rows, drift, blind) for do in (*dos, "") if (rows := _rows(runs, do))}
    few = [f"{too_few(n)}."] if n < MIN_IMAGES else []
    poor = [
        f"The judge reads {name} from these factual images no better than chance, so means leave "
        "it out."
        for name in blind
    ]
    absent = dict.fromkeys(note for run in runs for note in missing(run.header))
    readers = dict.fromkeys(filter(None, map(_judges, runs)))
    notes = (*notes, *alone, *readers, *poor, *few, *absent)
    return Comparison(tuple(runs), drift, measured, notes, _reference(runs, dos, against))


def _drift(runs: Sequence[Run]) -> Metric:
    """How far an attribute moved: from the truth, from real images, or from no guidance.

    The truth is preferred. Models share no answer without guidance, and are compared with real
    images if there are enough.
    """
    if all(run.summary.knows_truth for run in runs):
        return METRICS["factor_error"]
    few = runs[0].summary.n < MIN_IMAGES
    return METRICS["shift" if few or len(runs) == 1 else "delta_real"]


def _rows(runs: Sequence[Run], do: str) -> tuple[Row, ...]:
    """All rows of an intervention; beside calibrated weights, plain ones say that they are not."""
    rows: list[Row] = []
    for number, run in enumerate(runs):
        look = {"model": run.name, "tint": TINTS[number % len(TINTS)]} if len(runs) > 1 else {}
        cells = run.summary.cells_of(do)
        texts = [parts_of(cell.guidance)[0] for cell in cells]
        for cell, text in zip(cells, texts, strict=True):
            own = replace(setting(cell.guidance), **(_in_method(run, cell) | look))
            note = "" if own.method or texts.count(text) == 1 else own.sampling
            rows.append(Row(run, cell, replace(own, note=note)))
    untuned = repr(DEFAULT_GUIDANCE)  # of a model without a calibration
    if any(r.is_default and r.setting.anchored and r.cell.guidance != untuned for r in rows):
        for k, row in enumerate(rows):
            plain = row.setting.family != BASELINE and not row.setting.anchored
            if plain and not row.setting.method and has_trait(row.run.header, "steps"):
                note = ", ".join(filter(None, (row.setting.note, "not calibrated")))
                rows[k] = replace(row, setting=replace(row.setting, note=note))
    return tuple(rows)


def _in_method(run: Run, cell: Cell) -> dict[str, Any]:
    """What a setting has of the compared methods that ask it: names, roles, and a colour."""
    every = run.header.get("methods", {})
    found = {
        name: own[cell.do]
        for name, own in every.items()
        if cell.do in own
        and cell.guidance in chain(own[cell.do]["weights"], own[cell.do].values())
    }
    if not found:
        return {}
    roles = ("calibrated", "published")
    own = tuple(r for r in roles if any(text[r] == cell.guidance for text in found.values()))
    tint = TINTS[list(every).index(next(iter(found))) % len(TINTS)]
    return {"method": listed(found, "or"), "roles": own, "tint": tint}


def _shared_interventions(runs: Sequence[Run]) -> tuple[tuple[str, ...], list[str]]:
    """Interventions of one run, or of at least two, and a note on each of the others."""
    having: dict[str, list[str]] = {}
    for run in runs:
        for do in run.summary.dos:
            having.setdefault(do, []).append(run.name)
    dos = tuple(do for do, names in having.items() if len(names) >= min(2, len(runs)))
    if not dos:
        raise InputError(
            "comparison",
            expected="an intervention that at least two runs have",
            got="; ".join(f"{run.name}: {quoted(run.summary.dos)}" for run in runs),
            do="evaluate all models with the same experiment",
        )
    alone = {do: names[0] for do, names in having.items() if do not in dos}
    return dos, [f"Only {name} has {named(do)}, which is left out." for do, name in alone.items()]


def _judges(run: Run) -> str:
    """Which judge calibrated methods, and which reads the answers."""
    judge = run.header.get("calibrated_by")
    if not judge:
        return ""
    reads = run.header["metrics"]["judge"]["digest"]
    other = "the same judge" if judge == reads else f"another judge ({reads})"
    return f"Methods were calibrated with the judge {judge}; {other} reads the answers."


def _reference(
    runs: Sequence[Run], dos: Sequence[str], against: str | None
) -> tuple[str, str] | None:
    if against is None:
        return None if len(runs) == 1 else (runs[0].name, "")
    names = [run.name for run in runs]
    fitting = [name for name in names if against == name or against.startswith(f"{name}:")]
    if not fitting:
        check_among("against", against.partition(":")[0], names)
    name = max(fitting, key=len)
    text = against[len(name) + 1 :]
    if text:
        cells = runs[names.index(name)].summary.cells
        check_among(f"against, setting of {name}", text, [g for do, g in cells if do in dos])
    return name, text
