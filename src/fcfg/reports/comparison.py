"""Several runs on the same images: which can be compared, under which names, and their rows.

All runs are summarised over the same images in the same order, with the same resamples, so
differences between them are paired as those within a run are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fcfg.evaluation.result_files import JSON, Result, read_results
from fcfg.evaluation.summary import Cell, Summary, check_whole, summarise
from fcfg.reports.numbers import listed, named
from fcfg.reports.rule_styles import Setting, is_default, settings_of, variable
from fcfg.reports.wording import model_kind
from fcfg.support.errors import InputError, check_among, quoted

#: Colours of the models, in order, by the rule that has them elsewhere.
_TINTS = ("fcfg", "cfg", "fapg", "apg", "cfg++", "fcfg++", "fown", "own")
_FEWEST = 2  # images and runs
_DATA = ("format", "split", "seed")  # of the header's data; the rest describes a subset
_NETWORKS = {"judge": "judge", "lpips": "LPIPS network", "inception": "Inception network"}
_ALIKE = 0.03  # largest relative difference between readings of a judge and its float16 copy


@dataclass(frozen=True, eq=False)
class System:
    """One run of one model."""

    name: str  #: unique on the page
    tint: str  #: key of its colour
    result: Result = field(repr=False)  #: of the common images
    summary: Summary = field(repr=False)

    @property
    def header(self) -> JSON:
        """Header of the run."""
        return self.summary.header

    @property
    def kind(self) -> str:
        """Kind of the model."""
        return model_kind(self.header)

    @property
    def parameters(self) -> str:
        """Number of parameters in millions; "" if the run did not record it."""
        count = self.header["model"].get("parameters")
        return f"{count / 1e6:.1f} M" if count else ""

    @property
    def colour(self) -> str:
        """Its colour for SVG and CSS."""
        return variable(self.tint)

    @property
    def hardware(self) -> str:
        """Device and precision."""
        environment = self.header["environment"]
        known = [environment.get(key, f"unknown {key}") for key in ("device", "precision")]
        return " in ".join(known)


@dataclass(frozen=True, eq=False)
class Row:
    """One intervention under one setting of one model."""

    system: System
    cell: Cell = field(repr=False)
    own: Setting  #: the setting without the model

    @property
    def setting(self) -> Setting:
        """The setting, with the name and the colour of the model."""
        return replace(self.own, model=self.system.name, tint=self.system.tint)

    @property
    def label(self) -> str:
        """The setting without the model."""
        return self.own.label


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs that answer the same questions on the same images."""

    systems: tuple[System, ...]
    dos: tuple[str, ...]  #: interventions that at least two runs have
    notes: tuple[str, ...]  #: what was left out, and why
    against: tuple[str, str]  #: name and setting of the reference; "" is the default or strongest

    @property
    def n(self) -> int:
        """Number of common images."""
        return self.systems[0].summary.n

    def rows(self, do: str) -> list[Row]:
        """All rows of an intervention, by model and in the order of its run."""
        cells = [(s, cell) for s in self.systems for cell in s.summary.cells_of(do)]
        settings = settings_of([(cell, s.header) for s, cell in cells])
        return [Row(*one, own) for one, own in zip(cells, settings, strict=True)]

    def representative(self, do: str) -> list[Row]:
        """For each model the row of its default setting, or that of its strongest.

        The strongest has the largest weight, and is factored if several have it.
        """
        best: dict[str, Row] = {}
        for row in self.rows(do):
            other = best.setdefault(row.system.name, row)
            if _rank(row) > _rank(other):
                best[row.system.name] = row
        return list(best.values())

    def reference(self, do: str) -> Row | None:
        """The row that others are compared with; None if it was not run."""
        name, text = self.against
        rows = self.rows(do) if text else self.representative(do)
        found = (r for r in rows if r.system.name == name and text in ("", r.cell.guidance))
        return next(found, None)


def _rank(row: Row) -> tuple[bool, float, bool]:
    own = row.own
    return is_default(row.cell, row.system.header), own.strength, own.factored


