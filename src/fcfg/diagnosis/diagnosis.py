"""The diagnosis of a model: gaps of its groupings, a suggestion of groups, and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import networkx as nx
import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.graph import Partition
from fcfg.diagnosis.pushes import Gap, Groups, measure_gain, measure_gaps
from fcfg.judge import AttributeJudge
from fcfg.metrics import Bootstrap, Estimate, correlation
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.reports.wording import interval, listed, named, number
from fcfg.sampling.grids import time_grid
from fcfg.support.errors import InputError, check_integer
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.images import ImagesLike
from fcfg.support.progress import OnProgress
from fcfg.support.tables import TableLike

#: Largest gap of groups that count as independent. Weights are chosen in steps of about a fifth
#: (1.2, 1.5, 1.7, 2, 2.5 and 3 in the paper), so an error below that is less than one step.
THRESHOLD = 0.2
_NOTABLE, _SHOWN = 0.2, 6  # smallest correlation in the verdict, and how many of them
_FEWEST = 30  # images whose correlations are worth a sentence
_PASS = 0.75  # share of what is left of the progress that one pass takes


class Association(NamedTuple):
    """Correlation of a variable with another one, and with the judge's score of the other one."""

    data: Estimate
    reading: Estimate | None  #: None without a judge


#: By pair of variables; those of one attribute, and constant ones, have no association.
Associations: TypeAlias = dict[tuple[str, str], Association]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Whether the groups of a model's attributes act independently."""

    attributes: tuple[str, ...]
    times: tuple[int, ...] = field(repr=False)
    gain: Estimate  #: of the attributes of an image over those of another
    by_attribute: Gap  #: gap of one group for each attribute
    by_intervention: dict[str, Gap] = field(repr=False)
    """Gap of the groups affected and invariant, by target, if there are invariants."""
    pairs: dict[tuple[str, str], Gap] = field(repr=False)  #: two attributes, the others masked
    suggestion: Partition
    suggested: Gap = field(repr=False)  #: gap of the suggestion; at most the threshold
    associations: Associations = field(repr=False)
    images: int  #: with noise, for gain and gaps
    correlated: int  #: for the associations
    seed: int
    threshold: float
    trained_on_parts: bool | None = None
    """Whether single attributes were left out in training; None if the model does not say."""

    @property
    def uses_attributes(self) -> bool:
        """Whether the attributes help to predict noise: the interval of their gain is above 0."""
        return self.gain.low > 0

    @property
    def verdict(self) -> list[str]:
        """What the numbers say, in sentences; the first one is about the groups to use.

        If the model does not seem to use its attributes, the first one says so instead.
        """
        if self.uses_attributes:
            return [*self._on_groups(), *self._on_interventions(), *self._on_data()]
        unused = (
            "The model does not seem to use its attributes, so nothing is said about "
            "groups: with those of an image it predicts noise no better than with those of "
            f"another (gain {percent(self.gain)}; 100 % if exact). Train it for longer, check "
            "the values of the attributes, or take more images."
        )
        return [unused, *self._on_data()]

    def _on_groups(self) -> Iterator[str]:
        shared = [group for group in self.suggestion.groups.values() if len(group) > 1]
        said = f"{percent(self.by_attribute.overall)} of the push of all attributes together"
        if not shared:
            yield f"One group per attribute is justified: their sum misses {said}."
        elif len(self.suggestion) == 1:
            yield f"All attributes should share one group, as in CFG: apart, they miss {said}."
        else:
            left = f"; as suggested, only {percent(self.suggested.overall)}"
            yield f"These should share a group: {'; '.join(map(listed, shared))}."
            yield f"The sum of one group per attribute misses {said}{left}."
        close = [
            f"{a} and {b} ({percent(gap.overall)})"
            for (a, b), gap in self.pairs.items()
            if gap.overall.low <= self.threshold < gap.overall.high
        ]
        if close:
            limit = f"{100 * self.threshold:.0f} %"
            yield f"Too close to {limit} to be sure: {listed(close)}. More images would decide."
        if shared and self.trained_on_parts is False:
            yield (
                "The model was trained with the whole condition or none of it (p_group: 0), so it "
                "extrapolates to a part. Training with p_group above 0 may lower the gaps."
            )

    def _on_interventions(self) -> Iterator[str]:
        gaps = {named(target): gap.overall for target, gap in self.by_intervention.items()}
        poor = [f"{do} ({percent(gap)})" for do, gap in gaps.items() if gap.value > self.threshold]
        if poor:
            yield f"The groups affected and invariant do not add up under {listed(poor)}."
        elif gaps:
            do, gap = max(gaps.items(), key=lambda item: item[1].value)
            yield (
                "The groups affected and invariant are justified under every intervention: their "
                f"sum misses at most {percent(gap)}, under {do}."
            )

    def _on_data(self) -> Iterator[str]:
        if self.correlated < _FEWEST:
            yield f"{self.correlated} images are too few to say which attributes are correlated."
            return
        found = self.associations
        data = {(a, b): of.data for (a, b), of in found.items() if a < b}
        told = [f"{b} with {a} ({_signed(data[a, b])})" for a, b in _strongest(data)]
        yield (
            f"Correlated in the data: {listed(told)}." if told else "No attributes are correlated."
        )
        read = {pair: of.reading for pair, of in found.items() if of.reading is not None}
        more = {
            pair: (reading - found[pair].data).scaled(float(np.sign(reading.value)))
            for pair, reading in read.items()
        }
        told = [
            f"{b} with {a} ({_signed(read[a, b])} instead of {_signed(found[a, b].data)})"
            for a, b in _strongest({pair: e for pair, e in more.items() if e.value > 0})
        ]
        if told:
            yield f"The judge takes one for a sign of another: {listed(told)}."

    def to_json(self) -> dict[str, Any]:
        """All numbers, for a file."""
        names = ("attributes", "images", "seed", "threshold", "times", "trained_on_parts")
        gaps = {name: getattr(self, name).to_json() for name in ("suggested", "by_attribute")}
        return {name: getattr(self, name) for name in (*names, "uses_attributes", "verdict")} | {
            **gaps,
            "gain": self.gain.to_json(),
            "suggestion": self.suggestion.groups,
            "by_intervention": {do: gap.to_json() for do, gap in self.by_intervention.items()},
            "pairs": [gap.to_json() for gap in self.pairs.values()],
            "associations": [
                {"pair": pair, **{k: e and e.to_json() for k, e in found._asdict().items()}}
                for pair, found in self.associations.items()
            ],
        }


