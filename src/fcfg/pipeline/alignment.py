r"""Alignment, the dynamic abduction of SA-DCG: a null condition for each image and time.

Guidance leaves the path of the abduction :math:`x_0, \dots, x_T`, even under the factual condition
c. From noise to image, the null condition :math:`\varphi_t` is optimised so that the guided step
leads back to the path, and then taken:

.. math:: \varphi_t = \arg\min_\varphi \lVert \operatorname{DDIM}(\bar x_t; \varphi, \omega, c)
    - x_s \rVert^2, \qquad \bar x_s = \operatorname{DDIM}(\bar x_t; \varphi_t, \omega, c)

The counterfactual is predicted with the same null conditions. No image depends on the others in
the batch.

Network rows count forward passes: at each guided time one under the factual condition, one for
each step of the optimisation, and one under its result. Backward passes are not counted; one takes
about as long as two rows.

References:
    Null-text inversion for editing real images (Mokady et al., 2023).
    Diffusion counterfactual generation with semantic abduction (Rasal et al., 2025).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import AbstractPredictor, Condition, Images, Prediction, State, Step
from fcfg.guidance import AbstractRule, Guidance, GuidedPredictor
from fcfg.sampling import DDIM, AbstractSolver, Steps
from fcfg.sampling.ddim import ddim_step
from fcfg.support.errors import InputError
from fcfg.support.images import pixel_axes

#: Learning rate of Adam at time T with T steps. At time t it is the share t / T of it, which is
#: the decay 1 - i / T of the i-th step; n steps have T / n times the rate, to lead as far, up to
#: a limit.
RATE = 1e-3
LARGEST_SCALE = 20.0
#: Mean squared error of a step, over pixels, below which an image is not optimised further.
ENOUGH = 1e-5


def check_alignment(guidance: Guidance, solver: AbstractSolver) -> None:
    """Refuse an alignment with another solver than DDIM."""
    if guidance.align and type(solver) is not DDIM:
        raise InputError(
            f"guidance {guidance!r}",
            expected="the solver ddim, which align needs",
            got=f"solver {solver}",
            do="choose the sampling 'ddim uniform 100', or another one of ddim",
        )


@dataclass(frozen=True, eq=False)
class GuidedBranch:
    """Guided steps of images under one condition, with any null condition."""

    denoiser: Denoiser
    condition: Condition
    keep: Bool[Tensor, "groups attributes"]  #: of the one group, if its weight is not 0
    rule: AbstractRule

    def predictor(self, null: Condition) -> GuidedPredictor:
        """Return the predictor with a null condition."""
        return GuidedPredictor(self.denoiser, self.condition, self.keep, self.rule, null)

    def only(self, rows: Int[Tensor, "rows"]) -> GuidedBranch:
        """Return the branch of some of the images."""
        return GuidedBranch(self.denoiser, self.condition[rows], self.keep, self.rule)

    def step(self, x: Images, step: Step, whole: Images, null: Condition) -> Images:
        """Take a step of DDIM."""
        guided = self.predictor(null)
        t = step.t.expand(len(x))
        evaluations = guided.evaluate(x, t, guided=step.guided, noise=whole)
        prediction, _ = guided.combine(x, step, evaluations, guided.init(x))
        return ddim_step(x, step, prediction.clean, prediction.renoise)


def align(
    branch: GuidedBranch,
    states: Float[Tensor, "times batch channel *size"],
    plan: Steps,
    inner: int,
) -> tuple[Float[Tensor, "steps batch condition"], Int[Tensor, "batch"]]:
    """Return the null conditions of all steps, and the network rows they took per image."""
    denoiser, x = branch.denoiser, states[-1]
    null = denoiser.embedder.null_for(branch.condition)
    nulls: list[Tensor] = []
    spent = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    scale = min(plan[0].t.item() / len(plan), LARGEST_SCALE)
    for step, target in zip(plan, states.flip(0)[1:], strict=True):
        whole = denoiser(x, step.t.expand(len(x)), branch.condition)
        if step.guided:
            rate = RATE * scale * step.t.item() / denoiser.schedule.steps
            null, rows = _optimise(branch, x, step, whole, target, null, inner, rate)
            spent += rows + 1
        spent += 1
        x = branch.step(x, step, whole, null)
        nulls.append(null)
    return torch.stack(nulls), spent


def _optimise(
    branch: GuidedBranch,
    x: Tensor,
    step: Step,
    whole: Tensor,
    target: Tensor,
    null: Tensor,
    inner: int,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """Return the null conditions that bring a step near its target, and the rows of each image."""
    found = null.clone().requires_grad_()
    optimiser = torch.optim.Adam([found], lr=rate)  # its state is elementwise: images are apart
    far = torch.ones(len(x), dtype=torch.bool, device=x.device)
    spent = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for _ in range(inner):
        rows = far.nonzero().flatten()
        if not len(rows):
            break
        with torch.enable_grad():
            after = branch.only(rows).step(x[rows], step, whole[rows], found[rows])
            losses = (after - target[rows]).square().mean(dim=pixel_axes(after))
            (found.grad,) = torch.autograd.grad(losses.sum(), found)
        spent[rows] += 1
        far[rows] = losses.detach() >= ENOUGH
        before = found.detach().clone()
        optimiser.step()
        found.data[~far] = before[~far]
    return found.detach(), spent


class AlignedPredictor(AbstractPredictor):
    """Predicts with a null condition for each step; its state counts the steps."""

    def __init__(
        self, branch: GuidedBranch, nulls: Float[Tensor, "steps batch condition"]
    ) -> None:
        self.branch, self.nulls = branch, nulls
        self.conditions = (branch.condition, nulls.flatten(0, 1))

    def init(self, x: Images) -> State:
        return (torch.zeros(1, dtype=torch.int64, device=x.device),)

    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        (index,) = state
        guided = self.branch.predictor(self.nulls.index_select(0, index)[0])
        prediction, _ = guided.predict(x, step, guided.init(x))
        return prediction, (index + 1,)
