"""What is taken where nobody says: the ways from image to noise, by the quality they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.sampling.grids import GRIDS, time_grid
from fcfg.sampling.solver import AbstractSolver
from fcfg.sampling.text import as_solver, parse_solver
from fcfg.support.errors import InputError, check_among, check_is


@dataclass(frozen=True)
class Way:
    """How to get from image to noise, and back.

    >>> Way.parse("dpm-2m karras 30")
    Way(solver=DPMSolver2M(), grid='karras', steps=30)
    >>> str(Way.parse("bdia uniform 20"))
    'bdia:0.3 uniform 20'
    """

    solver: AbstractSolver  #: how the steps are taken
    grid: str  #: where they are: 'uniform', 'log-snr' or 'karras'
    steps: int  #: how many; at most those of the schedule, which :meth:`times` checks

    def __post_init__(self) -> None:
        """Refuse what nobody knows."""
        check_is(
            "solver", self.solver, AbstractSolver, "a solver", do="pass one such as fcfg.DDIM()"
        )
        check_among("grid", self.grid, GRIDS)

    @classmethod
    def parse(cls, text: str) -> Way:
        """Read ``SOLVER GRID STEPS``, which ``str`` gives."""
        check_is("way", text, str, "a string", do="write it as 'ddim uniform 100'")
        words = text.split()
        if len(words) < 3 or not words[-1].isdecimal():
            raise InputError(
                "way",
                expected="a solver, a grid and a number of steps",
                got=repr(text),
                do="write for example 'ddim uniform 100'",
            )
        *solver, grid, steps = words
        return cls(parse_solver(" ".join(solver)), grid, int(steps))

    def __str__(self) -> str:
        return f"{self.solver} {self.grid} {self.steps}"

    def to_json(self) -> dict[str, str | int]:
        """Its parts, as experiments and records name them."""
        return {"solver": str(self.solver), "grid": self.grid, "steps": self.steps}

    def times(self, schedule: NoiseSchedule) -> tuple[int, ...]:
        """Its times on a schedule, ascending; one with fewer steps than the way is refused."""
        return time_grid(schedule, self.steps, self.grid)


#: By name.
QUALITIES: Mapping[str, Way] = {
    "default": Way.parse("dpm-2m karras 20"),
    "paper": Way.parse("ddim uniform 1000"),
}


def find_way(
    quality: str = "default",
    *,
    solver: AbstractSolver | str | None = None,
    grid: str | None = None,
    steps: int | None = None,
) -> Way:
    """The way of a quality, but for what is given: each part replaces itself, and no other.

    So ``steps=20`` alone takes 20 steps with the quality's solver on its grid, and
    ``solver="heun"`` alone takes the quality's steps, where they are.

    >>> str(find_way("paper")), str(find_way("paper", solver="heun", steps=20))
    ('ddim uniform 1000', 'heun uniform 20')

    Args:
        quality: 'default', or 'paper', which is 1,000 steps of DDIM.
        solver: Another solver, or its text.
        grid: Another grid.
        steps: Another number of steps.
    """
    check_among("quality", quality, QUALITIES)
    way = QUALITIES[quality]
    return Way(
        way.solver if solver is None else as_solver(solver),
        way.grid if grid is None else grid,
        way.steps if steps is None else steps,
    )
