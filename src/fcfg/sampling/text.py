"""The text form of solvers, which ``str`` gives and YAML and the command line take."""

from __future__ import annotations

from collections.abc import Callable

from fcfg.sampling.bdia import BDIA
from fcfg.sampling.ddim import DDIM
from fcfg.sampling.fixed_point import FixedPointDDIM
from fcfg.sampling.heun import Heun
from fcfg.sampling.multistep import DPMSolver2M
from fcfg.sampling.solver import AbstractSolver
from fcfg.support.errors import InputError, check_among, check_is

_PLAIN: dict[str, Callable[[], AbstractSolver]] = {
    "ddim": DDIM,
    "fixed-point": FixedPointDDIM,
    "dpm-2m": DPMSolver2M,
    "heun": Heun,
    "bdia": BDIA,
}
_WITH_NUMBER: dict[str, Callable[[str], AbstractSolver]] = {
    "fixed-point": lambda number: FixedPointDDIM(int(number)),
    "bdia": lambda number: BDIA(float(number)),
}
SOLVERS: tuple[str, ...] = tuple(_PLAIN)


def parse_solver(text: str) -> AbstractSolver:
    """Read a solver: its name and, where it has an option, a colon and a number.

    >>> parse_solver("dpm-2m"), parse_solver("fixed-point:3")
    (DPMSolver2M(), FixedPointDDIM(iterations=3))
    >>> str(parse_solver("fixed-point"))
    'fixed-point:5'
    """
    check_is("solver", text, str, "a string", do="write it as dpm-2m or fixed-point:5")
    name, colon, number = (part.strip() for part in text.partition(":"))
    check_among("solver", name, SOLVERS)
    if not colon:
        return _PLAIN[name]()
    if name not in _WITH_NUMBER:
        raise InputError(
            f"solver '{text}'",
            expected=f"'{name}' alone",
            got=f"':{number}' behind it",
            do="leave that out",
        )
    try:
        return _WITH_NUMBER[name](number)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            f"solver '{text}'",
            expected="a number behind the colon",
            got=repr(number),
            do="write for example fixed-point:5 or bdia:1.0",
        ) from error


def as_solver(solver: AbstractSolver | str) -> AbstractSolver:
    """A solver, or the one that a text names."""
    if isinstance(solver, AbstractSolver):
        return solver
    check_is("solver", solver, str, "a solver or its name", do="pass fcfg.DDIM() or 'ddim'")
    return parse_solver(solver)
