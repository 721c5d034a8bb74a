"""Trajectories, the contract of solvers, their text form, and the registry by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import AbstractPredictor, Images, Prediction, Rows, State, Step
from fcfg.support.errors import InputError, check_among
from fcfg.support.options import TextForm, check_options, check_registrable
from fcfg.support.tensors import joined, mapped


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
    #: States of the predictor and of the solver; empty before and after a run.
    predictor_state: State = field(default=(), repr=False)
    solver_state: State = field(default=(), repr=False)

    @property
    def spent(self) -> list[int]:
        """Network rows so far, for each image."""
        rows = self.evaluations
        return rows.tolist() if isinstance(rows, Tensor) else [rows] * len(self.x)

    def predicted(self, predictor: AbstractPredictor, step: Step) -> tuple[Prediction, Trajectory]:
        """Predict at these images; keep the noise and the predictor's state, and count rows."""
        prediction, state = predictor.predict(self.x, step, self.predictor_state)
        spent = self.evaluations + prediction.rows
        return prediction, replace(
            self, evaluations=spent, noise=prediction.clean, predictor_state=state
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> Trajectory:
        """Apply a function to every tensor that the next step needs."""
        return mapped(function, replace(self, noise=None))

    @staticmethod
    def joined(pieces: Sequence[Trajectory]) -> Trajectory:
        """Concatenate the trajectories of several slices of a batch."""
        spent = [rows for piece in pieces for rows in piece.spent]
        rows = spent[0] if len(set(spent)) == 1 else torch.tensor(spent)
        whole = joined([replace(piece, evaluations=0, noise=None) for piece in pieces])
        return replace(whole, evaluations=rows)


@dataclass(frozen=True)
class AbstractSolver(ABC):
    """One step of a trajectory, which holds the history of multistep solvers as their state.

    A solver is a frozen dataclass with a ``name`` and at most one field, a number with a default.
    Its text form is ``name``, or ``name:number``.
    """

    name: ClassVar[str]  #: in the text form
    draws_noise: ClassVar[bool] = False  #: whether its steps need a path whose noise is drawn

    def __post_init__(self) -> None:
        check_options(self, f"solver {self.name},")

    def __str__(self) -> str:
        return str(TextForm(self.name, dict(zip([""], vars(self).values(), strict=False)), {}))

    def init(self, trajectory: Trajectory) -> State:
        """Return the state before the first step; by default there is none."""
        return ()

    def fresh(self, step: Step) -> Float[Tensor, ""]:
        """Return the share of the noise at s that a step leaves to be drawn; by default none."""
        return torch.zeros_like(step.noise_s)

    def begin(self, predictor: AbstractPredictor, trajectory: Trajectory) -> Trajectory:
        """Return a trajectory with the states before the first step."""
        return replace(
            trajectory,
            predictor_state=predictor.init(trajectory.x),
            solver_state=self.init(trajectory),
        )

    @abstractmethod
    def step(self, predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
        """Go from step.t to step.s.

        A solver that evaluates several times keeps the state of the predictor after the
        evaluation at (x_t, t), as :meth:`Trajectory.predicted` returns it.
        """


Solver = TypeVar("Solver", bound=AbstractSolver)

#: All solvers by name; :func:`register_solver` adds to them.
SOLVERS: dict[str, type[AbstractSolver]] = {}


def register_solver(solver: type[Solver]) -> type[Solver]:
    """Register a solver under its name, which gives it a text form; use it as a decorator."""
    others = [name for name, known in SOLVERS.items() if known is not solver]
    check_registrable(solver, "solver", others, most=1)
    SOLVERS[solver.name] = solver
    return solver


def as_solver(solver: AbstractSolver | str) -> AbstractSolver:
    """Return a solver, or read one from its text: a name, or ``name:number``.

    >>> str(as_solver("fixed-point")), str(as_solver("fixed-point:3"))
    ('fixed-point:5', 'fixed-point:3')
    """
    if isinstance(solver, AbstractSolver):
        return solver
    form = TextForm.read(solver, "solver", "dpm-2m or fixed-point:5")
    check_among("solver", form.name, SOLVERS)
    count = len(fields(SOLVERS[form.name]))
    if form.options or set(form.numbers) - {""} or len(form.numbers) > count:
        raise InputError(
            f"solver '{solver}'",
            expected=f"'{form.name}'" + (" and at most one number" if count else " alone"),
            got=repr(solver),
            do="write for example dpm-2m or fixed-point:5",
        )
    return SOLVERS[form.name](*form.numbers.values())