def compare(
    paths: Sequence[str | os.PathLike[str]], against: str | None = None, *, resamples: int = 2000
) -> Comparison:
    """Read runs and check that they can be compared.

    Args:
        paths: Folders of runs, or result files; at least two.
        against: Name of a model, alone or followed by a colon and a setting; the first by default.
        resamples: Number of bootstrap resamples of the images.
    """
    sources = [Path(path) for path in paths]
    if len(sources) < _FEWEST:
        raise InputError(
            "comparison",
            expected="at least two runs",
            got=len(sources),
            do="name two folders that 'fcfg evaluate' wrote",
        )
    results = [read_results(source) for source in sources]
    names = _names(sources, results)
    for source, result in zip(sources, results, strict=True):
        try:  # refuses an unfinished run, as its own report does
            check_whole(result)
        except InputError as error:
            raise error.about(f"results {source}", error.do) from None
    for source, result in zip(sources[1:], results[1:], strict=True):
        _check_headers(source, result, sources[0], results[0])
    images = _common_images(sources, results)
    is_whole = all(len(result.header["images"]) == len(images) for result in results)
    restricted = [_restricted(result, images, is_whole=is_whole) for result in results]
    apart = _check_questions(sources, restricted)
    systems = tuple(
        System(name, _TINTS[k % len(_TINTS)], result, summarise(result, resamples=resamples))
        for k, (name, result) in enumerate(zip(names, restricted, strict=True))
    )
    dos, alone = _shared_interventions(systems)
    return Comparison(
        systems,
        dos,
        (
            *([] if is_whole else [_image_note(names, results, len(images))]),
            *alone,
            *apart,
            *_judge_notes(systems),
            *_hardware_notes(systems),
        ),
        _reference(systems, dos, against),
    )


def _names(sources: Sequence[Path], results: Sequence[Result]) -> list[str]:
    """Names of models; the folder or the file in brackets, and a number, where that is needed."""
    models = [str(result.header["model"]["name"]) for result in results]
    folders = [s.name if s.is_dir() else s.name.split(".jsonl")[0] for s in sources]
    counts = Counter(models)
    names = [
        f"{model} ({folder})" if counts[model] > 1 else model
        for model, folder in zip(models, folders, strict=True)
    ]
    counts, seen = Counter(names), Counter[str]()
    for k, name in enumerate(names):
        seen[name] += 1
        names[k] = f"{name} #{seen[name]}" if counts[name] > 1 else name
    return names


def _refusal(source: Path, expected: str, got: object, do: str) -> InputError:
    return InputError(f"results {source}", expected=expected, got=got, do=do)


def _check_headers(source: Path, result: Result, first: Path, before: Result) -> None:
    """Refuse other data, attributes or networks."""
    header, other = result.header, before.header
    facts: dict[str, tuple[Any, Any]] = {
        f"data, {name}": (other["data"].get(name), header["data"].get(name)) for name in _DATA
    }
    facts |= {name: (other[name], header[name]) for name in ("attributes", "graph")}
    for name, title in _NETWORKS.items():
        ours, theirs = (_network(h["metrics"].get(name)) for h in (other, header))
        if ours and theirs and not (name == "judge" and _read_alike(before, result)):
            facts[title] = (ours, theirs)
    for name, (expected, got) in facts.items():
        if expected != got:
            raise _refusal(
                source,
                f"the {name} of {first} ({expected})",
                got,
                "evaluate all models on the same data, with the same judge: --judge MODEL",
            )


def _read_alike(one: Result, other: Result) -> bool:
    """Return whether two judges read all common real images alike, as one and its float16 copy."""
    common = sorted(one.real.keys() & other.real.keys())
    read = sorted(one.header["attributes"].keys() - one.header["metrics"].get("measured", {}))
    if not common or not read or one.header["attributes"] != other.header["attributes"]:
        return False
    first, second = (_readings(result, common, read) for result in (one, other))
    return np.allclose(first, second, rtol=_ALIKE, atol=1e-6)  # six digits are kept


def _readings(result: Result, images: Sequence[str], names: Sequence[str]) -> np.ndarray:
    scores = [result.real[image]["scores"] for image in images]
    return np.concatenate([np.ravel(score[name]) for score in scores for name in names])


