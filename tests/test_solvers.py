"""Laws of all solvers: order, exactness, cost, and that guidance does not know of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import reference
from fcfg import BDIA, DDIM, DPMSolver2M, FixedPointDDIM, Guidance, Heun, NoiseSchedule
from fcfg.diffusion import AbstractPredictor, ConditionalPredictor, Images, Prediction, State, Step
from fcfg.pipeline.counterfactual import Counterfactual, CounterfactualPipeline
from fcfg.sampling import GRIDS, AbstractSolver, Trajectory, integrate, steps_along, time_grid
from place import DEVICE, anywhere
from worlds import Gaussian, ask, images, mixture, mixture_pipeline

pytestmark = anywhere

SCHEDULE = NoiseSchedule()
ALL = [DDIM(), FixedPointDDIM(2), DPMSolver2M(), Heun(), BDIA(), BDIA(1.0)]
solvers = pytest.mark.parametrize("solver", ALL, ids=str)


def follow(
    start: Trajectory, times: tuple[int, ...], solver: AbstractSolver, schedule=SCHEDULE
) -> Trajectory:
    plan = steps_along(schedule, times, device=DEVICE, dtype=start.x.dtype)
    return integrate(Gaussian(schedule), start, plan, solver)


def slope(steps: tuple[int, ...], errors: list[float]) -> float:
    return float(-np.polyfit(np.log(steps), np.log(errors), 1)[0])


FIRST, SECOND = [DDIM(), FixedPointDDIM(8)], [DPMSolver2M(), Heun(), BDIA(1.0)]
ORDERS = [(solver, 0.85, 1.15) for solver in FIRST] + [(solver, 1.7, 2.3) for solver in SECOND]
ORDERS += [(BDIA(), 1.7, 2.5)]


@pytest.mark.parametrize(
    ("kind", "shift"), [("linear", 1), ("scaled-linear", 1), ("flow", 1), ("flow", 3)], ids=str
)
@pytest.mark.parametrize("grid", ["log-snr", "karras"])
@pytest.mark.parametrize(("solver", "low", "high"), ORDERS, ids=str)
def test_each_solver_has_its_order_in_both_directions(
    solver, low, high, grid, kind, shift
) -> None:
    """On fine grids: the step at t = 0, which is DDIM's whatever the solver, is tiny there."""
    schedule, steps = NoiseSchedule(kind, 20_000, shift), (20, 40, 80)
    noise = Gaussian(schedule).exact(images(), 0, schedule.steps)
    up, down, trip = [], [], []
    for count in steps:
        times = time_grid(schedule, count, grid)
        there = follow(Trajectory(images()), times, solver, schedule)
        up.append((there.x - noise).abs().mean().item())
        ends = [
            follow(start, times[::-1], solver, schedule) for start in (Trajectory(noise), there)
        ]
        errors = [(end.x - images()).abs().mean().item() for end in ends]
        down.append(errors[0])
        trip.append(errors[1])
    assert low < slope(steps, up) < high, up
    assert low < slope(steps, down) < high, down
    if isinstance(solver, BDIA):
        assert max(trip) < 1e-12, trip  # undone
    else:
        assert slope(steps, trip) > (6 if isinstance(solver, FixedPointDDIM) else low), trip


@pytest.mark.parametrize("kind", GRIDS)
def test_dpm_2m_is_that_of_diffusers_in_both_directions(kind: str) -> None:
    pipeline, faces, attributes = mixture(3)
    denoiser = pipeline.denoiser
    condition = denoiser.condition(attributes)

    def eps(x: np.ndarray, t: int, c: np.ndarray) -> np.ndarray:
        asked = torch.full((len(x),), t, device=DEVICE)
        noisy, condition = (torch.from_numpy(array).to(DEVICE) for array in (x, c))
        return denoiser(noisy, asked, condition).cpu().numpy()

    times = time_grid(SCHEDULE, 12, kind)
    for path in (times[::-1], times[1:]):
        plan = steps_along(SCHEDULE, path, device=DEVICE, dtype=torch.float64)
        predictor = ConditionalPredictor(denoiser, condition)
        ours = integrate(predictor, Trajectory(faces.to(DEVICE)), plan, DPMSolver2M()).x
        theirs = reference.follow_dpm_2m(
            eps, faces.numpy(), condition.cpu().numpy(), reference.linear_alpha(), path
        )
        assert np.abs(ours.cpu().numpy() - theirs).max() < 1e-10


@pytest.mark.parametrize("solver", [DPMSolver2M(), Heun(), BDIA()], ids=str)
def test_the_step_at_the_image_is_ddims_or_its_refined_inverse(solver: AbstractSolver) -> None:
    down = follow(Trajectory(images()), (200, 0), solver)
    assert torch.equal(down.x, follow(Trajectory(images()), (200, 0), DDIM()).x)
    up = follow(Trajectory(images()), (0, 200), solver)
    assert torch.equal(up.x, follow(Trajectory(images()), (0, 200), FixedPointDDIM(1)).x)
    assert up.residual is None


def test_bdia_starts_without_a_companion_and_forgets_it_by_its_gamma() -> None:
    times = time_grid(SCHEDULE, 10)
    there = follow(Trajectory(images()), times, BDIA())
    assert len(there.companions) == 1
    bare = replace(there, companions=())
    first = times[:-3:-1]
    assert torch.equal(follow(bare, first, BDIA()).x, follow(bare, first, DDIM()).x)
    assert not torch.allclose(follow(there, first, BDIA()).x, follow(bare, first, DDIM()).x)
    times, echoes = time_grid(SCHEDULE, 20)[::-1], []
    for gamma in (1.0, 0.3, 0.1):
        ends = [
            follow(Trajectory(images(), (shift * torch.ones_like(images()),)), times, BDIA(gamma))
            for shift in (0.0, 0.1)
        ]
        echoes.append((ends[1].x - ends[0].x).abs().mean().item())
    assert echoes[0] > 2 * echoes[1] > 4 * echoes[2] > 0, echoes


