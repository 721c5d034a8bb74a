"""The diagnosis of a model: gaps of its groupings, a suggestion of groups, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from fcfg.causal.graph import Partition
from fcfg.diagnosis.additivity import Gap, Groups, measure_gaps
from fcfg.diagnosis.entanglement import Entanglement, measure_entanglement
from fcfg.judge import AttributeJudge
from fcfg.metrics import Estimate
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.reports.numbers import interval, listed, named, number
from fcfg.sampling.grids import time_grid
from fcfg.support.errors import InputError, check_integer
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.images import ImagesLike, read_images
from fcfg.support.progress import OnProgress

#: Largest gap of groups that add up. Weights are chosen in steps of about a fifth (1.2, 1.5, 1.7,
#: 2, 2.5 and 3 in the paper), so a smaller error of the push is below one step of its weight.
THRESHOLD = 0.2
#: Smallest correlation that the verdict mentions.
_NOTABLE = 0.2
_SHOWN = 6  # correlations in one sentence


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Whether the groups of a model's attributes act independently.

    Gaps are relative: 0 if the pushes of the groups add up to that of the joint condition, 1 if
    their sum is as wrong as no push at all.
    """

    attributes: tuple[str, ...]
    times: tuple[int, ...] = field(repr=False)
    by_attribute: Gap  #: of one group for each attribute
    by_intervention: dict[str, Gap] = field(repr=False)
    """Of the groups affected and invariant, by target; without those that have no invariants."""
    pairs: dict[tuple[str, str], Gap] = field(repr=False)  #: of two attributes, others masked
    suggestion: Partition
    suggested: Gap = field(repr=False)  #: gap of the suggestion
    entanglement: Entanglement | None = field(repr=False)  #: None without a judge
    images: int  #: number of images
    noised: int  #: number of images whose gaps were measured
    seed: int
    threshold: float
    trained_on_parts: bool | None = None
    """Whether single attributes were left out in training; None if the model does not say."""

    @property
    def verdict(self) -> list[str]:
        """What the numbers say, in sentences; the first one is about the groups to use."""
        return [*self._on_groups(), *self._on_interventions(), *self._on_data()]

    def _on_groups(self) -> Iterator[str]:
        groups = [group for group in self.suggestion.groups.values() if len(group) > 1]
        said = percent(self.suggested.overall)
        if not groups:
            yield (
                f"One group per attribute is justified: added up, the groups miss {said} of the "
                "push of all attributes together."
            )
        elif len(self.suggestion) == 1:
            yield (
                "All attributes should share a group, as in CFG: one group per attribute misses "
                f"{percent(self.by_attribute.overall)} of their push together."
            )
        else:
            apart = percent(self.by_attribute.overall)
            texts = [f"{listed(group)} should share a group" for group in groups]
            yield (
                f"{'; '.join(texts)}. Then the groups miss {said} of the push of all attributes "
                f"together; one group per attribute misses {apart}."
            )
        close = [
            f"{a} and {b} ({percent(gap.overall)})"
            for (a, b), gap in self.pairs.items()
            if gap.overall.low <= self.threshold < gap.overall.high
        ]
        if close:
            limit = f"the limit of {100 * self.threshold:.0f} %"
            yield f"Too close to {limit} to be sure: {listed(close)}. More images would decide."
        if groups and self.trained_on_parts is False:
            yield (
                "The model was trained with the whole condition or none of it (p_group: 0), so "
                "what it predicts for a part is an extrapolation. Training with p_group above 0 "
                "may lower the gaps."
            )

    def _on_interventions(self) -> Iterator[str]:
        gaps = {named(target): gap.overall for target, gap in self.by_intervention.items()}
        poor = {do: gap for do, gap in gaps.items() if gap.value > self.threshold}
        if poor:
            said = listed(f"{do} ({percent(gap)})" for do, gap in poor.items())
            yield f"The groups affected and invariant do not add up under {said}."
        elif gaps:
            worst = max(gaps, key=lambda do: gaps[do].value)
            yield (
                "The groups affected and invariant are justified under every intervention: they "
                f"miss at most {percent(gaps[worst])}, under {worst}."
            )

    def _on_data(self) -> Iterator[str]:
        if self.entanglement is None:
            return
        found = self.entanglement
        data = {pair: e for pair, e in found.data.items() if pair[0] < pair[1]}
        data = {pair: e for pair, e in data.items() if not _same(*pair)}
        if told := _strongest(data):
            yield f"Correlated in the data: {told}."
        else:
            yield "No two attributes are correlated in the data."
        excess = {
            (a, b): (read - found.data[a, b]).scaled(math.copysign(1, read.value))
            for (a, b), read in found.readings.items()
            if not _same(a, b)
        }
        if told := _strongest({pair: e for pair, e in excess.items() if e.value > 0}):
            yield f"The judge reads one with another more than the data have them: {told}."

    def to_json(self) -> dict[str, Any]:
        """All numbers, for a file."""
        return {
            "attributes": list(self.attributes),
            "images": self.images,
            "noised": self.noised,
            "seed": self.seed,
            "threshold": self.threshold,
            "times": list(self.times),
            "verdict": self.verdict,
            "suggestion": {name: list(self.suggestion[name]) for name in self.suggestion},
            "suggested": self.suggested.to_json(),
            "by_attribute": self.by_attribute.to_json(),
            "by_intervention": {do: gap.to_json() for do, gap in self.by_intervention.items()},
            "pairs": [gap.to_json() for gap in self.pairs.values()],
            "entanglement": self.entanglement and self.entanglement.to_json(),
            "trained_on_parts": self.trained_on_parts,
        }


