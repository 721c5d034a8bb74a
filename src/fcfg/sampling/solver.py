"""Trajectories, the contract of solvers, their text form, and the registry by name."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import AbstractPredictor, Images, Rows, State, Step
from fcfg.support.errors import InputError, check_among, check_is, short


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The state of a run: input and output of every step, and the result of abduction."""

    x: Images = field(repr=False)  #: the images at this time, unclamped
    #: Second state of exactly invertible solvers.
    companions: tuple[Images, ...] = field(default=(), repr=False)
    #: Largest residual of a refined inversion (RMS).
    residual: Float[Tensor, "batch"] | None = None
    evaluations: Rows = 0  #: network rows per image so far
    #: Noise that the last step predicted at its beginning, if the solver evaluates there.
    noise: Images | None = field(default=None, repr=False)

    @property
    def spent(self) -> list[int]:
        """Network rows so far, for each image."""
        rows = self.evaluations
        return rows.tolist() if isinstance(rows, Tensor) else [rows] * len(self.x)

    def map(self, function: Callable[[Tensor], Tensor]) -> Trajectory:
        """Apply a function to every tensor that the next step needs."""
        rows = self.evaluations
        return replace(
            self,
            x=function(self.x),
            companions=tuple(function(companion) for companion in self.companions),
            residual=None if self.residual is None else function(self.residual),
            evaluations=function(rows) if isinstance(rows, Tensor) else rows,
            noise=None,
        )

    @staticmethod
    def joined(pieces: Sequence[Trajectory]) -> Trajectory:
        """Concatenate the trajectories of several slices of a batch."""
        residuals = [piece.residual for piece in pieces if piece.residual is not None]
        spent = [rows for piece in pieces for rows in piece.spent]
        companions = zip(*(piece.companions for piece in pieces), strict=True)
        return replace(
            pieces[0],
            x=torch.cat([piece.x for piece in pieces]),
            companions=tuple(torch.cat(tensors) for tensors in companions),
            residual=torch.cat(residuals) if residuals else None,
            evaluations=spent[0] if len(set(spent)) == 1 else torch.tensor(spent),
        )


@dataclass(frozen=True)
class AbstractSolver(ABC):
    """One step of a trajectory. The history of multistep solvers is part of the state.

    A solver is a frozen dataclass with a ``name`` and at most one field, a number with a default.
    Its text form is ``name``, or ``name:number``.
    """

    name: ClassVar[str]  #: in the text form

    def __str__(self) -> str:
        return ":".join([self.name, *(str(value) for value in vars(self).values())])

    @abstractmethod
    def init(self, trajectory: Trajectory) -> State:
        """State before the first step."""

    @abstractmethod
    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        predictor_state: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """Go from step.t to step.s.

        Args:
            predictor: Predictor of the noise.
            trajectory: Trajectory at time t.
            step: Times, noise levels and weights of the step.
            predictor_state: State of the predictor. A solver that evaluates it several times
                returns the state of the evaluation at (x_t, t).
            state: State of the solver.

        Returns:
            The trajectory at time s, and both states.
        """


Solver = TypeVar("Solver", bound=AbstractSolver)

#: All solvers by name; :func:`register_solver` adds to them.
SOLVERS: dict[str, type[AbstractSolver]] = {}


def register_solver(solver: type[Solver]) -> type[Solver]:
    """Register a solver under its name, which gives it a text form; use it as a decorator.

    Args:
        solver: A frozen dataclass with a ``name`` and at most one field.
    """
    name = getattr(solver, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise InputError(
            f"solver {solver.__name__}",
            expected="a name of small letters, digits, - and _",
            got=short(name),
            do="set it in the class, such as name = 'euler'",
        )
    if SOLVERS.get(name, solver).__qualname__ != solver.__qualname__:
        raise InputError(
            f"solver {solver.__name__}",
            expected="a name that no other solver has",
            got=f"'{name}', the name of {SOLVERS[name].__name__}",
            do="choose another name",
        )
    is_dataclass, options = "__dataclass_fields__" in vars(solver), fields(solver)
    numbers = all(type(option.default) in (int, float) for option in options)
    if not is_dataclass or len(options) > 1 or not numbers:
        raise InputError(
            f"solver {solver.__name__}",
            expected="a frozen dataclass with at most one field, a number with a default",
            got=f"{len(options)} fields" if is_dataclass else "another class",
            do="put @dataclass(frozen=True) before it, and keep one number",
        )
    SOLVERS[name] = solver
    return solver


def as_solver(solver: AbstractSolver | str) -> AbstractSolver:
    """Return a solver, or read one from its text: a name, or ``name:number``.

    >>> str(as_solver("fixed-point")), str(as_solver("fixed-point:3"))
    ('fixed-point:5', 'fixed-point:3')
    """
    if isinstance(solver, AbstractSolver):
        return solver
    expected, do = "a solver or a string", "write it as dpm-2m or fixed-point:5"
    check_is("solver", solver, str, expected, do=do)
    name, colon, number = (part.strip() for part in solver.partition(":"))
    check_among("solver", name, SOLVERS)
    if not colon:
        return SOLVERS[name]()
    options = fields(SOLVERS[name])
    if not options:
        raise InputError(
            f"solver '{solver}'",
            expected=f"'{name}' alone",
            got=f"':{number}' behind it",
            do="leave that out",
        )
    try:
        value = type(options[0].default)(number)
    except ValueError as error:
        raise InputError(
            f"solver '{solver}'",
            expected="a number behind the colon",
            got=repr(number),
            do="write for example fixed-point:5 or bdia:1.0",
        ) from error
    return SOLVERS[name](**{options[0].name: value})
