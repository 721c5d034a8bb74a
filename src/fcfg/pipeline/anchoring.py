"""The factual branch of anchored predictions, which serves all questions under one guidance."""

from __future__ import annotations

import torch

from fcfg.causal.graph import Partition
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import TwoStagePredictor
from fcfg.guidance import Guidance
from fcfg.pipeline.batching import condition_of, fetch, group_mask, in_chunks, plan_on, send
from fcfg.pipeline.records import Abduction, FactualBranch
from fcfg.sampling import Anchor, OnStep, anchor_path


def find_anchor(
    denoiser: Denoiser,
    abduction: Abduction,
    guidance: Guidance,
    partition: Partition,
    batch_size: int,
) -> FactualBranch:
    """Return the branch that the abduction has for this guidance, or measure it.

    Args:
        denoiser: The denoiser.
        abduction: An abduction that kept its path.
        guidance: Guidance of the factual branch, see :attr:`fcfg.Guidance.factual`.
        partition: Groups of the guidance.
        batch_size: Largest number of network rows per call.
    """
    path, times = abduction.path, abduction.times[::-1]
    assert path is not None, "the caller refuses abductions without a path"
    weights = guidance.table(partition, times, denoiser.schedule)
    keep = group_mask(denoiser, partition, weights)
    key = repr((guidance.rule, keep.tolist(), weights.weights.tolist(), weights.guided))
    if abduction.anchor is not None and abduction.anchor.guidance == key:
        return abduction.anchor
    plan = plan_on(denoiser, times, weights)

    def work(rows: slice, report: OnStep) -> Anchor:
        condition = condition_of(denoiser, abduction.attributes, abduction.semantics, rows)
        predictor = guidance.predictor(denoiser, condition, condition, keep)
        assert isinstance(predictor, TwoStagePredictor), "guidance refuses other ones"
        start = abduction.trajectory.map(lambda tensor: send(tensor[rows], denoiser.device))
        here = path.map(lambda tensor: send(tensor[:, rows], denoiser.device))
        anchor = anchor_path(predictor, here, start, plan, abduction.solver, batch_size)
        return Anchor(fetch(anchor.corrections), anchor.evaluations)

    size = max(1, batch_size // weights.rows)
    pieces = in_chunks(denoiser, len(abduction.trajectory.x), size, work, None)
    corrections = torch.cat([piece.corrections for piece in pieces], dim=1)
    return FactualBranch(corrections, pieces[0].evaluations, key)
