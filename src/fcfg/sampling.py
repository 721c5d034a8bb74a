r"""Sampling: a grid of times, a solver, and one loop for both directions (Sec. 2.1).

The direction of time is a property of the grid: ascending times abduct (image to noise),
descending times predict (noise to image). The clean estimate is never clamped inside the loop,
since that would break the inverse.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fcfg.denoise import AbstractPredictor, Images, State, Step
from fcfg.errors import InputError, check_whole
from fcfg.schedule import NoiseSchedule, clean_image


def time_grid(schedule: NoiseSchedule, steps: int) -> tuple[int, ...]:
    """Ascending times 0..T in ``steps`` steps as even as integers allow.

    >>> time_grid(NoiseSchedule(), 3)
    (0, 333, 667, 1000)
    """
    last = schedule.steps
    do = f"100 is quick, {last} is the paper's" if last == 1000 else "choose within"
    steps = check_whole("steps", steps, 1, last, do=do)
    return tuple((2 * i * last + steps) // (2 * steps) for i in range(steps + 1))


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything a run needs to know about its steps: one table, as tensors on the device."""

    t: Int[Tensor, "steps"]
    s: Int[Tensor, "steps"]
    signal_t: Float[Tensor, "steps"]
    noise_t: Float[Tensor, "steps"]
    signal_s: Float[Tensor, "steps"]
    noise_s: Float[Tensor, "steps"]
    weights: Float[Tensor, "steps groups"]
    guided: tuple[bool, ...]
    ascending: bool

    @classmethod
    def build(
        cls,
        schedule: NoiseSchedule,
        times: Sequence[int],
        *,
        weights: Float[Tensor, "steps groups"] | None = None,
        guided: Sequence[bool] | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Plan:
        """Look everything up in float64, once.

        Args:
            schedule: The noise levels.
            times: Strictly ascending or strictly descending, within 0..T.
            weights: Of the guidance; none by default.
            guided: Which steps are guided; none by default.
            device: Of the tensors.
            dtype: Of the sampler state.
        """
        pairs = list(pairwise(times))
        ascending = bool(pairs) and pairs[0][0] < pairs[0][1]
        ordered = all((t < s) == ascending and t != s for t, s in pairs)
        if not (pairs and ordered and min(times) >= 0 and max(times) <= schedule.steps):
            raise InputError(
                "times",
                expected=f"at least two, strictly ordered, within 0 to {schedule.steps}",
                got=list(times) if len(times) < 12 else f"{len(times)} times",
                do="use time_grid",
            )
        t, s = torch.tensor(pairs, device=device).unbind(dim=1)
        if weights is None:
            weights = torch.zeros(len(pairs), 0)
        return cls(
            t=t,
            s=s,
            signal_t=schedule.signal(t).to(dtype),
            noise_t=schedule.noise(t).to(dtype),
            signal_s=schedule.signal(s).to(dtype),
            noise_s=schedule.noise(s).to(dtype),
            weights=weights.to(device, dtype),
            guided=(False,) * len(pairs) if guided is None else tuple(guided),
            ascending=ascending,
        )

    def __len__(self) -> int:
        return len(self.guided)

    def __iter__(self) -> Iterator[Step]:
        for i, guided in enumerate(self.guided):
            yield Step(
                t=self.t[i],
                s=self.s[i],
                signal_t=self.signal_t[i],
                noise_t=self.noise_t[i],
                signal_s=self.signal_s[i],
                noise_s=self.noise_s[i],
                weights=self.weights[i],
                guided=guided,
                ascending=self.ascending,
            )


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Where a run stands: what a solver starts from, what it returns, what abduction keeps."""

    x: Images = field(repr=False)  #: the images at this time, unclamped
    #: Second state of exactly invertible schemes.
    companions: tuple[Images, ...] = field(default=(), repr=False)
    residual: Float[Tensor, "batch"] | None = None  #: worst miss of a refined inversion (RMS)
    evaluations: int = 0  #: network rows spent so far on each image

    def map(self, function: Callable[[Tensor], Tensor]) -> Trajectory:
        """Apply a function to every tensor: move it, slice it."""
        return replace(
            self,
            x=function(self.x),
            companions=tuple(function(companion) for companion in self.companions),
            residual=None if self.residual is None else function(self.residual),
        )

    @staticmethod
    def joined(pieces: Sequence[Trajectory]) -> Trajectory:
        """Put the trajectories of several slices of a batch together."""
        residuals = [piece.residual for piece in pieces if piece.residual is not None]
        companions = zip(*(piece.companions for piece in pieces), strict=True)
        return replace(
            pieces[0],
            x=torch.cat([piece.x for piece in pieces]),
            companions=tuple(torch.cat(tensors) for tensors in companions),
            residual=torch.cat(residuals) if residuals else None,
        )


@dataclass(frozen=True, eq=False)
class StepRecord:
    """What ``on_step`` is told after every step."""

    index: int  #: of the step just done, from 0
    steps: int  #: how many the run has
    trajectory: Trajectory  #: of the images in hand
    ascending: bool  #: true in an abduction, false in a prediction
    first_image: int = 0  #: where ``trajectory.x[0]`` stands among the caller's images
    images: int = 0  #: how many the caller has

    @property
    def share(self) -> float:
        """How much of the abduction, or of the prediction, is done: 0 to 1."""
        count = len(self.trajectory.x)
        done = self.first_image * self.steps + count * (self.index + 1)
        return done / (self.steps * max(self.images, count))


OnStep = Callable[[StepRecord], None]


class AbstractSolver(ABC):
    """One step of a trajectory. History of multistep solvers is in the state."""

    @abstractmethod
    def init(self, trajectory: Trajectory) -> State:
        """State before the first step."""

    @abstractmethod
    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        asked: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """Go from step.t to step.s.

        Args:
            predictor: What to ask.
            trajectory: At time t.
            step: The step.
            asked: State of the predictor. Where a solver asks several times, the state that
                came with the question at (x_t, t) is kept.
            state: State of the solver.

        Returns:
            The trajectory at time s, and both states.
        """


@dataclass(frozen=True)
class DDIM(AbstractSolver):
    r"""Deterministic DDIM, in either direction (Song et al., 2021).

    .. math:: x_s = \sqrt{\alpha_s}\, \hat x_0(x_t, \epsilon_\text{clean})
        + \sqrt{1 - \alpha_s}\, \epsilon_\text{renoise}

    First order: the round trip error halves when the steps double.
    """

    def init(self, trajectory: Trajectory) -> State:
        """No state."""
        return ()

    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        asked: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """One evaluation at the current time."""
        x_t = trajectory.x
        prediction, asked = predictor.predict(x_t, step, asked)
        x_s = _ddim(x_t, step, prediction.clean, prediction.renoise)
        spent = trajectory.evaluations + predictor.rows(step)
        return replace(trajectory, x=x_s, evaluations=spent), asked, state


@dataclass(frozen=True)
class FixedPointDDIM(AbstractSolver):
    r"""DDIM whose inversion solves for the exact inverse of the generating step.

    Ascending, :math:`x_s` is iterated from :math:`x_t` on

    .. math:: x_s = \sqrt{\alpha_s}\, \hat x_0(x_t, \epsilon) + \sqrt{1 - \alpha_s}\, \epsilon,
        \qquad \epsilon = \epsilon_\theta(x_s, s, c),

    whose solution the DDIM step s → t leads back to :math:`x_t`. One iteration is what diffusers
    does. By how much the step back from the last iterate but one misses :math:`x_t` is reported
    as ``Trajectory.residual``. Where it does not fall, the step is too long for the iteration:
    on the cosine schedule that is the step to T, where the signal all but vanishes, so that the
    refinement gains little there. Descending, it is :class:`DDIM`.

    Args:
        iterations: Evaluations in each step.
    """

    iterations: int = 5

    def __post_init__(self) -> None:
        """Refuse no iteration at all."""
        check_whole("fixed-point iterations", self.iterations, 1, 1000, do="use 5")

    def init(self, trajectory: Trajectory) -> State:
        """No state."""
        return ()

    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        asked: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """Iterate upward; downward take the DDIM step."""
        if not step.ascending:
            return DDIM().step(predictor, trajectory, step, asked, state)
        back, x_s, last = step.reversed(), trajectory.x, trajectory.x
        for _ in range(self.iterations):
            last = x_s
            prediction, _ = predictor.predict(last, back, asked)
            eps = prediction.merged(back)
            x_s = _ddim(trajectory.x, step, eps, eps)
        missed = (x_s - last) * step.signal_t / step.signal_s
        residual = missed.square().mean(dim=(1, 2, 3)).sqrt()
        if trajectory.residual is not None:
            residual = residual.maximum(trajectory.residual)
        spent = trajectory.evaluations + self.iterations * predictor.rows(back)
        return replace(trajectory, x=x_s, residual=residual, evaluations=spent), asked, state


def _ddim(x_t: Tensor, step: Step, clean: Tensor, renoise: Tensor) -> Tensor:
    image = clean_image(x_t, clean, step.signal_t, step.noise_t)
    return step.signal_s * image + step.noise_s * renoise


def integrate(
    predictor: AbstractPredictor,
    trajectory: Trajectory,
    plan: Plan,
    solver: AbstractSolver,
    on_step: OnStep | None = None,
) -> Trajectory:
    """Follow a plan from its first time to its last."""
    asked, state = predictor.init(trajectory.x), solver.init(trajectory)
    for index, step in enumerate(plan):
        trajectory, asked, state = solver.step(predictor, trajectory, step, asked, state)
        if on_step is not None:
            on_step(StepRecord(index, len(plan), trajectory, plan.ascending))
    return trajectory
