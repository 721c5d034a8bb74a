"""A solver defined outside the package: text form, pipeline, evaluation, report, command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from evaluations import asked, evaluation
from fcfg import DDIM, save
from fcfg.cli import main
from fcfg.sampling import (
    SOLVERS,
    AbstractSolver,
    SamplingConfig,
    Trajectory,
    as_solver,
    register_solver,
)
from refusal import refused
from test_generation import draw, tiny_pipeline

ATTRIBUTES = {"smiling": [0, 1], "age": [20, 60], "hair": ["dark", "red"]}


@dataclass(frozen=True)
class Damped(AbstractSolver):
    """DDIM steps whose result is shrunk."""

    name = "damped"
    factor: float = 1.0

    def init(self, trajectory) -> tuple:
        return ()

    def step(self, predictor, trajectory, step, predictor_state, state) -> tuple:
        after, predictor_state, state = DDIM().step(
            predictor, trajectory, step, predictor_state, state
        )
        return after.map(lambda x: self.factor * x), predictor_state, state


@pytest.fixture
def registered() -> Iterator[None]:
    register_solver(Damped)
    yield
    del SOLVERS["damped"]


def answer(sampling: object) -> Trajectory:
    images = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    pair = tiny_pipeline().counterfactual(images, ATTRIBUTES, {"age": 90}, sampling=sampling)
    return pair.trajectory


def test_a_solver_is_passed_to_the_pipeline_as_an_object() -> None:
    same = answer(SamplingConfig(Damped(), "uniform", 3)).x
    assert torch.equal(same, answer("ddim uniform 3").x)
    assert not torch.equal(same, answer(SamplingConfig(Damped(0.5), "uniform", 3)).x)


@pytest.mark.usefixtures("registered")
def test_a_registered_solver_has_a_text_form() -> None:
    assert str(Damped(0.5)) == "damped:0.5"
    assert as_solver("damped:0.5") == Damped(0.5)
    assert as_solver("damped") == Damped()
    config = SamplingConfig.parse("damped:0.5 uniform 3")
    assert str(config) == "damped:0.5 uniform 3"
    assert torch.equal(answer(str(config)).x, answer(config).x)
    with refused("solver 'damped:x'", "a number behind the colon", "'x'"):
        as_solver("damped:x")


def test_a_solver_goes_through_evaluation_and_report(tmp_path: Path) -> None:
    """The report can be made where the solver is not registered."""
    register_solver(Damped)
    try:
        evaluation(tmp_path / "run", asked(solver="damped:0.5"), shown=2).run()
    finally:
        del SOLVERS["damped"]
    assert main(["report", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run/report/report.html").read_text()
    assert "2 steps of Damped(factor=0.5)" in page


@pytest.mark.usefixtures("registered")
def test_a_solver_can_be_named_on_the_command_line(tmp_path: Path) -> None:
    save(tiny_pipeline(), tmp_path / "model")
    draw(tmp_path / "faces", ["anna.png"])
    words = ["generate", str(tmp_path / "model"), str(tmp_path / "faces"), "--do", "age=1"]
    words += ["--sampling", "damped:0.5 uniform 2", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert (record["solver"], record["grid"], record["steps"]) == ("damped:0.5", "uniform", 2)


def test_a_solver_that_is_not_registered_has_no_text() -> None:
    with refused("solver", "'ddim'", "'damped'"):
        as_solver("damped")


@pytest.mark.parametrize("name", ["ddim", "My Solver", "", 3, None])
def test_a_name_that_is_taken_or_malformed_is_refused(name: object) -> None:
    with refused("solver Other", "a name"):
        register_solver(type("Other", (Damped,), {"name": name}))
    assert set(SOLVERS) == {"ddim", "fixed-point", "dpm-2m", "heun", "bdia"}


@pytest.mark.usefixtures("registered")
def test_a_solver_can_be_registered_again() -> None:
    assert register_solver(Damped) is Damped


class NoDataclass(Damped):
    name = "plain"


@dataclass(frozen=True)
class TwoOptions(Damped):
    name = "two"
    power: float = 1.0


@dataclass(frozen=True)
class TextOption(Damped):
    name = "texts"
    factor: str = "half"


@pytest.mark.parametrize("solver", [NoDataclass, TwoOptions, TextOption])
def test_options_without_a_text_form_are_refused(solver: type[AbstractSolver]) -> None:
    with refused(f"solver {solver.__name__}", "at most one field, a number with a default"):
        register_solver(solver)