def _network(about: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if about is None or "missing" in about else about


def _common_images(sources: Sequence[Path], results: Sequence[Result]) -> list[str]:
    """Images of all runs, in an order that does not depend on that of the runs."""
    lists = [result.header["images"] for result in results]
    if all(images == lists[0] for images in lists) and len(lists[0]) >= _FEWEST:
        return lists[0]
    common = sorted(set(lists[0]).intersection(*lists[1:]))
    if len(common) < _FEWEST:
        raise _refusal(
            sources[0],
            f"at least {_FEWEST} images that are in {quoted(map(str, sources[1:]))} as well",
            len(common),
            "evaluate all models on the same images, with the same --images and seed",
        )
    return common


def _restricted(result: Result, images: list[str], *, is_whole: bool) -> Result:
    """The same run over some of its images, in a given order.

    Distances and minimality depend on all images of a run, and are left out unless it is whole.
    """
    kept, places = set(images), {name: k for k, name in enumerate(result.header["images"])}
    minimality = {
        key: entry | {"values": [entry["values"][places[image]] for image in images]}
        for key, entry in result.minimality.items()
    }
    return replace(
        result,
        header=result.header | {"images": images},
        rows=tuple(row for row in result.rows if row["image"] in kept),
        real={image: result.real[image] for image in images},
        distances=result.distances if is_whole else (),
        minimality=minimality if is_whole else {},
    )


def _check_questions(sources: Sequence[Path], results: Sequence[Result]) -> list[str]:
    """Refuse images that were asked for other values, or that are others by the same name.

    Values that follow from an intervention may differ, since every model has a causal model of its
    own; the notes say where.
    """
    real: dict[str, tuple[Path, JSON]] = {}
    asked: dict[tuple[str, str], tuple[Path, JSON]] = {}
    apart: dict[tuple[str, str], set[str]] = {}
    for source, result in zip(sources, results, strict=True):
        for image, entry in result.real.items():
            first, theirs = real.setdefault(image, (source, entry["attributes"]))
            if entry["attributes"] != theirs:
                raise _refusal(
                    source,
                    f"the attributes of '{image}' in {first} ({theirs})",
                    entry["attributes"],
                    "evaluate all models on the same data",
                )
        for row in result.rows:
            do, image, target = row["do"], row["image"], row["target"]
            first, theirs = asked.setdefault((do, image), (source, target))
            for name in (name for name in target if target[name] != theirs[name]):
                if name in do.split("+"):
                    raise _refusal(
                        source,
                        f"'{image}' with {name} set to {theirs[name]} under {named(do)}, as in "
                        f"{first}",
                        target[name],
                        "evaluate all models with the same seed and the same experiment",
                    )
                apart.setdefault((do, name), set()).add(image)
    return [
        f"Under {named(do)}, the causal models give {name} different values in {len(images):,} "
        "images; each model is judged by its own."
        for (do, name), images in apart.items()
    ]


def _shared_interventions(systems: Sequence[System]) -> tuple[tuple[str, ...], list[str]]:
    """Interventions of at least two runs, and a note on each of the others."""
    having: dict[str, list[str]] = {}
    for system in systems:
        for do in system.summary.dos:
            having.setdefault(do, []).append(system.name)
    dos = tuple(do for do, names in having.items() if len(names) >= _FEWEST)
    if not dos:
        raise InputError(
            "comparison",
            expected="an intervention that at least two runs have",
            got="; ".join(f"{s.name}: {quoted(s.summary.dos)}" for s in systems),
            do="evaluate all models with the same experiment",
        )
    alone = {do: names[0] for do, names in having.items() if do not in dos}
    return dos, [f"Only {name} has {named(do)}, which is left out." for do, name in alone.items()]


def _image_note(names: Sequence[str], results: Sequence[Result], common: int) -> str:
    counts = [len(result.header["images"]) for result in results]
    runs = listed(f"{name} has {count:,}" for name, count in zip(names, counts, strict=True))
    return (
        f"The runs have different images ({runs}): all numbers are of the {common:,} that they "
        "share. Fréchet distances and minimality depend on all images of a run, and are left out."
    )


def _judge_notes(systems: Sequence[System]) -> list[str]:
    """Whether one judge read all images, or one that reads real images alike."""
    judges = {s.name: _network(s.header["metrics"].get("judge")) for s in systems}
    other = [name for name in judges if judges[name] and judges[name] != judges[systems[0].name]]
    if not other or not judges[systems[0].name]:
        return []
    return [
        f"The judge of {listed(other)} has other weights than that of {systems[0].name}. On all "
        f"real images they read the same within {_ALIKE * 100:.0f} %, as a judge and its copy in "
        "float16 do."
    ]


def _hardware_notes(systems: Sequence[System]) -> list[str]:
    """Whether seconds can be compared."""
    if len({system.hardware for system in systems}) == 1:
        return []
    places = listed(f"{system.name} on {system.hardware}" for system in systems)
    return [f"Seconds are not of the same conditions: {places}."]


def _reference(
    systems: Sequence[System], dos: Sequence[str], against: str | None
) -> tuple[str, str]:
    if against is None:
        return systems[0].name, ""
    names = [system.name for system in systems]
    fitting = [name for name in names if against == name or against.startswith(f"{name}:")]
    if not fitting:
        check_among("against", against.partition(":")[0], names)
    name = max(fitting, key=len)
    text = against[len(name) + 1 :]
    cells = systems[names.index(name)].summary.cells
    if text:
        check_among(f"against, setting of {name}", text, [g for do, g in cells if do in dos])
    return name, text
