"""What is taken where nobody says, and that whatever is said replaces itself alone."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.sampling import (
    BDIA,
    DDIM,
    GRIDS,
    QUALITIES,
    DPMSolver2M,
    FixedPointDDIM,
    Heun,
    Way,
    find_way,
    time_grid,
)
from refusal import refused
from worlds import mixture_faces, mixture_pipeline

PAPER = Way(DDIM(), "uniform", 1000)
SOLVERS = [DDIM(), FixedPointDDIM(3), DPMSolver2M(), Heun(), BDIA(), BDIA(0.125)]
qualities = pytest.mark.parametrize("quality", QUALITIES)


@pytest.fixture(scope="module")
def pipeline() -> CounterfactualPipeline:
    return mixture_pipeline()


def others(way: Way) -> dict[str, Any]:
    """A solver, a grid and a number of steps that are not those of a way."""
    solver = DDIM() if way.solver == Heun() else Heun()
    grid = next(grid for grid in GRIDS if grid != way.grid)
    return {"solver": solver, "grid": grid, "steps": way.steps // 2 + 1}


# Ways -------------------------------------------------------------------------------------------


@given(st.sampled_from(SOLVERS), st.sampled_from(GRIDS), st.integers(1, 10**6))
def test_a_way_is_its_text_and_its_parts(solver, grid: str, steps: int) -> None:
    way = Way(solver, grid, steps)
    assert Way.parse(str(way)) == way
    assert Way.parse(f" {str(way).replace(' ', '  ').replace(':', ' : ')} ") == way
    assert find_way(**way.to_json()) == way


@pytest.mark.parametrize(
    ("text", "subject", "fragments"),
    [
        ("ddim uniform", "way", ["a solver, a grid and a number of steps", "'ddim uniform'"]),
        ("ddim uniform ten", "way", ["'ddim uniform ten'", "'ddim uniform 100'"]),
        ("uniform ddim 100", "solver", ["'uniform'"]),
        ("ddim uniform -3", "way", ["-3"]),
        ("dddim uniform 3", "solver", ["did you mean 'ddim'?"]),
        ("ddim karas 3", "grid", ["did you mean 'karras'?"]),
        ("", "way", ["''"]),
        (None, "way", ["None"]),
    ],
)
def test_a_text_that_is_no_way_is_refused(text, subject: str, fragments: list[str]) -> None:
    with refused(subject, *fragments):
        Way.parse(text)


def test_who_asks_for_too_many_steps_is_told_the_default_and_the_papers() -> None:
    default, paper = (find_way(quality).steps for quality in ("default", "paper"))
    with refused("steps", f"{default} is the default, {paper} the paper's"):
        time_grid(NoiseSchedule(), 1001)


def test_a_way_takes_solvers_and_known_grids() -> None:
    with refused("solver", "fcfg.DDIM()", "str 'ddim'"):
        Way("ddim", "uniform", 10)
    with refused("grid", "did you mean 'uniform'?"):
        Way(DDIM(), "uniformly", 10)


@qualities
@pytest.mark.parametrize("last", [25, 99, 100, 999, 1000, 2000])
def test_a_way_fits_a_schedule_unless_it_has_more_steps(quality: str, last: int) -> None:
    way, schedule = find_way(quality), NoiseSchedule(steps=last)
    if way.steps > last:
        with refused("steps", f"1 to {last}", str(way.steps)):
            way.times(schedule)
    else:
        assert way.times(schedule) == time_grid(schedule, way.steps, way.grid)
    assert find_way(quality, steps=1).times(schedule) == (0, last)


# Qualities --------------------------------------------------------------------------------------


def test_the_papers_quality_is_a_thousand_steps_of_ddim(pipeline) -> None:
    assert find_way("paper") == PAPER
    faces, attributes = mixture_faces(pipeline, 1)
    found = pipeline.abduct(faces, attributes, quality="paper")
    assert found.times == tuple(range(1001))
    assert found.solver == DDIM()
    assert found.trajectory.evaluations == 1000


def test_who_says_nothing_gets_the_default_quality(pipeline) -> None:
    """The same answer, bit by bit, as who names its solver, its grid and its steps."""
    faces, attributes = mixture_faces(pipeline, 1)
    way = QUALITIES["default"]
    named = {"solver": way.solver, "grid": way.grid, "steps": way.steps}
    silent, explicit = (pipeline.abduct(faces, attributes, **how) for how in ({}, named))
    assert silent.times == explicit.times
    assert silent.solver == explicit.solver
    assert torch.equal(silent.trajectory.x, explicit.trajectory.x)
    one, other = (
        pipeline.counterfactual(faces, attributes, {"male": 1}, **how) for how in ({}, named)
    )
    assert torch.equal(one.images, other.images)
    assert find_way() == way


@qualities
@pytest.mark.parametrize("given", list(product([False, True], repeat=3)))
def test_what_is_given_replaces_itself_and_nothing_else(quality: str, given) -> None:
    way = QUALITIES[quality]
    changes = {
        name: value for (name, value), said in zip(others(way).items(), given, strict=True) if said
    }
    found = find_way(quality, **changes)
    for name in ("solver", "grid", "steps"):
        assert getattr(found, name) == changes.get(name, getattr(way, name))
        assert (name in changes) == (getattr(found, name) != getattr(way, name))


@pytest.mark.parametrize("name", ["solver", "grid", "steps"])
def test_the_pipeline_takes_each_part_by_itself(pipeline, name: str) -> None:
    faces, attributes = mixture_faces(pipeline, 1)
    schedule, change = pipeline.denoiser.schedule, {name: others(QUALITIES["default"])[name]}
    way = find_way(**change)
    abduction = pipeline.abduct(faces, attributes, **change)
    pair = pipeline.counterfactual(faces, attributes, {"smiling": 1}, **change)
    default = QUALITIES["default"]
    for found in (abduction, pair.abduction):
        assert (found.times, found.solver) == (way.times(schedule), way.solver)
        assert (found.times, found.solver) != (default.times(schedule), default.solver)


def test_the_pipeline_takes_the_rest_from_the_quality_that_is_named() -> None:
    """On a schedule of 100 steps, so that the paper's number is refused."""
    pipeline = mixture_pipeline(steps=100)
    faces, attributes = mixture_faces(pipeline, 1)
    with refused("steps", "1 to 100", "1000"):
        pipeline.abduct(faces, attributes, quality="paper", solver="heun")
    with refused("steps", "1 to 100", "1000"):
        pipeline.counterfactual(faces, attributes, {"male": 1}, quality="paper", solver="heun")
    found = pipeline.abduct(faces, attributes, quality="paper", solver="heun", steps=3)
    assert (found.times, found.solver) == (time_grid(NoiseSchedule(steps=100), 3), Heun())


@pytest.mark.parametrize("quality", ["papr", "", None, 1000, ["paper"]])
def test_an_unknown_quality_is_refused(quality: object) -> None:
    near = ["did you mean 'paper'?"] if quality == "papr" else []
    with refused("quality", "'default', 'paper'", repr(quality), *near):
        find_way(quality)


def test_the_page_says_what_the_default_is() -> None:
    page = Path(__file__).parents[1] / "docs" / "howto.md"
    assert f"`{QUALITIES['default']}`" in page.read_text()
