"""The sampling configuration: solver, grid and number of steps, as one object with a text form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TypeAlias

from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.sampling.ddim import DDIM
from fcfg.sampling.grids import check_grid, time_grid
from fcfg.sampling.multistep import DPMSolver2M
from fcfg.sampling.solver import SOLVERS, AbstractSolver, as_solver
from fcfg.support.errors import InputError, check_among, check_is


@dataclass(frozen=True)
class SamplingConfig:
    """How to go from image to noise, and back.

    >>> SamplingConfig.parse("dpm-2m karras 30")
    SamplingConfig(solver=DPMSolver2M(), grid='karras', steps=30)
    >>> str(SamplingConfig.parse("bdia uniform 20"))
    'bdia:0.3 uniform 20'
    >>> str(SamplingConfig.parse("ddim quadratic:0.8 11"))  # goes to 0.8 of all times
    'ddim quadratic:0.8 11'
    """

    solver: AbstractSolver
    grid: str  #: 'uniform', 'quadratic', 'log-snr' or 'karras', or with an end, 'quadratic:0.8'
    steps: int  #: at most those of the schedule, which :meth:`times` checks

    def __post_init__(self) -> None:
        check_is(
            "solver", self.solver, AbstractSolver, "a solver", do="pass one such as fcfg.DDIM()"
        )
        object.__setattr__(self, "grid", check_grid(self.grid))

    @classmethod
    def parse(cls, text: str, default: SamplingConfig | None = None) -> SamplingConfig:
        """Read a preset, ``SOLVER GRID STEPS``, or a part of the default: steps or a solver.

        >>> str(SamplingConfig.parse("paper")), str(SamplingConfig.parse("10"))
        ('ddim uniform 1000', 'dpm-2m karras 10')
        >>> str(SamplingConfig.parse("heun"))
        'heun karras 20'
        """
        default = PRESETS["default"] if default is None else default
        check_is("sampling", text, str, "a string", do="write it as 'ddim uniform 100'")
        words = re.sub(r"\s*:\s*", ":", text).split()
        if len(words) == 1:
            (word,) = words
            if word.isdecimal():
                return replace(default, steps=int(word))
            check_among("sampling", word.partition(":")[0], [*PRESETS, *SOLVERS])
            presets = {**PRESETS, "default": default}
            return presets.get(word) or replace(default, solver=as_solver(word))
        if len(words) != 3 or not words[2].isdecimal():
            raise InputError(
                "sampling",
                expected="a preset, a number of steps, a solver, or 'SOLVER GRID STEPS'",
                got=repr(text),
                do=f"write for example '{default}'",
            )
        return cls(as_solver(words[0]), words[1], int(words[2]))

    def __str__(self) -> str:
        return f"{self.solver} {self.grid} {self.steps}"

    def to_json(self) -> dict[str, str | int]:
        """Solver, grid and steps, as experiments and records name them."""
        return {"solver": str(self.solver), "grid": self.grid, "steps": self.steps}

    def times(self, schedule: NoiseSchedule) -> tuple[int, ...]:
        """Ascending times on a schedule, which has at least as many steps."""
        return time_grid(schedule, self.steps, self.grid)


SamplingLike: TypeAlias = SamplingConfig | str | int

#: Sampling configurations by name.
PRESETS: Mapping[str, SamplingConfig] = {
    "default": SamplingConfig(DPMSolver2M(), "karras", 20),
    "paper": SamplingConfig(DDIM(), "uniform", 1000),
}


#: The default of anchored predictions.
ANCHORED = SamplingConfig(DPMSolver2M(), "karras", 12)

#: The default of anchored predictions with drawn noise.
DRAWN_NOISE = SamplingConfig(DDIM(), "quadratic", 11)


def as_sampling(sampling: SamplingLike, default: SamplingConfig | None = None) -> SamplingConfig:
    """Return a sampling configuration, or read one from its text or its number of steps.

    >>> str(as_sampling(10)), str(as_sampling("fixed-point:3"))
    ('dpm-2m karras 10', 'fixed-point:3 karras 20')

    Args:
        sampling: A configuration; a preset ('default' or 'paper', which is 1,000 steps of DDIM);
            'SOLVER GRID STEPS'; or a number of steps or a solver, which changes that part of the
            default.
        default: The default; that of predictions without an anchor if None.
    """
    if isinstance(sampling, SamplingConfig):
        return sampling
    if isinstance(sampling, int | Integral) and not isinstance(sampling, bool):
        return replace(PRESETS["default"] if default is None else default, steps=sampling)
    expected = "a SamplingConfig, a string, or a number of steps"
    check_is("sampling", sampling, str, expected, do="write it as 'ddim uniform 100'")
    return SamplingConfig.parse(str(sampling), default)
