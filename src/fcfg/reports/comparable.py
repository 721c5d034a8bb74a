"""Which runs can be compared: those of the same data, attributes, networks and questions.

What cannot be compared is refused; what is left out, or not quite the same, is said in notes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fcfg.evaluation.result_files import JSON, Result, read_results
from fcfg.evaluation.summary import Summary, check_whole
from fcfg.reports.wording import hardware, listed, named
from fcfg.support.errors import InputError, quoted

_DATA = ("format", "split", "seed")  # of the header's data; the rest describes a subset
_NETWORKS = {"judge": "judge", "lpips": "LPIPS network", "inception": "Inception network"}
_ALIKE = 0.03  # largest relative difference between readings of a judge and its float16 copy


@dataclass(frozen=True, eq=False)
class Source:
    """A run, and where it was read from."""

    path: Path
    name: str  #: of its model, unique among several
    result: Result = field(repr=False)


@dataclass(frozen=True, eq=False)
class Run(Source):
    """One run of one model, over the common images."""

    summary: Summary = field(repr=False)

    @property
    def header(self) -> JSON:
        """Header of the run."""
        return self.summary.header


def read_comparable(paths: Sequence[str | os.PathLike[str]]) -> tuple[list[Source], list[str]]:
    """Return runs over the images that all of them have, and notes on them."""
    files = [Path(path) for path in paths]
    if not files:
        do = "name a folder that 'fcfg evaluate' wrote"
        raise InputError("comparison", expected="at least one run", got=0, do=do)
    results = [read_results(file) for file in files]
    sources = list(map(Source, files, _names(files, results), results))
    for source in sources:
        try:  # refuses an unfinished run
            check_whole(source.result)
        except InputError as error:
            raise error.about(f"results {source.path}", error.do) from None
    for source in sources[1:]:
        _check_headers(source, sources[0])
    images = _common_images(sources)
    is_whole = all(len(result.header["images"]) == len(images) for result in results)
    # Older runs of the same images lack their groups.
    groups = next((own for s in sources if (own := _groups(s.result.header, images))), {})
    own = [
        replace(s, result=_restricted(s.result, images, groups, is_whole=is_whole))
        for s in sources
    ]
    runs = listed(f"{s.name} has {len(s.result.header['images']):,}" for s in sources)
    notes = [
        f"The runs have different images ({runs}): all numbers are of the {len(images):,} that "
        "they share. Fréchet distances and minimality depend on all images of a run, and are left "
        "out."
    ]
    notes = [] if is_whole else notes
    return own, [*notes, *_check_questions(own), *_judge_notes(own), *_hardware_notes(own)]


def _names(files: Sequence[Path], results: Sequence[Result]) -> list[str]:
    """Names of models; the folder or the file in brackets, and a number, where that is needed."""
    names = [str(result.header["model"]["name"]) for result in results]
    folders = [f" ({f.name if f.is_dir() else f.name.split('.jsonl')[0]})" for f in files]
    for suffixes in (folders, [f" #{k + 1}" for k in range(len(files))]):
        pairs = zip(names, suffixes, strict=True)
        names = [f"{name}{suffix * (names.count(name) > 1)}" for name, suffix in pairs]
    return names


def _refusal(source: Source, expected: str, got: object, do: str) -> InputError:
    return InputError(f"results {source.path}", expected=expected, got=got, do=do)


def _check_headers(source: Source, first: Source) -> None:
    headers = first.result.header, source.result.header
    facts = {f"data, {name}": [h["data"].get(name) for h in headers] for name in _DATA}
    facts |= {name: [h[name] for h in headers] for name in ("attributes", "graph")}
    for name, title in _NETWORKS.items():
        networks = [_network(h["metrics"].get(name)) for h in headers]
        if all(networks) and not (name == "judge" and _read_alike(first.result, source.result)):
            facts[title] = networks
    for name, (expected, got) in facts.items():
        if expected != got:
            raise _refusal(
                source,
                f"the {name} of {first.path} ({expected})",
                got,
                "evaluate all models on the same data, with the same judge: --judge MODEL",
            )


def _read_alike(one: Result, other: Result) -> bool:
    """Return whether two judges read all common real images alike, as one and its float16 copy."""
    common = sorted(one.real.keys() & other.real.keys())
    read = sorted(one.header["attributes"].keys() - one.header["metrics"].get("measured", {}))
    if not common or not read or one.header["attributes"] != other.header["attributes"]:
        return False
    pairs = [(image, name) for image in common for name in read]
    first, second = (
        np.concatenate([np.ravel(result.real[image]["scores"][name]) for image, name in pairs])
        for result in (one, other)
    )
    return np.allclose(first, second, rtol=_ALIKE, atol=1e-6)  # six digits are kept


def _network(about: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if about is None or "missing" in about else about


def _common_images(sources: Sequence[Source]) -> list[str]:
    """Images of all runs, in an order that does not depend on that of the runs."""
    lists = [source.result.header["images"] for source in sources]
    fewest = min(2, len(sources))
    if all(images == lists[0] for images in lists) and len(lists[0]) >= fewest:
        return lists[0]
    common = sorted(set(lists[0]).intersection(*lists[1:]))
    if len(common) < fewest:
        others = quoted(str(source.path) for source in sources[1:])
        raise _refusal(
            sources[0],
            f"at least {fewest} images that are in {others} as well",
            len(common),
            "evaluate all models on the same images, with the same --images and seed",
        )
    return common


def _groups(header: JSON, images: Sequence[str]) -> JSON:
    """The groups of some images of a header, as one of its fields; none if it has none."""
    if "groups" not in header:
        return {}
    of = dict(zip(header["images"], header["groups"]["rows"], strict=True))
    return {"groups": header["groups"] | {"rows": [of[image] for image in images]}}


def _restricted(result: Result, images: list[str], groups: JSON, *, is_whole: bool) -> Result:
    """The same run over some images, in a given order, without what depends on all of them."""
    kept, places = set(images), {name: k for k, name in enumerate(result.header["images"])}
    minimality = {
        key: entry | {"values": [entry["values"][places[image]] for image in images]}
        for key, entry in result.minimality.items()
    }
    return replace(
        result,
        header=result.header | {"images": images} | groups,
        rows={key: row for key, row in result.rows.items() if row["image"] in kept},
        real={image: result.real[image] for image in images},
        distances=result.distances if is_whole else {},
        minimality=minimality if is_whole else {},
    )


def _check_questions(sources: Sequence[Source]) -> list[str]:
    """Refuse other questions and images; note where values differ that follow from a question."""
    first, *_ = sources
    asked: dict[tuple[str, str], tuple[Path, JSON]] = {}
    apart: dict[tuple[str, str], set[str]] = {}
    for source in sources:
        for image, entry in source.result.real.items():
            if entry["attributes"] != (theirs := first.result.real[image]["attributes"]):
                raise _refusal(
                    source,
                    f"the attributes of '{image}' in {first.path} ({theirs})",
                    entry["attributes"],
                    "evaluate all models on the same data",
                )
        for row in source.result.rows.values():
            do, image, target = row["do"], row["image"], row["target"]
            path, theirs = asked.setdefault((do, image), (source.path, target))
            for name in (name for name in target if target[name] != theirs[name]):
                if name in do.split("+"):
                    raise _refusal(
                        source,
                        f"'{image}' with {name} set to {theirs[name]} under {named(do)}, as in "
                        f"{path}",
                        target[name],
                        "evaluate all models with the same seed and the same experiment",
                    )
                apart.setdefault((do, name), set()).add(image)
    return [
        f"Under {named(do)}, the causal models give {name} different values in {len(images):,} "
        "images; each model is judged by its own."
        for (do, name), images in apart.items()
    ]


def _judge_notes(sources: Sequence[Source]) -> list[str]:
    """Whether one judge read all images, or one that reads real images alike."""
    judges = {s.name: _network(s.result.header["metrics"].get("judge")) for s in sources}
    first, *_ = judges
    other = [name for name in judges if judges[name] and judges[name] != judges[first]]
    if not other or not judges[first]:
        return []
    return [
        f"The judge of {listed(other)} has other weights than that of {first}. On all real images "
        f"they read the same within {_ALIKE * 100:.0f} %, as a judge and its copy in float16 do."
    ]


def _hardware_notes(sources: Sequence[Source]) -> list[str]:
    """Whether seconds can be compared."""
    places = {source.name: hardware(source.result.header) for source in sources}
    if len(set(places.values())) == 1:
        return []
    said = listed(f"{name} on {place}" for name, place in places.items())
    return [f"Seconds are not of the same conditions: {said}."]