def smile(
    n: int, sampling: str, dtype: torch.dtype = torch.float64, **options: Any
) -> tuple[CounterfactualPipeline, Counterfactual]:
    """A new mixture world, and an answer of it."""
    pipeline = mixture_pipeline()
    pipeline.denoiser.to(dtype)
    _, pair = ask(pipeline, n, do={"smiling": 1}, sampling=sampling, **options)
    return pipeline, pair


#: Of 6 steps up, and of 6 steps down, for each row of a prediction.
ROWS = {"ddim": (6, 6), "fixed-point:2": (12, 6), "dpm-2m": (6, 6), "heun": (11, 11)}
ROWS |= {"bdia:0.3": (7, 6), "bdia:1.0": (7, 6)}


@solvers
@pytest.mark.parametrize(
    ("text", "rows"),
    [("none", 1), ("cfg:2", 2), ("fcfg:affected=2,invariant=1.2", 3), ("cfg:1", 1)],
)
def test_every_network_row_is_counted(solver: AbstractSolver, text: str, rows: int) -> None:
    pipeline, pair = smile(3, f"{solver} karras 6", guidance=Guidance.parse(text))
    up, down = ROWS[str(solver)]
    assert pair.abduction.trajectory.evaluations == up
    assert pair.evaluations == up + rows * down
    assert pipeline.denoiser.network.rows == 3 * pair.evaluations


@pytest.mark.parametrize("solver", [DDIM(), DPMSolver2M(), BDIA()], ids=str)
def test_steps_outside_the_guidance_take_one_row(solver: AbstractSolver) -> None:
    guidance = Guidance.cfg(3.0).replace(start=0.25, stop=0.75)
    pipeline, pair = smile(2, f"{solver} uniform 8", guidance=guidance)
    assert pair.evaluations - pair.abduction.trajectory.evaluations == 4 * 1 + 4 * 2
    whole = pipeline.predict(pair.abduction, pair.action, Guidance.cfg(3.0))
    none = pipeline.predict(pair.abduction, pair.action, Guidance.none())
    for other in (whole, none):
        assert not torch.allclose(pair.trajectory.x, other.trajectory.x, atol=1e-3)


@solvers
def test_cfg_at_weight_1_is_the_plain_model(solver: AbstractSolver) -> None:
    none, whole, nearly = (
        smile(2, f"{solver} karras 6", guidance=guidance)[1].trajectory.x
        for guidance in (Guidance.none(), Guidance.cfg(1.0), Guidance.cfg(1.001))
    )
    assert torch.equal(none, whole)
    assert torch.allclose(none, nearly, atol=0.02)


@solvers
@pytest.mark.parametrize("kind", GRIDS)
def test_cfgpp_is_cfg_at_its_weight_under_every_solver(solver: AbstractSolver, kind: str) -> None:
    def omega(share: float) -> float:
        t = torch.tensor(round((1 - share) * 1000))
        r_t, r_s = (SCHEDULE.noise(u) / SCHEDULE.signal(u) for u in (t, t - 1))
        return (0.02 * r_t / (r_t - r_s)).item()

    plus, cfg, none = (
        smile(2, f"{solver} {kind} 10", guidance=guidance)[1].trajectory.x
        for guidance in (Guidance.cfgpp(0.02), Guidance.cfg(omega), Guidance.none())
    )
    assert torch.allclose(plus, cfg, atol=1e-9)
    assert not torch.allclose(plus, none, atol=1e-2)


class Remembering(AbstractPredictor):
    """Its state is the time of the question it came with."""

    def init(self, x: Images) -> State:
        return (torch.tensor(-1),)

    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        return Prediction(0.1 * x, 0.1 * x), (step.t,)


@pytest.mark.parametrize("solver", [DDIM(), DPMSolver2M(), Heun(), BDIA()], ids=str)
@pytest.mark.parametrize(("t", "s"), [(400, 300), (300, 400)])
def test_the_state_that_is_kept_came_from_the_current_time(solver, t: int, s: int) -> None:
    (step,) = steps_along(SCHEDULE, (t, s), device=DEVICE, dtype=torch.float64)
    start = Trajectory(images())
    before = solver.begin(Remembering(), start)
    after = solver.step(Remembering(), before, step)
    assert [int(time) for time in after.predictor_state] == [t]
    shapes = [[tensor.shape for tensor in each.solver_state] for each in (after, before)]
    assert shapes[0] == shapes[1]


@solvers
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_an_answer_does_not_depend_on_the_batch(solver, dtype, tolerance) -> None:
    """Nor does what an abduction leaves beside the noise."""
    guidance = Guidance.fapg(affected=3.0, invariant=1.2)
    whole, pieces = (
        smile(5, f"{solver} log-snr 8", dtype, guidance=guidance, batch_size=size)[1]
        for size in (256, 3)
    )
    assert whole.trajectory.x.dtype == dtype
    assert torch.isfinite(whole.trajectory.x).all()
    assert (whole.trajectory.x - pieces.trajectory.x).abs().max() < tolerance
    assert whole.evaluations == pieces.evaluations
    one, other = (pair.abduction.trajectory.residual for pair in (whole, pieces))
    assert one is None or torch.allclose(one, other, atol=tolerance)
