"""The plan of a run, and the loop that follows it in either direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fcfg.diffusion.prediction import AbstractPredictor, Step
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.sampling.solver import AbstractSolver, Trajectory
from fcfg.support.errors import InputError


@dataclass(frozen=True, eq=False)
class Plan:
    """Times, noise levels and weights of all steps, as tensors on the device."""

    t: Int[Tensor, "steps"]
    s: Int[Tensor, "steps"]
    signal_t: Float[Tensor, "steps"]
    noise_t: Float[Tensor, "steps"]
    signal_s: Float[Tensor, "steps"]
    noise_s: Float[Tensor, "steps"]
    weights: Float[Tensor, "steps groups"]
    guided: tuple[bool, ...]
    at_image: tuple[bool, ...]  #: which steps begin or end at t = 0
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
        """Compute everything in float64, once.

        Times are strictly ascending or strictly descending. By default no step is guided.
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
            at_image=tuple(0 in pair for pair in pairs),
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
                first=i == 0,
                last=i == len(self) - 1,
                at_image=self.at_image[i],
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
    plan: Plan,
    solver: AbstractSolver,
    on_step: OnStep | None = None,
    corrections: Float[Tensor, "steps batch channel height width"] | None = None,
) -> Trajectory:
    """Follow a plan from its first time to its last.

    ``corrections`` are images to add after each step, see :mod:`fcfg.sampling.anchor`.
    """
    trajectory = solver.begin(predictor, trajectory)
    for index, step in enumerate(plan):
        trajectory = solver.step(predictor, replace(trajectory, noise=None), step)
        if corrections is not None:
            trajectory = replace(trajectory, x=trajectory.x + corrections[index])
        if on_step is not None:
            on_step(StepRecord(index, len(plan), trajectory, plan.ascending))
    return replace(trajectory, predictor_state=(), solver_state=())
