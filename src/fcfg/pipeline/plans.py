"""How a question is answered, resolved once: guidance, groups, weights and sampling."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

import torch
from jaxtyping import Bool
from torch import Tensor

from fcfg.causal.graph import CausalGraph, Partition
from fcfg.diffusion.denoiser import Denoiser
from fcfg.guidance import Drawing, Guidance, GuidanceLike, PathKind, WeightTable
from fcfg.model import Plan
from fcfg.pipeline.alignment import check_alignment
from fcfg.pipeline.calibration import Calibration
from fcfg.sampling import ANCHORED, DRAWN_NOISE, PRESETS, SamplingConfig, SamplingLike, as_sampling
from fcfg.support.errors import InputError, check_is

#: Guidance of a model without a calibration; 1.7 is about the median of calibrated weights.
DEFAULT_GUIDANCE = Guidance.parse("contrast:1.7;anchor=true;drawn_noise=true")
#: That of the paper's sampling.
PAPER_GUIDANCE = Guidance.fcfg(affected=3.0, invariant=1.2)
Mask: TypeAlias = Bool[Tensor, "_ attributes"]


@dataclass(frozen=True)
class Needs:
    """What an abduction must be to serve a question."""

    sampling: SamplingConfig  #: solver, grid and steps
    path: PathKind  #: states of the factual image that are kept
    drawing: Drawing = field(default_factory=Drawing)  #: of their noise, if it is drawn

    def __post_init__(self) -> None:
        """Refuse a solver that draws noise where the noise is inferred."""
        if self.sampling.solver.draws_noise and self.path != "drawn":
            raise InputError(
                f"sampling '{self.sampling}'",
                expected="a solver without noise of its own, where noise is inferred",
                got=f"solver {self.sampling.solver}",
                do="choose ddim, or a guidance with anchor=true;drawn_noise=true",
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class GuidedPlan(Plan[Guidance]):
    """How a pipeline answers a question, with all defaults filled in."""

    abduction: Needs  #: what the abduction must be
    partition: Partition  #: the guided groups
    times: tuple[int, ...] = field(repr=False)  #: the ascending grid
    weights: WeightTable = field(repr=False)  #: of the groups that have an effect, step by step
    factual_weights: WeightTable = field(repr=False)  #: those of the factual branch
    anchored: int = field(repr=False)  #: number of steps until the anchor is released
    keep: Mask = field(repr=False)  #: attributes of each group that has an effect
    factual_keep: Mask = field(repr=False)  #: those of the factual branch

    @classmethod
    def resolve(
        cls,
        denoiser: Denoiser,
        graph: CausalGraph,
        guidance: Guidance,
        sampling: SamplingConfig,
        targets: Collection[str],
        partition: Partition | None = None,
    ) -> Self:
        """Resolve a question once; refuse what does not fit together."""
        check_alignment(guidance, sampling.solver)
        if sampling.solver.draws_noise and guidance.release < 1 and guidance.correlation:
            raise InputError(
                f"guidance {guidance!r}",
                expected=f"correlation=0 with {sampling.solver}, whose plain steps draw new noise",
                got=str(guidance.correlation),
                do="add ;correlation=0, or choose the solver ddim",
            )
        if partition is not None:
            check_is("partition", partition, Partition, "a fcfg.Partition")
        if guidance.factored:
            denoiser.embedder.check_separate(f"guidance {guidance!r}")
        groups = guidance.partition(graph, targets, partition)
        times = sampling.times(denoiser.schedule)
        weights, factual_weights = (
            rule.table(groups, times[::-1], denoiser.schedule)
            for rule in (guidance, guidance.factual)
        )
        names, last = denoiser.embedder.space.names, denoiser.schedule.steps
        return cls(
            setting=guidance,
            rows=weights.rows * guidance.noises,
            sampling=sampling,
            groups=groups.groups,
            abduction=Needs(sampling, guidance.path, guidance.drawing),
            abduction_rows=int(guidance.path != "drawn"),
            kept_as="" if guidance.path == "drawn" else repr((sampling.solver, times)),
            partition=groups,
            times=times,
            weights=weights,
            factual_weights=factual_weights,
            anchored=sum((last - t) / last < guidance.release for t in times[1:]),
            keep=_mask(groups, weights, names),
            factual_keep=_mask(groups, factual_weights, names),
        )

    def shared(self) -> Self:
        """Return the plan with an abduction that keeps its path, for any guidance."""
        if self.abduction.path != "none":
            return self
        return replace(self, abduction=replace(self.abduction, path="inferred"))

    @property
    def factual(self) -> Self:
        """The plan of the factual branch of an anchored prediction."""
        own = {"weights": self.factual_weights, "keep": self.factual_keep}
        return replace(self, setting=self.setting.factual, **own)


def _mask(partition: Partition, weights: WeightTable, names: Sequence[str]) -> Mask:
    groups = Partition({group: partition[group] for group in weights.groups})
    mask = torch.tensor(groups.mask(names), dtype=torch.bool)
    return mask.view(len(weights.groups), len(names))


@dataclass(frozen=True)
class Defaults:
    """The guidance of models of one kind, where a question names none."""

    own: Guidance = DEFAULT_GUIDANCE  #: without a calibration
    paper: Guidance = PAPER_GUIDANCE  #: with the paper's sampling, which is never anchored

    def guidance(
        self,
        calibration: Calibration | None,
        targets: Collection[str],
        given: GuidanceLike | None,
        anchor: bool | None,
        is_paper: bool,
    ) -> Guidance:
        """Return the guidance of a question: a given one, that of a calibration, or a default."""
        if given is not None:
            guidance = Guidance.parse(given) if isinstance(given, str) else given
        elif is_paper:
            guidance = self.paper
        else:
            guidance = self.own if calibration is None else calibration.guidance(targets)
        check_is("guidance", guidance, Guidance, "a fcfg.Guidance", do="call Guidance.parse(text)")
        if anchor is False and given is None:
            guidance = guidance.unanchored
        elif anchor is not None:
            guidance = guidance.replace(anchor=anchor)
        if guidance.anchor and is_paper:
            raise InputError(
                f"guidance {guidance}",
                expected="no anchor with the sampling 'paper' or an abduction without a path",
                got="anchor=true",
                do="leave the anchor out (--no-anchor), or choose another sampling",
            )
        return guidance


def chosen_sampling(
    sampling: SamplingLike, calibration: Calibration | None, anchored: bool, drawn_noise: bool
) -> SamplingConfig:
    """Return solver, grid and steps; by default those of a calibration that is anchored alike."""
    default = DRAWN_NOISE if drawn_noise else ANCHORED if anchored else PRESETS["default"]
    if calibration is not None:
        rule = Guidance.parse(calibration.rule)
        if (rule.anchor, rule.drawn_noise) == (anchored, drawn_noise):
            default = as_sampling(calibration.sampling)
    return as_sampling(sampling, default)
