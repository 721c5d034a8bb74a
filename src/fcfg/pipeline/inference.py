"""From images to noise and back, in chunks that fit the memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.causal.graph import Partition
from fcfg.causal.scm import Keys
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import ConditionalPredictor, Images
from fcfg.diffusion.semantic import SemanticDenoiser
from fcfg.guidance import Guidance, WeightTable
from fcfg.model import Action
from fcfg.pipeline.alignment import AlignedPredictor, GuidedBranch, align
from fcfg.pipeline.batching import (
    condition_of,
    fetch,
    group_mask,
    in_chunks,
    plan_on,
    semantics_of,
    send,
)
from fcfg.pipeline.drawn_noise import draw_noise
from fcfg.pipeline.records import Abduction, Needs
from fcfg.sampling import (
    AbstractSolver,
    Anchor,
    OnStep,
    Path,
    PathRecorder,
    Trajectory,
    integrate,
)
from fcfg.support.errors import check_integer, short


def abduct_images(
    denoiser: Denoiser,
    replaying: Callable[[AbstractSolver], AbstractSolver],
    model: str,
    images: Images,
    table: Table,
    keys: Keys,
    needs: Needs,
    batch_size: int,
    on_step: OnStep | None,
) -> Abduction:
    """Infer or draw the noise behind images, with a solver as the pipeline prepares it."""
    check_integer("batch_size", batch_size, 1, 10**9, do="256 is the default")
    semantics = semantics_of(denoiser, images, batch_size)
    times = needs.sampling.times(denoiser.schedule)
    known = (needs.sampling, times, model)
    if needs.path == "drawn":
        end, path = draw_noise(denoiser, images, keys, times, on_step)
        return Abduction(images, table, keys, end, *known, path, semantics, noise_is_drawn=True)
    end, path = infer_noise(
        *(denoiser, images, table, semantics, times, replaying(needs.sampling.solver)),
        keep_path=needs.path == "inferred",
        batch_size=batch_size,
        on_step=on_step,
    )
    return Abduction(images, table, keys, end, *known, path, semantics)


def restore_abduction(
    denoiser: Denoiser,
    model: str,
    images: Images,
    table: Table,
    keys: Keys,
    needs: Needs,
    inferred: Mapping[str, Tensor],
) -> Abduction | None:
    """Return an abduction from what was inferred before; None if anything is missing."""
    semantics, path = inferred.get("semantics"), None
    if not {"x", "evaluations"} <= inferred.keys() or inferred["x"].shape != images.shape:
        return None
    if (semantics is None) == isinstance(denoiser, SemanticDenoiser):
        return None
    if needs.path == "inferred":
        if "states" not in inferred:
            return None
        noises = inferred.get("noises")
        path = Path(
            inferred["states"].transpose(0, 1),
            None if noises is None else noises.transpose(0, 1),
        )
    end = Trajectory(
        inferred["x"],
        tuple(inferred[name] for name in sorted(inferred) if name.startswith("companion")),
        inferred.get("residual"),
        inferred["evaluations"],
    )
    times = needs.sampling.times(denoiser.schedule)
    return Abduction(
        *(images, table, keys, Trajectory.joined([end]), needs.sampling, times, model, path),
        semantics,
    )


def infer_noise(
    denoiser: Denoiser,
    images: Images,
    attributes: Table,
    semantics: Float[Tensor, "images latent"] | None,
    times: tuple[int, ...],
    solver: AbstractSolver,
    *,
    keep_path: bool,
    batch_size: int,
    on_step: OnStep | None,
) -> tuple[Trajectory, Path | None]:
    """Invert images under their attributes, without guidance.

    Args:
        denoiser: The denoiser.
        images: Images in [-1, 1].
        attributes: Their attributes.
        semantics: Output of :func:`fcfg.pipeline.batching.semantics_of`.
        times: Ascending times.
        solver: The solver.
        keep_path: Whether to keep the states at all times.
        batch_size: Largest number of network rows per call.
        on_step: Callback invoked after every step.

    Returns:
        The noise and, if it is kept, the path to it; on the CPU.
    """
    plan = plan_on(denoiser, times)
    start = Trajectory(images.to(denoiser.state_dtype))

    def work(rows: slice, report: OnStep) -> tuple[Trajectory, Path | None]:
        condition = condition_of(denoiser, attributes, semantics, rows)
        predictor = ConditionalPredictor(denoiser, condition)
        chunk = start.map(lambda tensor: send(tensor[rows], denoiser.device))
        recorder = PathRecorder(chunk.x, report)
        end = integrate(predictor, chunk, plan, solver, recorder if keep_path else report)
        return end.map(fetch), recorder.path.map(fetch) if keep_path else None

    pieces = in_chunks(denoiser, len(images), batch_size, work, on_step)
    paths = [path for _, path in pieces if path is not None]
    return Trajectory.joined([end for end, _ in pieces]), Path.joined(paths) if paths else None


def generate_images(
    denoiser: Denoiser,
    abduction: Abduction,
    action: Action,
    guidance: Guidance,
    partition: Partition,
    weights: WeightTable,
    anchor: Anchor | None,
    *,
    solver: AbstractSolver,
    batch_size: int,
    on_step: OnStep | None,
) -> Trajectory:
    """Generate images from inferred noise under counterfactual attributes.

    Args:
        denoiser: The denoiser.
        abduction: The noise, and the factual attributes.
        action: The counterfactual attributes.
        guidance: The guidance.
        partition: Its groups.
        weights: Its weights on the grid of the abduction.
        anchor: Errors of the factual branch, which are subtracted.
        solver: The solver.
        batch_size: Largest number of network rows per call.
        on_step: Callback invoked after every step.

    Returns:
        The images, unclamped, on the CPU.
    """
    plan = plan_on(denoiser, abduction.times[::-1], weights)
    keep = group_mask(denoiser, partition, weights)

    def work(rows: slice, report: OnStep) -> Trajectory:
        condition = condition_of(denoiser, action.attributes, abduction.semantics, rows)
        factual = condition_of(denoiser, abduction.attributes, abduction.semantics, rows)
        start = abduction.trajectory.map(lambda tensor: send(tensor[rows], denoiser.device))
        errors = None if anchor is None else send(anchor.corrections[:, rows], denoiser.device)
        predictor = guidance.predictor(denoiser, condition, factual, keep)
        if guidance.align:
            assert guidance.rule is not None, "guidance refuses other ones"
            assert abduction.path is not None, "the caller refuses abductions without a path"
            states = send(abduction.path.states[:, rows], denoiser.device)
            branch = GuidedBranch(denoiser, factual, keep, guidance.rule)
            nulls, spent = align(branch, states, plan, guidance.align)
            start = replace(start, evaluations=start.evaluations + spent)
            predictor = AlignedPredictor(replace(branch, condition=condition), nulls)
        return integrate(predictor, start, plan, solver, report, errors).map(fetch)

    count, size = len(abduction.trajectory.x), batch_size // weights.rows
    end = Trajectory.joined(in_chunks(denoiser, count, size, work, on_step))
    if anchor is None or abduction.path is None:
        return end
    # An image whose attributes stay as they are is exact, but for rounding.
    same, image = abduction.unchanged(action), abduction.path.states[0]
    x = torch.where(same.view(-1, 1, 1, 1), image, end.x)
    return replace(end, x=x, evaluations=end.evaluations + anchor.evaluations)


def warn_of_broken(images: Images, guidance: Guidance) -> None:
    """Warn of images that are not finite.

    Args:
        images: Generated images.
        guidance: Guidance they were generated with.
    """
    broken = (~images.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
    if broken:
        warnings.warn(
            f"counterfactual: NaN or infinity in the images {short(broken)} under {guidance}; "
            "lower its weights or take more steps",
            stacklevel=4,
        )
