"""From images to noise, along the factual branch, and to counterfactual images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import ConditionalPredictor, Images, TwoStagePredictor
from fcfg.model import Action, Factual
from fcfg.pipeline.alignment import AlignedPredictor, GuidedBranch, align
from fcfg.pipeline.batching import Batches, fetch
from fcfg.pipeline.drawn_noise import draw_noise
from fcfg.pipeline.plans import GuidedPlan, Needs
from fcfg.pipeline.records import Abduction, DecodedAnswer, FactualBranch
from fcfg.sampling import (
    Anchor,
    Correction,
    OnStep,
    Path,
    PathRecorder,
    StepRecord,
    Trajectory,
    anchor_path,
    integrate,
)
from fcfg.support.images import per_image, pixel_axes
from fcfg.support.tensors import joined, mapped

States: TypeAlias = Float[Tensor, "times rows channel *size"]


def abduct_images(batches: Batches, factual: Factual, needs: Needs, model: str) -> Abduction:
    """Infer or draw the noise behind images under their attributes."""
    semantics = batches.semantics(factual.images)
    times, x = needs.sampling.times(batches.denoiser.schedule), batches.encoded(factual.images)
    if needs.path == "drawn":
        end, path = draw_noise(batches, x, factual.keys, times, needs.drawing)
    else:
        end, path = _infer_noise(batches, x, factual.attributes, semantics, times, needs)
    return Abduction(
        **vars(factual),
        trajectory=end,
        sampling=needs.sampling,
        times=times,
        model=model,
        path=path,
        semantics=semantics,
        drawing=needs.drawing if needs.path == "drawn" else None,
    )


def _infer_noise(
    batches: Batches,
    x: Images,
    attributes: Table,
    semantics: Float[Tensor, "images latent"] | None,
    times: tuple[int, ...],
    needs: Needs,
) -> tuple[Trajectory, Path | None]:
    """Return the noise and, if it is kept, the path to it: an inversion without guidance."""
    denoiser, keeps_path = batches.denoiser, needs.path == "inferred"
    steps, solver = batches.steps(times), batches.solver(needs.sampling.solver)
    start = Trajectory(x)

    def work(rows: slice, report: OnStep) -> tuple[Trajectory, Path | None]:
        condition = batches.condition(attributes, semantics, rows)
        chunk = start.map(lambda tensor: batches.send(tensor[rows]))
        recorder = PathRecorder(chunk.x, report)
        on_step = recorder if keeps_path else report
        end = integrate(ConditionalPredictor(denoiser, condition), chunk, steps, solver, on_step)
        return end.map(fetch), mapped(fetch, recorder.path) if keeps_path else None

    pieces = batches.work(len(x), 1, work)
    paths = [path for _, path in pieces if path is not None]
    return Trajectory.joined([end for end, _ in pieces]), joined(paths, dim=1) if paths else None


def restore_abduction(
    denoiser: Denoiser, model: str, factual: Factual, needs: Needs, inferred: Mapping[str, Tensor]
) -> Abduction | None:
    """Return an abduction from what was inferred before; None if anything is missing."""
    needed, path = {"x", "evaluations"}, None
    needed |= {"states"} if needs.path == "inferred" else set()
    needed |= {"semantics"} if denoiser.semantic_width else set()
    shape = (len(factual.images), *denoiser.state_shape(factual.images.shape[2:]))
    if not needed <= inferred.keys() or inferred["x"].shape != shape:
        return None
    if needs.path == "inferred":
        noises = inferred.get("noises")
        noises = None if noises is None else noises.transpose(0, 1)
        path = Path(inferred["states"].transpose(0, 1), noises)
    companions = (inferred[name] for name in sorted(inferred) if name.startswith("companion"))
    about = (inferred.get("residual"), inferred["evaluations"])
    end = Trajectory.joined([Trajectory(inferred["x"], tuple(companions), *about)])
    return Abduction(
        **vars(factual),
        trajectory=end,
        sampling=needs.sampling,
        times=needs.sampling.times(denoiser.schedule),
        model=model,
        path=path,
        semantics=inferred.get("semantics"),
    )


def ready(batches: Batches, abduction: Abduction, plan: GuidedPlan) -> Abduction:
    """Return the abduction with all that a plan needs: drawn noise, and its factual branch."""
    drawing = plan.setting.drawing
    if plan.setting.drawn_noise and abduction.drawing != drawing:
        assert abduction.path is not None, "the abduction was checked"
        quiet = replace(batches, on_step=None)
        image = abduction.path.states[0]
        end, path = draw_noise(quiet, image, abduction.keys, abduction.times, drawing)
        abduction = replace(abduction, trajectory=end, path=path, drawing=drawing, anchor=None)
    if not plan.setting.anchor:
        return abduction
    factual = plan.factual
    named = (factual.setting.rule, factual.keep.tolist(), factual.weights.weights.tolist())
    key = repr((*named, factual.weights.guided, plan.anchored))
    if abduction.anchor is not None and abduction.anchor.guidance == key:
        return abduction
    return replace(abduction, anchor=_measure_branch(batches, abduction, factual, key))


def _measure_branch(
    batches: Batches, abduction: Abduction, factual: GuidedPlan, key: str
) -> FactualBranch:
    path, times, weights = abduction.path, factual.times[::-1], factual.weights
    assert path is not None, "the abduction was checked"
    keep, steps = batches.send(factual.keep), batches.steps(times, weights)
    noises = factual.abduction.drawing.noises

    def work(rows: slice, report: OnStep) -> Anchor:
        condition = batches.condition(abduction.attributes, abduction.semantics, rows)
        condition = condition.repeat_interleave(noises, dim=0)
        predictor = factual.setting.predictor(batches.denoiser, condition, condition, keep)
        assert isinstance(predictor, TwoStagePredictor), "guidance refuses other ones"
        here = mapped(batches.send, path.flat(rows))
        start = _start(batches, abduction, rows, here.states if noises > 1 else None)
        anchor = anchor_path(
            predictor, here, start, steps, abduction.solver, batches.size, factual.anchored
        )
        return Anchor(fetch(anchor.corrections), noises * anchor.evaluations)

    pieces = batches.work(len(abduction.trajectory.x), weights.rows * noises, work)
    corrections = torch.cat([piece.corrections for piece in pieces], dim=1)
    return FactualBranch(corrections, pieces[0].evaluations, key)


def _start(
    batches: Batches, abduction: Abduction, rows: slice, states: States | None
) -> Trajectory:
    """Return where the way back begins; with several noises, which are drawn, at all of them."""
    if states is not None:
        return Trajectory(states[-1])
    return abduction.trajectory.map(lambda tensor: batches.send(tensor[rows]))


def generate_images(
    batches: Batches, abduction: Abduction, action: Action, plan: GuidedPlan
) -> Trajectory:
    """Return unclamped images under counterfactual attributes, from an abduction that is ready."""
    denoiser, guidance, weights = batches.denoiser, plan.setting, plan.weights
    steps, keep = batches.steps(plan.times[::-1], weights), batches.send(plan.keep)
    solver = batches.solver(abduction.solver)
    anchor, noises = abduction.anchor if guidance.anchor else None, guidance.noises

    def work(rows: slice, report: OnStep) -> Trajectory:
        condition, factual = (
            batches.condition(table, abduction.semantics, rows).repeat_interleave(noises, dim=0)
            for table in (action.attributes, abduction.attributes)
        )
        states = abduction.path.flat(rows).states if abduction.path and noises > 1 else None
        states = None if states is None else batches.send(states)
        start = _start(batches, abduction, rows, states)
        correct = None
        if anchor is not None:
            errors = batches.send(anchor.corrections.unflatten(1, (-1, noises))[:, rows])
            correct = Correction(errors.flatten(1, 2), states, noises, plan.anchored)
        predictor = guidance.predictor(denoiser, condition, factual, keep)
        if guidance.align:
            assert guidance.rule is not None, "guidance refuses other ones"
            assert abduction.path is not None, "the abduction was checked"
            states = batches.send(abduction.path.states[:, rows])
            branch = GuidedBranch(denoiser, factual, keep, guidance.rule)
            nulls, spent = align(branch, states, steps, guidance.align)
            start = replace(start, evaluations=start.evaluations + spent)
            predictor = AlignedPredictor(replace(branch, condition=condition), nulls)

        def first(record: StepRecord) -> None:
            x = record.trajectory.x[::noises]
            report(replace(record, trajectory=replace(record.trajectory, x=x)))

        end = integrate(predictor, start, steps, solver, first, correct)
        if noises > 1:
            x, spent = end.x[::noises], noises * end.evaluations
            end = Trajectory(x, evaluations=spent)
        return end.map(fetch)

    pieces = batches.work(len(abduction.trajectory.x), plan.rows, work)
    end = Trajectory.joined(pieces)
    if anchor is None or abduction.path is None:
        return end
    x = end.x
    if plan.anchored == len(steps) and guidance.source is None:
        # An image whose attributes stay as they are is exact, but for rounding.
        same, image = abduction.unchanged(action), abduction.path.states[0]
        x = torch.where(per_image(same, image), image, x)
    return replace(end, x=x, evaluations=end.evaluations + anchor.evaluations)


def decode_answer(batches: Batches, abduction: Abduction, end: Trajectory) -> DecodedAnswer | None:
    """Return the images of latents, and the round trip of the codec; None without a codec."""
    codec, images, path = batches.denoiser.codec, abduction.images, abduction.path
    if codec is None:
        return None
    factual = batches.encoded(images) if path is None else path.states[0]

    def work(rows: slice, report: OnStep) -> tuple[Tensor, Tensor]:
        before, after = (fetch(codec.decode(batches.send(z[rows]))) for z in (factual, end.x))
        return before, after

    before, after = joined(batches.work(len(images), 1, work))
    lost = (before - images).square().mean(dim=pixel_axes(images)).sqrt()
    return DecodedAnswer((images + after - before).to(images.dtype), lost.to(images.dtype))