def diagnose(
    pipeline: CounterfactualPipeline,
    images: ImagesLike,
    attributes: Mapping[str, ArrayLike],
    *,
    noised: int = 64,
    times: int = 10,
    threshold: float = THRESHOLD,
    seed: int = 0,
    batch_size: int = 256,
    on_progress: OnProgress | None = None,
) -> Diagnosis:
    """Measure whether the groups of a model's attributes act independently.

    Args:
        pipeline: The model.
        images: Real images, as in :meth:`fcfg.CounterfactualPipeline.counterfactual`.
        attributes: Column of values for every attribute.
        noised: Largest number of images to measure gaps on, evenly chosen; correlations, which
            are cheap, are measured on all.
        times: Number of times at which images are noised, even in log-SNR.
        threshold: Largest gap of groups that count as independent.
        seed: Seed of the noise.
        batch_size: Largest number of network rows per call.
        on_progress: Callback invoked with the share that is done.
    """
    denoiser, space, graph = pipeline.denoiser, pipeline.space, pipeline.graph
    names = space.names
    if len(names) < 2:
        raise InputError(
            "model", expected="two attributes or more", got=len(names), do="one needs no groups"
        )
    if not 0 <= threshold <= 1:
        do = f"{THRESHOLD} is the default"
        raise InputError("threshold", expected="a number from 0 to 1", got=threshold, do=do)
    check_integer("times", times, 2, denoiser.schedule.steps, do="10 is the default")
    check_integer("noised", noised, 1, 10**7, do="64 is the default")
    check_integer("seed", seed, 0, LARGEST_SEED, do="0 is the default")
    size, stride = denoiser.size, denoiser.stride
    x = read_images(images, channels=denoiser.channels, stride=stride, size=size)
    table = space.parse(attributes)
    if len(table[names[0]]) != len(x):
        got, do = len(table[names[0]]), "give one value for each image"
        raise InputError("attributes", expected=f"{len(x)} values each", got=got, do=do)

    rows = np.arange(min(noised, len(x))) * len(x) // min(noised, len(x))
    chosen = x[rows], {name: column[rows] for name, column in table.items()}
    singles, whole = tuple((name,) for name in names), (names,)
    pairs: dict[tuple[str, str], Groups] = {
        (a, b): ((a,), (b,)) for a, b in combinations(names, 2)
    }
    splits = {name: _groups(Partition.by_intervention(graph, [name])) for name in names}
    splits = {name: groups for name, groups in splits.items() if len(groups) > 1}
    grid = time_grid(denoiser.schedule, times, "log-snr")[1:]

    start = 0.0

    def report(share: float) -> None:
        if on_progress is not None:  # it is not known how many groupings will be tried
            on_progress(start + 0.75 * (1 - start) * share)

    def measure(groupings: Iterable[Groups]) -> dict[Groups, Gap]:
        wanted, draw = list(dict.fromkeys(groupings)), {"seed": seed, "batch_size": batch_size}
        gaps = measure_gaps(denoiser, *chosen, wanted, grid, **draw, on_progress=report)
        return dict(zip(wanted, gaps, strict=True))

    gaps = measure([singles, whole, *splits.values(), *pairs.values()])
    of_pairs = {pair: gaps[groups] for pair, groups in pairs.items()}
    for suggestion in candidates(names, of_pairs, threshold):
        start += 0.75 * (1 - start)
        groups = _groups(suggestion)
        gaps |= {} if groups in gaps else measure([groups])
        if gaps[groups].overall.value <= threshold:
            break
    judge = pipeline.judge
    training = pipeline.provenance.get("training", {}).get("diffusion", {})
    return Diagnosis(
        attributes=names,
        times=grid,
        by_attribute=gaps[singles],
        by_intervention={name: gaps[groups] for name, groups in splits.items()},
        pairs=of_pairs,
        suggestion=suggestion,
        suggested=gaps[_groups(suggestion)],
        entanglement=measure_entanglement(judge, x, table, batch_size=batch_size)
        if isinstance(judge, AttributeJudge)
        else None,
        images=len(x),
        noised=len(rows),
        seed=seed,
        threshold=threshold,
        trained_on_parts=training["p_group"] > 0 if "p_group" in training else None,
    )


