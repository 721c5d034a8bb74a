"""The defaults of a model: guidance, groups and sampling, from its calibration if it has one."""

from __future__ import annotations

from collections.abc import Collection

from fcfg.causal.graph import CausalGraph, Partition
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.semantic import SemanticDenoiser
from fcfg.guidance import Guidance
from fcfg.pipeline.calibration import Calibration
from fcfg.sampling import (
    ANCHORED,
    DRAWN_NOISE,
    PRESETS,
    SamplingConfig,
    SamplingLike,
    as_sampling,
)
from fcfg.support.errors import InputError, check_is

#: Guidance of a model without a calibration; 1.7 is about the median of calibrated weights.
DEFAULT_GUIDANCE = Guidance.parse("contrast:1.7;anchor=true;drawn_noise=true")
#: That of the paper's sampling.
PAPER_GUIDANCE = Guidance.fcfg(affected=3.0, invariant=1.2)
SEMANTIC_GUIDANCE = Guidance.cfg(2.0)  #: instead of the paper's, for SA-DCG
#: What a comparison asks SA-DCG beside its default, with the sampling that the alignment needs.
SEMANTIC_COMPARED = {
    "guidance": ("cfg:2.0", "cfg:3.0", "cfg:2.0;align=1", "cfg:2.0;anchor=true"),
    **as_sampling("ddim uniform 50").to_json(),
}


def choose_guidance(
    denoiser: Denoiser,
    calibration: Calibration | None,
    targets: Collection[str],
    guidance: Guidance | None,
    *,
    anchor: bool | None,
    sampling: SamplingLike,
) -> Guidance:
    """Return the guidance of a question: a given one, or a default.

    The paper's sampling has the paper's guidance by default, and is never anchored.

    Args:
        denoiser: Denoiser of the model.
        calibration: Calibration of the model.
        targets: Attributes intervened on.
        guidance: Rule, and weight for each group of attributes, if given.
        anchor: Whether to anchor; by default as the guidance says.
        sampling: Solver, grid and steps.
    """
    is_paper = as_sampling(sampling) == PRESETS["paper"]
    is_semantic, is_given = isinstance(denoiser, SemanticDenoiser), guidance is not None
    if guidance is None and not is_paper and calibration is not None:
        guidance = calibration.guidance(targets)
    elif guidance is None and is_semantic:
        guidance = SEMANTIC_GUIDANCE
    elif guidance is None:
        guidance = PAPER_GUIDANCE if is_paper else DEFAULT_GUIDANCE
    check_is("guidance", guidance, Guidance, "a fcfg.Guidance", do="call Guidance.parse(text)")
    if anchor is False and not is_given:
        guidance = guidance.replace(drawn_noise=False, anchor=False)
    elif anchor is not None:
        guidance = guidance.replace(anchor=anchor)
    if guidance.anchor and is_paper:
        raise InputError(
            f"guidance {guidance}",
            expected="no anchor with the sampling 'paper', or with an abduction without a path",
            got="anchor=true",
            do="leave the anchor out (--no-anchor), or choose another sampling",
        )
    return guidance


def choose_groups(
    denoiser: Denoiser,
    graph: CausalGraph,
    guidance: Guidance,
    targets: Collection[str],
    partition: Partition | None = None,
) -> Partition:
    """Return the groups of attributes of a question: given ones, or those of the guidance.

    Args:
        denoiser: Denoiser of the model; one that cannot mask single attributes refuses groups.
        graph: Causal graph of the attributes.
        guidance: Guidance of the question.
        targets: Attributes intervened on.
        partition: Attributes of each group, if given.
    """
    if partition is not None:
        check_is("partition", partition, Partition, "a fcfg.Partition")
    if guidance.factored:
        denoiser.embedder.check_separate(f"guidance {guidance!r}")
    return guidance.partition(graph, targets, partition)


def default_sampling(
    calibration: Calibration | None, anchored: bool, drawn_noise: bool
) -> SamplingConfig:
    """Return the default solver, grid and steps.

    Args:
        calibration: Calibration of the model, whose sampling is used if it was anchored alike.
        anchored: Whether predictions are anchored.
        drawn_noise: Whether their noise is drawn, and not inferred.
    """
    if calibration is not None:
        rule = Guidance.parse(calibration.rule)
        if (rule.anchor, rule.drawn_noise) == (anchored, drawn_noise):
            return as_sampling(calibration.sampling)
    if drawn_noise:
        return DRAWN_NOISE
    return ANCHORED if anchored else PRESETS["default"]