def diagnose(
    pipeline: CounterfactualPipeline,
    images: ImagesLike,
    attributes: TableLike,
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
    denoiser, names, graph = pipeline.denoiser, pipeline.space.names, pipeline.graph
    silent = denoiser.schedule.is_silent  # without a signal, attributes cannot change the noise
    denoiser.embedder.check_separate("diagnosis")
    if len(names) < 2:
        do = "a single one needs no groups"
        raise InputError("model", expected="two attributes or more", got=len(names), do=do)
    if not 0 <= threshold <= 1:
        do = f"{THRESHOLD} is the default"
        raise InputError("threshold", expected="a number from 0 to 1", got=threshold, do=do)
    check_integer("noised", noised, 1, 10**7, do="64 is the default")
    check_integer("times", times, 2, denoiser.schedule.steps - silent, do="10 is the default")
    check_integer("seed", seed, 0, LARGEST_SEED, do="0 is the default")
    x = pipeline.read_images(images)
    table = pipeline.space.parse(attributes, len(x))
    rows = np.arange(min(noised, len(x))) * len(x) // min(noised, len(x))
    chosen = x[rows], {name: column[rows] for name, column in table.items()}
    grid, start = time_grid(denoiser.schedule, times + silent, "log-snr")[1 : times + 1], 0.0
    gaps: dict[Groups, Gap] = {}

    def report(share: float) -> None:
        if on_progress is not None:  # it is not known how many groupings will be tried
            on_progress(start + _PASS * (1 - start) * share)

    def measure(*groupings: Groups) -> None:
        nonlocal start
        if new := [groups for groups in dict.fromkeys(groupings) if groups not in gaps]:
            draw: dict[str, Any] = {"seed": seed, "batch_size": batch_size, "on_progress": report}
            found = measure_gaps(denoiser, *chosen, new, grid, **draw)
            gaps.update(zip(new, found, strict=True))
        start += _PASS * (1 - start)

    singles = tuple((name,) for name in names)
    pairs = {(a, b): ((a,), (b,)) for a, b in combinations(names, 2)}
    splits = {name: _groups(Partition.by_intervention(graph, [name])) for name in names}
    splits = {name: groups for name, groups in splits.items() if len(groups) > 1}
    measure(singles, (names,), *splits.values(), *pairs.values())
    of_pairs = {pair: gaps[groups] for pair, groups in pairs.items()}
    suggestion = Partition.single(graph)
    for suggestion in candidates(names, of_pairs, threshold):
        measure(_groups(suggestion))
        if gaps[_groups(suggestion)].overall.value <= threshold:
            break
    provenance = pipeline.provenance.get("training", {})
    training = provenance.get("model", provenance.get("diffusion", {}))  # of the shipped models
    parts = training.get("p_group"), training.get("independence")  # what shows parts in training
    return Diagnosis(
        names,
        grid,
        measure_gain(denoiser, *chosen, grid, seed=seed, batch_size=batch_size),
        gaps[singles],
        {name: gaps[groups] for name, groups in splits.items()},
        of_pairs,
        suggestion,
        gaps[_groups(suggestion)],
        measure_associations(pipeline.space, table, x, pipeline.judge),
        images=len(rows),
        correlated=len(x),
        seed=seed,
        threshold=threshold,
        trained_on_parts=None if parts[0] is None else any(parts),
    )


def measure_associations(
    space: AttributeSpace,
    attributes: Table,
    images: Float[Tensor, "image channel *size"],
    judge: nn.Module | None,
) -> Associations:
    """Correlate the attributes of real images with each other and with what a judge reads.

    A categorical attribute counts as one variable for each level, such as 'hair: grey'.
    """
    bootstrap = Bootstrap(len(images))
    variables = [(number, attribute.name) for attribute in space for number in attribute.numbers]
    values = space.encode(attributes).astype(np.float64)
    scores = None
    if isinstance(judge, AttributeJudge):
        read = judge.read(images).scores
        scores = np.concatenate([read[n].reshape(len(images), -1) for n in space.names], axis=1)
    found: Associations = {}
    for i, (a, owner) in enumerate(variables):
        for j, (b, other) in enumerate(variables):
            data, reading = (
                None
                if table is None
                else correlation(table[:, j], values[:, i], bootstrap, ranked=False)
                for table in (values, scores)
            )
            if owner != other and data is not None:
                found[a, b] = Association(data, reading)
    return found


def candidates(
    names: tuple[str, ...], pairs: Mapping[tuple[str, str], Gap], threshold: float
) -> Iterator[Partition]:
    """Return groups to suggest, in the order to try them.

    Attributes with a gap above the threshold are together in all of them, directly or through
    others. Then the pair that misses most is joined, one after the other, up to a single group.
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


def percent(share: Estimate) -> str:
    """A gap or a gain in percent, with its interval."""
    return f"{number(100 * share.value, 0)} % {interval(100 * share.low, 100 * share.high, 0)}"


def _groups(partition: Partition) -> Groups:
    return tuple(members for members in partition.groups.values() if members)


def _strongest(found: Mapping[tuple[str, str], Estimate]) -> list[tuple[str, str]]:
    """The pairs of the largest correlations whose intervals exclude 0."""
    notable = {p: e for p, e in found.items() if abs(e.value) >= _NOTABLE and e.excludes_zero}
    return sorted(notable, key=lambda pair: -abs(notable[pair].value))[:_SHOWN]


def _signed(estimate: Estimate) -> str:
    return number(estimate.value, 2, signed=True)