def candidates(
    names: tuple[str, ...], pairs: Mapping[tuple[str, str], Gap], threshold: float
) -> Iterator[Partition]:
    """Return groups to suggest, in the order to try them.

    Attributes with a gap above the threshold are together in all of them, directly or through
    others. Then the pair that misses most is joined, one after the other, up to a single group.

    Args:
        names: The attributes.
        pairs: Gap of each pair of them.
        threshold: Largest gap of attributes that can be apart.
    """
    links: nx.Graph[str] = nx.Graph()
    links.add_nodes_from(names)
    links.add_edges_from(pair for pair, gap in pairs.items() if gap.overall.value > threshold)
    seen: list[Partition] = []
    for pair in (None, *sorted(pairs, key=lambda pair: -pairs[pair].missed)):
        links.add_edges_from([] if pair is None else [pair])
        found = [sorted(part, key=names.index) for part in nx.connected_components(links)]
        partition = Partition({"-".join(members): members for members in found})
        if partition not in seen:
            seen.append(partition)
            yield partition


def _groups(partition: Partition) -> Groups:
    return tuple(members for members in partition.groups.values() if members)


def _same(a: str, b: str) -> bool:
    """Whether two variables belong to one attribute."""
    return a.partition(": ")[0] == b.partition(": ")[0]


def _strongest(found: Mapping[tuple[str, str], Estimate]) -> str:
    """The largest correlations that are certain; nothing if there are none."""
    notable = {p: e for p, e in found.items() if abs(e.value) >= _NOTABLE and e.excludes_zero}
    first = sorted(notable, key=lambda pair: -abs(notable[pair].value))[:_SHOWN]
    texts = [f"{b} with {a} ({number(notable[a, b].value, 2, signed=True)})" for a, b in first]
    return listed(texts) if texts else ""


def percent(gap: Estimate) -> str:
    """A gap in percent, with its interval."""
    low, high = (round(100 * end) for end in (gap.low, gap.high))
    return f"{100 * gap.value:.0f} % {interval(low, high, 0)}"
