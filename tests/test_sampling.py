from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fcfg.diffusion.prediction import ConditionalPredictor
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance import Guidance
from fcfg.sampling import (
    DDIM,
    GRIDS,
    FixedPointDDIM,
    StepRecord,
    Steps,
    Trajectory,
    integrate,
    steps_along,
    time_grid,
)
from refusal import refused
from worlds import Gaussian, mixture

SCHEDULE = NoiseSchedule()


def plan(times: tuple[int, ...]) -> Steps:
    return steps_along(SCHEDULE, times, dtype=torch.float64)


def images() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return 0.3 + 0.4 * torch.randn(8, 1, 2, 2, generator=generator, dtype=torch.float64)


@given(
    st.integers(1, 1000),
    st.sampled_from([25, 100, 1000]),
    st.sampled_from(["linear", "cosine"]),
    st.sampled_from(GRIDS),
)
def test_grids_are_distinct_and_reach_both_ends(
    steps: int, last: int, levels: str, kind: str
) -> None:
    schedule = NoiseSchedule(levels, last)
    if steps > last:
        with refused("steps", f"1 to {last}", str(steps)):
            time_grid(schedule, steps, kind)
        return
    times = time_grid(schedule, steps, kind)
    assert all(type(time) is int for time in times)
    assert len(times) == steps + 1
    assert times[0] == 0
    assert times[-1] == last
    assert np.diff(times).min() >= 1
    if kind == "uniform":
        assert np.ptp(np.diff(times)) <= 1


@pytest.mark.parametrize(
    ("kind", "even"), [("log-snr", np.log), ("karras", lambda r: r ** (1 / 7))]
)
def test_other_grids_are_even_in_what_they_say(kind: str, even) -> None:
    """As even as whole times allow: each lies nearest to where it should, from t = 1 on."""
    schedule = NoiseSchedule(steps=100_000)
    times = torch.tensor(time_grid(schedule, 12, kind)[1:])
    r = (schedule.noise(times) / schedule.signal(times)).numpy()
    along = (even(r) - even(r[0])) / (even(r[-1]) - even(r[0]))
    assert times[0] == 1
    assert np.abs(along - np.linspace(0, 1, 12)).max() < 0.005
    assert np.abs(np.diff(times)).max() > 2 * np.abs(np.diff(times)).min()


def test_grids_and_times_that_mean_nothing_are_refused() -> None:
    with refused("grid", "'karras'", "did you mean 'log-snr'?"):
        time_grid(SCHEDULE, 10, "log-srn")
    for steps in (0, -3, 1001, 2.5, "100", None, True):
        with refused("steps", "1 to 1000"):
            time_grid(SCHEDULE, steps)
    short = ((), (5,), (5, 5), (0, 5, 3), (5, 3, 4), (-1, 5), (0, 1001))
    for times in (*short, tuple([0] * 20)):
        with refused("times", "strictly ordered"):
            plan(times)


def round_trip(solver: DDIM | FixedPointDDIM, steps: int) -> tuple[float, Trajectory]:
    pipeline, faces, attributes = mixture(8)
    abduction = pipeline.abduct(faces, attributes, sampling=f"{solver} uniform {steps}")
    back = pipeline.predict(abduction, pipeline.act(attributes, {}), Guidance.none())
    return (back.trajectory.x - faces).abs().mean().item(), abduction.trajectory


def test_refinement_gains_two_orders_of_magnitude_at_100_steps() -> None:
    plain, _ = round_trip(DDIM(), 100)
    refined, trajectory = round_trip(FixedPointDDIM(), 100)
    assert refined < plain / 100
    assert trajectory.evaluations == 500
    assert trajectory.residual.shape == (8,)
    assert trajectory.residual.max() < 1e-5


def test_the_residual_falls_with_every_iteration_and_is_none_for_explicit_solvers() -> None:
    residuals = [round_trip(FixedPointDDIM(k), 50)[1].residual.max().item() for k in (1, 2, 3, 4)]
    assert all(b < a / 5 for a, b in pairwise(residuals)), residuals
    assert round_trip(DDIM(), 50)[1].residual is None


def test_refinement_inverts_every_single_step_exactly() -> None:
    predictor, there, back = Gaussian(SCHEDULE), plan((300, 350)), plan((350, 300))
    up = integrate(predictor, Trajectory(images()), there, FixedPointDDIM(30))
    down = integrate(predictor, up, back, FixedPointDDIM())
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
    plan = steps_along(schedule, times, dtype=torch.float64)
    reported = integrate(predictor, Trajectory(faces), plan, FixedPointDDIM(3)).residual
    assert torch.allclose(reported, torch.stack(misses).amax(dim=0), rtol=1e-6)
    assert not torch.allclose(reported, misses[-1], rtol=1e-3) or kind == "cosine"


def test_every_step_is_reported_in_order() -> None:
    seen: list[StepRecord] = []
    end = integrate(
        Gaussian(SCHEDULE), Trajectory(images()), plan((1000, 600, 200, 0)), DDIM(), seen.append
    )
    assert [(record.index, record.steps) for record in seen] == [(0, 3), (1, 3), (2, 3)]
    assert [record.trajectory.evaluations for record in seen] == [1, 2, 3]
    assert torch.equal(seen[-1].trajectory.x, end.x)


def test_integration_is_differentiable() -> None:
    x = images().requires_grad_()
    integrate(Gaussian(SCHEDULE), Trajectory(x), plan((1000, 500, 0)), DDIM()).x.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert x.grad.abs().min() > 0


def test_trajectories_split_and_join_without_loss() -> None:
    whole = Trajectory(images(), (images() + 1,), torch.arange(8.0), evaluations=5)
    pieces = [
        whole.map(lambda tensor, rows=rows: tensor[rows]) for rows in (slice(3), slice(3, 8))
    ]
    joined = Trajectory.joined(pieces)
    assert torch.equal(joined.x, whole.x)
    assert torch.equal(joined.companions[0], whole.companions[0])
    assert torch.equal(joined.residual, whole.residual)
    assert joined.evaluations == 5
