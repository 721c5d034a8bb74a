"""Grids, the loop of steps, and the sampling configuration: its text, presets and parts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from fcfg import BDIA, DDIM, DPMSolver2M, FixedPointDDIM, Guidance, Heun, NoiseSchedule
from fcfg.diffusion import ConditionalPredictor
from fcfg.sampling import SOLVERS, Steps, Trajectory, as_solver, integrate, steps_along
from fcfg.sampling.config import ANCHORED, DRAWN_NOISE, PRESETS, SamplingConfig, as_sampling
from fcfg.sampling.grids import GRIDS, time_grid
from refusal import refused
from worlds import Gaussian, images, mixture, mixture_faces

SCHEDULE = NoiseSchedule()
PAPER = SamplingConfig(DDIM(), "uniform", 1000)
INFERRED = Guidance.parse("cfg:1.5;anchor=true")


def plan(*times: int) -> Steps:
    return steps_along(SCHEDULE, times, dtype=torch.float64)


@given(
    st.integers(1, 1000),
    st.sampled_from([25, 100, 1000]),
    st.sampled_from(["linear", "cosine"]),
    st.sampled_from(GRIDS),
    st.sampled_from([1.0, 0.8, 0.25]),
)
@example(20, 25, "cosine", "karras", 1.0)  # late times would coincide
def test_grids_are_distinct_and_reach_both_ends(steps, whole, levels, kind, share) -> None:
    schedule, last, grid = NoiseSchedule(levels, whole), round(share * whole), f"{kind}:{share}"
    if steps > last:
        refused("steps", f"1 to {last}", str(steps)).by(time_grid, schedule, steps, grid)
        return
    times = time_grid(schedule, steps, grid)
    assert all(type(time) is int for time in times)
    assert (len(times), times[0], times[-1]) == (steps + 1, 0, last)
    assert np.diff(times).min() >= 1
    if kind == "uniform":
        assert np.ptp(np.diff(times)) <= 1


def test_other_grids_are_even_in_what_they_say() -> None:
    """As even as whole times allow: each lies nearest to where it should."""
    schedule = NoiseSchedule(steps=100_000)
    for kind in ("quadratic", "log-snr", "karras", "karras:0.8"):
        times = torch.tensor(time_grid(schedule, 12, kind)[1:])
        t, ratio = times.numpy(), (schedule.noise(times) / schedule.signal(times)).numpy()
        own = {"quadratic": t**0.5, "log-snr": np.log(ratio)}
        along = own.get(kind, ratio ** (1 / 7))
        along = (along - along[0]) / (along[-1] - along[0])
        assert times[0] == 1 or kind == "quadratic"
        assert np.abs(along - np.linspace(0, 1, 12)).max() < 0.005
        assert np.abs(np.diff(times)).max() > 2 * np.abs(np.diff(times)).min()


def test_what_means_nothing_is_refused() -> None:
    parse = SamplingConfig.parse
    for text in ("ddim uniform", "ddim uniform ten", "bdia 12", "ddim uniform -3", "", None):
        refused("sampling").by(parse, text)
    for grid in ("log-srn", "karras:0", "karras:1.1", "karras:", "karras:half"):
        refused("grid").by(time_grid, SCHEDULE, 10, grid)
    refused("grid").by(SamplingConfig, DDIM(), "uniformly", 10)
    refused("grid").by(parse, "ddim karas 3")
    for steps in (0, -3, 1001, 2.5, "100", None, True):
        refused("steps").by(time_grid, SCHEDULE, steps)
    beyond = (-1, 5), (0, 1001), [0] * 20
    for times in ((), (5,), (5, 5), (0, 5, 3), (5, 3, 4), *beyond):
        refused("times").by(plan, *times)
    for text in ("dpm2m", "", None):
        refused("solver").by(as_solver, text)
    for text in ("uniform ddim 3", "dim uniform 3"):
        refused("solver").by(parse, text)
    refused("solver").by(SamplingConfig, "ddim", "uniform", 10)
    refused("solver 'ddim:5'").by(as_solver, "ddim:5")
    for text in (":", ":x", ":gamma=1", ";gamma=1"):
        refused("solver 'bdia").by(as_solver, f"bdia{text}")
    for number in ("0", "-2", "2.5", "1001"):
        refused("solver fixed-point, iterations").by(as_solver, f"fixed-point:{number}")
    for gamma in (0, 1.1, float("nan"), "0.9", True):
        refused("solver bdia, gamma").by(BDIA, gamma)


def test_refinement_inverts_every_single_step_exactly() -> None:
    predictor = Gaussian(SCHEDULE)
    up = integrate(predictor, Trajectory(images()), plan(300, 350), FixedPointDDIM(30))
    down = integrate(predictor, up, plan(350, 300), FixedPointDDIM())
    assert torch.allclose(down.x, images(), atol=1e-12)
    assert down.evaluations == 31


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_the_residual_is_how_far_the_way_back_misses_and_the_worst_is_kept(kind: str) -> None:
    """The generating step from the last iterate but one misses by exactly the residual."""
    pipeline, faces, attributes = mixture(4, kind=kind)
    denoiser = pipeline.denoiser
    predictor = ConditionalPredictor(denoiser, denoiser.condition(attributes))
    schedule, x, misses = denoiser.schedule, faces, []
    times = time_grid(schedule, 10)
    for t, s in pairwise(times):
        up = steps_along(schedule, (t, s), dtype=torch.float64)
        down = steps_along(schedule, (s, t), dtype=torch.float64)
        before = integrate(predictor, Trajectory(x), up, FixedPointDDIM(2))
        back = integrate(predictor, before, down, DDIM())
        misses.append((back.x - x).square().mean(dim=(1, 2, 3)).sqrt())
        x = integrate(predictor, Trajectory(x), up, FixedPointDDIM(3)).x
    whole = steps_along(schedule, times, dtype=torch.float64)
    reported = integrate(predictor, Trajectory(faces), whole, FixedPointDDIM(3)).residual
    assert torch.allclose(reported, torch.stack(misses).amax(dim=0), rtol=1e-6)
    assert not torch.allclose(reported, misses[-1], rtol=1e-3) or kind == "cosine"


def test_integration_is_differentiable() -> None:
    x = images().requires_grad_()
    integrate(Gaussian(SCHEDULE), Trajectory(x), plan(1000, 500, 0), DDIM()).x.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert x.grad.abs().min() > 0


@given(
    st.sampled_from([DDIM(), FixedPointDDIM(3), DPMSolver2M(), Heun(), BDIA(), BDIA(0.125)]),
    st.sampled_from([*GRIDS, "quadratic:0.8"]),
    st.integers(1, 10**6),
)
def test_a_configuration_is_its_text_and_its_parts(solver, grid: str, steps: int) -> None:
    sampling = SamplingConfig(solver, grid, steps)
    spaced = f" {str(sampling).replace(' ', '  ').replace(':', ' : ')} "
    parts = "{solver} {grid} {steps}".format(**sampling.to_json())
    assert {SamplingConfig.parse(text) for text in (str(sampling), spaced, parts)} == {sampling}
    assert as_solver(f" {solver} ".replace(":", " : ")) == solver
    assert as_solver(solver) is solver
    assert type(as_solver(solver.name)) is SOLVERS[solver.name] is type(solver)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"sampling": "paper"}, PAPER),
        ({"anchor": None}, ANCHORED),
        ({"anchor": True}, ANCHORED),
        ({"anchor": False}, PRESETS["default"]),
        ({"drawn_noise": True}, DRAWN_NOISE),
        ({"anchor": True, "sampling": "heun"}, replace(ANCHORED, solver=Heun())),
        ({"anchor": False, "sampling": "heun"}, replace(PRESETS["default"], solver=Heun())),
        ({"anchor": True, "sampling": 9}, replace(ANCHORED, steps=9)),
        ({"anchor": False, "sampling": " 9 "}, replace(PRESETS["default"], steps=9)),
    ],
)
def test_the_default_depends_on_anchor_and_noise_and_each_part_can_be_changed(
    pipeline, options, wanted
) -> None:
    """Bit by bit, as its solver, grid and steps in one text, or as an object."""
    faces, attributes = mixture_faces(pipeline, 1)
    assert as_sampling(options.get("sampling", "default"), wanted) == wanted
    silent = pipeline.abduct(faces, attributes, **options)
    assert (silent.times, silent.solver) == (wanted.times(SCHEDULE), wanted.solver)
    for named in (wanted, str(wanted)):
        explicit = pipeline.abduct(faces, attributes, **{**options, "sampling": named})
        assert torch.equal(silent.trajectory.x, explicit.trajectory.x)
    asked = {name: value for name, value in options.items() if name != "drawn_noise"}
    asked |= {"guidance": INFERRED} if "anchor" in options else {}
    pair = pipeline.counterfactual(faces, attributes, {"male": 1}, **asked)
    assert (pair.abduction.times, pair.abduction.solver) == (silent.times, silent.solver)
    assert torch.equal(silent.trajectory.x, pair.abduction.trajectory.x)
