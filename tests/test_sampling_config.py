"""The sampling configuration: its text, its presets, and its parts, each replaced alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance import Guidance
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.sampling import (
    ANCHORED,
    BDIA,
    DDIM,
    DRAWN_NOISE,
    GRIDS,
    PRESETS,
    DPMSolver2M,
    FixedPointDDIM,
    Heun,
    SamplingConfig,
    as_sampling,
    time_grid,
)
from refusal import all_refused, refused
from worlds import mixture, mixture_faces, mixture_pipeline

PAPER = SamplingConfig(DDIM(), "uniform", 1000)
SOLVERS = [DDIM(), FixedPointDDIM(3), DPMSolver2M(), Heun(), BDIA(), BDIA(0.125)]
presets = pytest.mark.parametrize("preset", PRESETS)
INFERRED = Guidance.parse("cfg:1.5;anchor=true")


@pytest.fixture(scope="module")
def pipeline() -> CounterfactualPipeline:
    return mixture_pipeline()


# Text -------------------------------------------------------------------------------------------


@given(st.sampled_from(SOLVERS), st.sampled_from(GRIDS), st.integers(1, 10**6))
def test_a_configuration_is_its_text_and_its_parts(solver, grid: str, steps: int) -> None:
    sampling = SamplingConfig(solver, grid, steps)
    assert SamplingConfig.parse(str(sampling)) == sampling
    assert (
        SamplingConfig.parse(f" {str(sampling).replace(' ', '  ').replace(':', ' : ')} ")
        == sampling
    )
    assert SamplingConfig.parse("{solver} {grid} {steps}".format(**sampling.to_json())) == sampling


WRONG = {
    "sampling": ("ddim uniform", "ddim uniform ten", "bdia 12", "ddim uniform -3", "", None),
    "solver": ("uniform ddim 100", "dddim uniform 3"),
    "grid": ("ddim karas 3",),
}


@pytest.mark.parametrize("subject", WRONG)
def test_other_texts_are_refused(subject: str) -> None:
    all_refused(subject, *(partial(SamplingConfig.parse, text) for text in WRONG[subject]))


def test_an_error_about_steps_names_the_default_and_the_papers_number() -> None:
    default, paper = (as_sampling(preset).steps for preset in ("default", "paper"))
    with refused("steps", f"{default} is the default, {paper} the paper's"):
        time_grid(NoiseSchedule(), 1001)


def test_a_configuration_takes_solvers_and_known_grids() -> None:
    with refused("solver", "fcfg.DDIM()", "'ddim'"):
        SamplingConfig("ddim", "uniform", 10)
    with refused("grid", "did you mean 'uniform'?"):
        SamplingConfig(DDIM(), "uniformly", 10)


@presets
@pytest.mark.parametrize("last", [25, 99, 100, 999, 1000, 2000])
def test_a_configuration_fits_a_schedule_unless_it_has_more_steps(preset: str, last: int) -> None:
    sampling, schedule = as_sampling(preset), NoiseSchedule(steps=last)
    if sampling.steps > last:
        with refused("steps", f"1 to {last}", str(sampling.steps)):
            sampling.times(schedule)
    else:
        assert sampling.times(schedule) == time_grid(schedule, sampling.steps, sampling.grid)
    assert as_sampling(1, as_sampling(preset)).times(schedule) == (0, last)


# Presets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"sampling": "paper"}, PAPER),
        ({"anchor": None}, ANCHORED),
        ({"anchor": True}, ANCHORED),
        ({"anchor": False}, PRESETS["default"]),
        ({"drawn_noise": True}, DRAWN_NOISE),
    ],
)
def test_the_default_depends_on_anchor_and_noise(pipeline, options, wanted) -> None:
    """Bit by bit, as its solver, grid and steps in one text, or as an object."""
    faces, attributes = mixture_faces(pipeline, 1)
    silent = pipeline.abduct(faces, attributes, **options)
    assert (silent.times, silent.solver) == (wanted.times(NoiseSchedule()), wanted.solver)
    for named in (wanted, str(wanted)):
        explicit = pipeline.abduct(faces, attributes, **{**options, "sampling": named})
        assert torch.equal(silent.trajectory.x, explicit.trajectory.x)
    asked = {name: value for name, value in options.items() if name != "drawn_noise"}
    asked |= {"guidance": INFERRED} if "anchor" in options else {}
    pair = pipeline.counterfactual(faces, attributes, {"male": 1}, **asked)
    assert (pair.abduction.times, pair.abduction.solver) == (silent.times, silent.solver)
    assert torch.equal(silent.trajectory.x, pair.abduction.trajectory.x)


def test_presets_are_read_by_name() -> None:
    assert as_sampling("paper") == PAPER
    assert as_sampling("default") == PRESETS["default"]
    assert as_sampling("default", ANCHORED) == ANCHORED


@pytest.mark.parametrize(
    ("part", "sampling"), [("solver", "heun"), ("steps", 9), ("steps", "9"), ("steps", " 9 ")]
)
@pytest.mark.parametrize("anchor", [True, False])
def test_a_solver_or_a_number_changes_that_part_of_the_default(
    pipeline, part, sampling, anchor
) -> None:
    faces, attributes = mixture_faces(pipeline, 1)
    schedule, default = pipeline.denoiser.schedule, ANCHORED if anchor else PRESETS["default"]
    wanted = replace(default, **{part: {"solver": Heun(), "steps": 9}[part]})
    assert as_sampling(sampling, default) == wanted
    how = {"sampling": sampling, "anchor": anchor}
    abduction = pipeline.abduct(faces, attributes, **how)
    pair = pipeline.counterfactual(faces, attributes, {"smiling": 1}, guidance=INFERRED, **how)
    for found in (abduction, pair.abduction):
        assert (found.times, found.solver) == (wanted.times(schedule), wanted.solver)
        assert (found.times, found.solver) != (default.times(schedule), default.solver)


def test_a_preset_with_too_many_steps_is_refused() -> None:
    """On a schedule of 100 steps."""
    pipeline, faces, attributes = mixture(1, steps=100)
    with refused("steps", "1 to 100", "1000"):
        pipeline.abduct(faces, attributes, sampling="paper")
    with refused("steps", "1 to 100", "1000"):
        pipeline.counterfactual(faces, attributes, {"male": 1}, sampling="paper")
    found = pipeline.abduct(faces, attributes, sampling="heun uniform 3")
    assert (found.times, found.solver) == (time_grid(NoiseSchedule(steps=100), 3), Heun())
