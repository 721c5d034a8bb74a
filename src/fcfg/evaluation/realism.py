"""Distances from answers to held-out real images that have the requested values.

Under do(a = v), the answers of images without v are compared with real images of v that are
neither in the run nor in the training. Two rows stand beside them: *no change*, the factual images
in place of the answers, and *real against real*, other real images of v. All have equally many
images on both sides. Numbers are means over the values v.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np

from fcfg.causal.attributes import AttributeSpace, Continuous
from fcfg.evaluation.experiment import targets_of
from fcfg.evaluation.result_files import Result
from fcfg.evaluation.result_schema import JSON
from fcfg.metrics import MIN_IMAGES, frechet_distance, kernel_distance
from fcfg.metrics.intervals import Floats
from fcfg.metrics.kernel import with_margin

Features: TypeAlias = Mapping[str, Floats]  # by network
FEWEST = MIN_IMAGES // 2  #: images on each side; half of a run asks for one of two values
REFERENCE = "held-out real images with the requested values"
#: Name of each distance over the features of each network.
DISTANCES = {
    ("judge", "FD-judge to real"): frechet_distance,
    ("judge", "KID-judge to real"): kernel_distance,
    ("inception", "FID to real"): frechet_distance,
    ("inception", "KID to real"): kernel_distance,
}


def has_classes(space: AttributeSpace, do: str) -> bool:
    """Return whether an intervention sets discrete attributes alone, whose values are classes."""
    targets = targets_of(do)
    return bool(targets) and not any(isinstance(space[name], Continuous) for name in targets)


def classes_of(result: Result, do: str) -> dict[str, list[int]]:
    """Return the images that do not have the requested values, by these values."""
    targets = targets_of(do)
    if not has_classes(AttributeSpace.from_config(result.header["attributes"]), do):
        return {}
    guidance = next(text for own, text in result.header["questions"] if own == do)
    classes: dict[str, list[int]] = {}
    for row, image in enumerate(result.header["images"]):
        wanted = result.rows[do, guidance, image]["target"]
        own = result.real[image]["attributes"]
        if all(wanted[name] != own[name] for name in targets):
            classes.setdefault(class_name([wanted[name] for name in targets]), []).append(row)
    return classes


def class_name(values: Sequence[object]) -> str:
    """Return the values of all targets as the name of a class."""
    return ",".join(map(str, values))


def realism_entries(
    result: Result,
    do: str,
    factual: Features,
    answers: Mapping[str, Features],
    real: Mapping[str, Features],
) -> Iterator[JSON]:
    """Yield the distances under one intervention that are not in the result yet.

    Args:
        result: All rows of the run.
        do: The intervention.
        factual: Features of the images of the run.
        answers: Those of their answers, by guidance.
        real: Those of held-out images, by the name of their class.
    """
    sets: list[tuple[list[int], Features, int]] = []
    for name, rows in classes_of(result, do).items():
        held = real.get(name, {})
        n = min(len(rows), min(map(len, held.values()), default=0) // 2)
        sets += [(rows[:n], held, n)] if n >= FEWEST else []
    if not sets:
        return

    def measured(network: str, metric: str, of: Features | None) -> list[float]:
        """Mean over classes with its interval; without features, real against real."""
        found = [
            with_margin(
                DISTANCES[network, metric],
                held[network][n : 2 * n] if of is None else of[network][rows],
                held[network][:n],
            )
            for rows, held, n in sets
        ]
        value, margin = np.mean([v for v, _ in found]), np.linalg.norm([m for _, m in found])
        return [float(value + side * margin / len(found)) for side in (0, -1, 1)]

    @cache
    def beside(network: str, metric: str) -> JSON:
        pair = {"no_change": factual, "real": None}
        return {name: measured(network, metric, of) for name, of in pair.items()}

    for guidance, own in answers.items():
        for network, metric in DISTANCES:
            known = all(network in some for some in (own, factual, *(held for _, held, _ in sets)))
            if known and (do, guidance, metric) not in result.distances:
                value, low, high = measured(network, metric, own)
                about = {"kind": "distance", "do": do, "guidance": guidance, "metric": metric}
                numbers = {"value": value, "low": low, "high": high, "n": min(n for *_, n in sets)}
                yield {**about, **numbers, **beside(network, metric), "reference": REFERENCE}
