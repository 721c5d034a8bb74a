"""The steps of a run, and the loop that takes them in either direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import AbstractPredictor, Images, Step
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.sampling.solver import AbstractSolver, Trajectory
from fcfg.support.errors import InputError

Steps: TypeAlias = tuple[Step, ...]


def steps_along(
    schedule: NoiseSchedule,
    times: Sequence[int],
    *,
    weights: Float[Tensor, "steps groups"] | None = None,
    guided: Sequence[bool] | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Steps:
    """Return the steps along times that strictly ascend or descend, computed in float64, once.

    By default no step is guided.
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
    levels = (schedule.signal(t), schedule.noise(t), schedule.signal(s), schedule.noise(s))
    weights = torch.zeros(len(pairs), 0) if weights is None else weights
    numbers = zip(t, s, *(v.to(dtype) for v in levels), weights.to(device, dtype), strict=True)
    on = (False,) * len(pairs) if guided is None else guided
    silent = schedule.steps if schedule.is_silent else None
    return tuple(
        Step(
            *row,
            guided=is_guided,
            ascending=ascending,
            first=pair == pairs[0],
            last=pair == pairs[-1],
            at_image=0 in pair,
            at_noise=silent in pair,
            flow=schedule.is_flow,
        )
        for row, is_guided, pair in zip(numbers, on, pairs, strict=True)
    )


@dataclass(frozen=True, eq=False)
class StepRecord:
    """Argument of the callback ``on_step``, after every step."""

    index: int  #: of the finished step, from 0
    steps: int  #: number of steps
    trajectory: Trajectory  #: of the current chunk of images
    ascending: bool  #: true in an abduction, false in a prediction
    first_image: int = 0  #: index of ``trajectory.x[0]`` among the caller's images
    images: int = 0  #: number of the caller's images

    @property
    def share(self) -> float:
        """Share of the abduction or prediction that is done, 0 to 1."""
        count = len(self.trajectory.x)
        done = self.first_image * self.steps + count * (self.index + 1)
        return done / (self.steps * max(self.images, count))


OnStep = Callable[[StepRecord], None]


def integrate(
    predictor: AbstractPredictor,
    trajectory: Trajectory,
    plan: Steps,
    solver: AbstractSolver,
    on_step: OnStep | None = None,
    correct: Callable[[int, Images], Images] | None = None,
) -> Trajectory:
    """Take steps from the first time to the last.

    ``correct`` is applied to the images after each step, see :mod:`fcfg.sampling.anchor`.
    """
    trajectory = solver.begin(predictor, trajectory)
    for index, step in enumerate(plan):
        trajectory = solver.step(predictor, replace(trajectory, noise=None), step)
        if correct is not None:
            trajectory = replace(trajectory, x=correct(index, trajectory.x))
        if on_step is not None:
            on_step(StepRecord(index, len(plan), trajectory, step.ascending))
    return replace(trajectory, predictor_state=(), solver_state=())
