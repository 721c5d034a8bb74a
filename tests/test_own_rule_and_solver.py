"""A rule and a solver defined here, and used everywhere without a change to the package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluations import asked, evaluation
from fcfg import DDIM, save
from fcfg.cli import main
from fcfg.diffusion.prediction import Prediction
from fcfg.guidance import CFG, RULES, AbstractRule, Guidance, register_rule
from fcfg.reports.rule_styles import setting, strongest
from fcfg.sampling import SOLVERS, AbstractSolver, SamplingConfig, Trajectory, as_solver
from fcfg.sampling.solver import register_solver
from refusal import refused
from tiny import draw, tiny_pipeline

CFG_3 = Guidance.cfg(3.0)
ATTRIBUTES = {"smiling": [0, 1], "age": [20, 60], "hair": ["dark", "red"]}


@dataclass(frozen=True)
class Late(AbstractRule):
    """CFG that reaches its full strength only near the image."""

    name = "late"
    power: float = 1.0
    sign: bool = True

    def combine(self, x_t, step, null, groups, weights, state) -> tuple[Prediction, tuple]:
        guided, _ = CFG().combine(x_t, step, null, groups, weights, ())
        share = step.signal_t**self.power if self.sign else torch.zeros_like(step.signal_t)
        eps = null + share * (guided.clean - null)
        return Prediction(clean=eps, renoise=eps), state


@dataclass(frozen=True)
class Damped(AbstractSolver):
    """DDIM steps whose result is shrunk."""

    name = "damped"
    factor: float = 1.0

    def step(self, predictor, trajectory, step) -> Trajectory:
        after = DDIM().step(predictor, trajectory, step)
        return replace(after, x=self.factor * after.x)


@contextmanager
def registering() -> Iterator[None]:
    register_rule(Late)
    register_solver(Damped)
    try:
        yield
    finally:
        del RULES["late"], SOLVERS["damped"]


@pytest.fixture
def registered() -> Iterator[None]:
    with registering():
        yield


def answer(guidance: Guidance = CFG_3, sampling: SamplingConfig | str | int = 3) -> torch.Tensor:
    images = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    how: dict[str, Any] = {"guidance": guidance, "sampling": sampling}
    return tiny_pipeline().counterfactual(images, ATTRIBUTES, {"age": 90}, **how).trajectory.x


def test_a_rule_is_passed_to_the_pipeline_as_an_object() -> None:
    weights = {"affected": 3.0, "invariant": 1.2}
    same = answer(Guidance.of(Late(power=0.0), **weights))
    assert torch.equal(same, answer(Guidance.fcfg(**weights)))
    assert not torch.equal(answer(Guidance.of(Late(power=2.0), **weights)), same)
    assert torch.equal(answer(Guidance.of(Late(power=0.0), 3.0)), answer(CFG_3))


@pytest.mark.usefixtures("registered")
def test_a_registered_rule_has_a_text_form_for_all_its_options() -> None:
    guidance = Guidance.of(Late(power=0.5), affected=3, invariant=1.2).replace(start=0.1)
    assert repr(guidance) == "flate:affected=3.0,invariant=1.2;start=0.1;power=0.5"
    assert Guidance.parse(repr(guidance)) == guidance
    assert Guidance.parse("late:3;sign=false") == Guidance.of(Late(sign=False), 3.0)
    assert guidance.replace(power=2).rule == Late(power=2.0)
    refused("guidance option sign", "true or false").by(Guidance.parse, "late:3;sign=2")
    with refused("guidance late", "'power', 'sign'", "did you mean 'power'?"):
        Guidance.parse("late:3;powr=2")


def test_a_solver_is_passed_to_the_pipeline_as_an_object() -> None:
    same = answer(sampling=SamplingConfig(Damped(), "uniform", 3))
    assert torch.equal(same, answer(sampling="ddim uniform 3"))
    assert not torch.equal(same, answer(sampling=SamplingConfig(Damped(0.5), "uniform", 3)))


@pytest.mark.usefixtures("registered")
def test_a_registered_solver_has_a_text_form() -> None:
    assert str(Damped(0.5)) == "damped:0.5"
    assert as_solver("damped:0.5") == Damped(0.5)
    assert as_solver("damped") == Damped()
    config = SamplingConfig.parse("damped:0.5 uniform 3")
    assert str(config) == "damped:0.5 uniform 3"
    assert torch.equal(answer(sampling=str(config)), answer(sampling=config))
    refused("solver 'damped:x'", "a number", "'x'").by(as_solver, "damped:x")


def test_rule_and_solver_go_through_evaluation_and_report(tmp_path: Path) -> None:
    """The report needs only their names: they need not be registered to make one."""
    own, factored = "late:2.0;power=0.5", "flate:affected=2.0,invariant=1.0"
    with registering():
        experiment = asked(guidance=(own, factored), sampling="damped:0.5 uniform 2")
        evaluation(tmp_path / "run", experiment, pictures=2).run()
    assert main(["report", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run/report/report.html").read_text()
    assert "late 2.0 power=0.5" in page
    assert "flate 2.0 / 1.0" in page
    assert "var(--fown)" in page
    assert "2 steps of Damped(factor=0.5)" in page
    assert "flate" in (tmp_path / "run/report/table.tex").read_text()
    assert setting("cfg:<fade>").weights == ()  # a function has no number
    pair = strongest([setting(text) for text in ("none", own, factored)])
    assert [chosen.text for chosen in pair] == [own, factored]


@pytest.mark.usefixtures("registered")
def test_rule_and_solver_can_be_named_on_the_command_line(tmp_path: Path, capsys) -> None:
    save(tiny_pipeline(), tmp_path / "model")
    draw(tmp_path / "faces", ["anna.png"])
    words = ["generate", str(tmp_path / "model"), str(tmp_path / "faces"), "--do", "age=1"]
    words += ["--sampling", "damped:0.5 uniform 2", "--out", str(tmp_path / "out")]
    assert main([*words, "--guidance", "late:2;power=3"]) == 0
    assert "1 picture, late:2.0;power=3.0, damped:0.5 uniform 2, on cpu" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert (record["solver"], record["grid"], record["steps"]) == ("damped:0.5", "uniform", 2)


class Plain(AbstractRule):
    name = "plain"
    combine = Late.combine


def named(base: type, name: object) -> type[Any]:
    return type("Other", (base,), {"name": name})


def with_fields(base: type, **defaults: Any) -> type[Any]:
    """A frozen dataclass with further fields."""
    new = [(name, type(value), value) for name, value in defaults.items()]
    return make_dataclass("Other", new, bases=(base,), namespace={"name": "odd"}, frozen=True)


def test_names_and_options_that_have_no_text_form_are_refused() -> None:
    refused("guidance 'late:3'", "'contrast'").by(Guidance.parse, "late:3")
    refused("solver", "'ddim'", "'damped'").by(as_solver, "damped")
    for name in ("cfg", "fcfg", "fapg", "none", "fnone", "My Rule", "", 3):
        refused("rule Other", "a name").by(register_rule, named(Late, name))
    for name in ("ddim", "My Solver", "", 3, None):
        refused("solver Other", "a name").by(register_solver, named(Damped, name))
    with registering():
        assert register_rule(Late) is Late
        assert register_solver(Damped) is Damped
        refused("rule Other", "'flate'").by(register_rule, named(Late, "flate"))
    refused("rule Plain", "a frozen dataclass").by(register_rule, Plain)
    odd = with_fields(Late, start=0.0, mode="soft")
    refused("rule Other", "'mode', 'start'").by(register_rule, odd)
    more, half = (with_fields(Damped, **x) for x in ({"power": 1.0}, {"factor": "half"}))
    for solver in (more, half, named(Damped, "plain")):
        refused("solver Other", "at most 1, have numbers as").by(register_solver, solver)
    assert set(RULES) == {"cfg", "cfg++", "apg", "contrast"}
    assert set(SOLVERS) == {"ddim", "ddpm", "fixed-point", "dpm-2m", "heun", "bdia"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda eps, state: eps, "got Tensor;"),
        (lambda eps, state: Prediction(clean=eps, renoise=eps), "got Prediction;"),
        (lambda eps, state: (eps, state), "got Tensor and tuple;"),
        (lambda eps, state: (Prediction(clean=eps, renoise=eps), None), "got Prediction and None"),
        (lambda eps, state: (), "got an empty tuple;"),
        (lambda eps, state: None, "got NoneType;"),
    ],
)
def test_what_a_rule_returns_that_is_no_prediction_is_refused_by_its_name(made, said) -> None:
    @dataclass(frozen=True)
    class Wrong(Late):
        def combine(self, x_t, step, null, groups, weights, state) -> Any:
            return made(null, state)

    with refused("guidance rule Wrong, combine", "a Prediction and the new state", said):
        answer(Guidance.of(Wrong(), 3.0))
    with refused("guidance rule Wrong, combine", said):
        answer(Guidance.of(Wrong(), 3.0).replace(tolerance=0.1))


def test_what_is_no_rule_or_has_two_kinds_of_weights_is_refused() -> None:
    refused("guidance", "a rule").by(Guidance.of, "cfg", 3.0)
    for values, weights in (([3.0], {"affected": 2.0}), ([], {})):
        with refused("guidance late", "one weight, or a weight for every group"):
            Guidance.of(Late(), *values, **weights)
    assert Guidance.of(Plain(), 3.0).name == "plain"
