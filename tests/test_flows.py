"""Flows, and schedules that other libraries made: the laws of sampling hold for them, too."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fcfg
from fcfg import DDIM, Abduction, CounterfactualPipeline, DPMSolver2M, FixedPointDDIM, Guidance
from fcfg.diagnosis import diagnose
from fcfg.diffusion import ConditionalPredictor, Denoiser, Prediction
from fcfg.diffusion.schedule import NoiseSchedule, prediction_from_output, training_target
from fcfg.diffusion.table import Table
from fcfg.diffusion.times import TrainingTimes
from fcfg.sampling import BDIA, GRIDS, Heun, Trajectory, integrate, steps_along
from fcfg.support.config_files import to_yaml
from fcfg.training import read_config, train
from fcfg.trust.signals import denoising_loss
from refusal import refused
from runs import tiny, tiny_file
from worlds import binary_space, mixture, pipeline_of, readable_embedder

FLOW = NoiseSchedule("flow", shift=3.0)
SOLVERS = [DDIM(), FixedPointDDIM(2), DPMSolver2M(), Heun(), BDIA()]
TWO = "affected=3,invariant=1.2"
GUIDED = ["cfg:3", f"fcfg:{TWO}", "apg:3", f"fapg:{TWO}", "contrast:1.7"]


def test_schedules_end_as_they_say() -> None:
    t = torch.arange(1001)
    even = NoiseSchedule("flow")
    for schedule in (even, FLOW):
        signal, noise = schedule.signal(t), schedule.noise(t)
        assert torch.allclose(signal + noise, torch.ones(1001, dtype=torch.float64), atol=1e-15)
        assert (signal[-1], noise[-1], signal[0]) == (0, 1, 1)
        assert schedule.is_flow
        assert schedule.is_silent
        assert torch.equal(schedule.called(t), (1000 * noise).float())  # the network hears σ
    odds = [schedule.noise(t) / schedule.signal(t) for schedule in (even, FLOW)]
    assert torch.allclose(odds[1][:-1], 3 * odds[0][:-1], rtol=1e-9)
    betas = np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2
    alpha = np.concatenate([[1], np.cumprod(1 - betas)])
    np.testing.assert_allclose(NoiseSchedule("scaled-linear").alpha.numpy(), alpha, rtol=1e-12)
    ends = [float(NoiseSchedule("scaled-linear", steps).alpha[-1]) for steps in (200, 20_000)]
    assert ends[0] == pytest.approx(ends[1], rel=0.15)


def test_what_a_flow_predicts_says_image_and_noise_even_without_a_signal() -> None:
    x_0, eps = torch.randn(2, 2, 3, 4, 4, dtype=torch.float64)
    for kind, t in product(("flow", "reversed-flow", "image"), (1, 500, 1000)):
        signal, noise = (level(torch.tensor(t)) for level in (FLOW.signal, FLOW.noise))
        x_t = signal * x_0 + noise * eps
        output = training_target(x_0, eps, signal, noise, kind)
        flow = prediction_from_output(output, x_t, signal, noise, kind, flow=True)
        (step,) = steps_along(FLOW, (t, 0), dtype=torch.float64)
        assert torch.allclose(flow, eps - x_0, atol=1e-9)
        assert torch.allclose(step.image(x_t, flow), x_0, atol=1e-9)
        assert torch.allclose(step.noise(x_t, flow), eps, atol=1e-9)


def test_two_predictions_of_a_flow_merge_into_the_one_of_the_same_step() -> None:
    x, clean, renoise = torch.randn(3, 2, 1, 4, 4, dtype=torch.float64)
    for t, s in ((1000, 700), (700, 1000), (300, 200)):
        (step,) = steps_along(FLOW, (t, s), dtype=torch.float64)
        one = Prediction(clean, renoise).merged(step)
        two = step.signal_s * step.image(x, clean) + step.noise_s * step.noise(x, renoise)
        assert torch.allclose(x + (step.noise_s - step.noise_t) * one, two, atol=1e-12)


def test_a_denoiser_predicts_what_its_schedule_says() -> None:
    pipeline, faces, attributes = mixture(4, kind="flow", shift=3.0)
    denoiser = pipeline.denoiser
    assert denoiser.parameterisation == "flow"
    condition = denoiser.condition(attributes)
    eps = torch.randn(faces.shape, dtype=torch.float64)
    t = torch.tensor([1, 200, 700, 999])
    signal, noise = (level(t).view(-1, 1, 1, 1) for level in (FLOW.signal, FLOW.noise))
    x_t = signal * faces + noise * eps
    flow, said = denoiser(x_t, t, condition), denoiser.noise(x_t, t, condition)
    assert torch.allclose(signal * (x_t - noise * flow) + noise * said, x_t, atol=1e-9)


# Every solver with every rule, each under inferred and drawn noise.
_ENDED = [grid + end for grid, end in zip(GRIDS, ("", ":0.7", "", ":0.7"), strict=True)]
COVERING = [
    (solver, GUIDED[(row + column) % 5], _ENDED[(row + column) % 4], column % 2 == 0)
    for row, solver in enumerate(SOLVERS)
    for column in range(5)
]


@pytest.mark.parametrize(("solver", "text", "grid", "drawn"), COVERING, ids=str)
def test_doing_nothing_returns_the_image_without_the_shortcut(
    solver, text, grid, drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(abduction: Abduction, action: object) -> Tensor:
        return torch.zeros(len(abduction.images), dtype=torch.bool)

    monkeypatch.setattr(Abduction, "unchanged", none)
    pipeline, faces, attributes = mixture(3, kind="flow", shift=3.0)
    guidance = Guidance.parse(text).replace(anchor=True, drawn_noise=drawn)
    how: dict[str, Any] = {"guidance": guidance, "sampling": f"{solver} {grid} 8"}
    smile = {"smiling": attributes["smiling"]}
    same = pipeline.counterfactual(faces, attributes, smile, **how).trajectory.x
    assert (same - faces).abs().max() < 1e-5
    other = pipeline.counterfactual(faces, attributes, {"smiling": "flip"}, **how).trajectory.x
    assert torch.isfinite(other).all()
    assert (other - faces).abs().max() > 0.05


def test_guidance_that_stops_early_knows_how_far_a_flow_moves_the_image() -> None:
    pipeline, faces, attributes = mixture(3, kind="flow")
    answers = []
    for tolerance in (0.0, 1e-6, 0.3):
        guidance = Guidance.cfg(3.0).replace(tolerance=tolerance)
        how: dict[str, Any] = {"guidance": guidance, "sampling": "ddim uniform 20"}
        answers.append(pipeline.counterfactual(faces, attributes, {"smiling": "flip"}, **how))
    whole, nearly, early = (answer.trajectory for answer in answers)
    assert torch.allclose(whole.x, nearly.x, atol=1e-3)
    assert sum(early.spent) < sum(whole.spent)


def test_what_is_measured_of_noises_is_the_same_of_a_flow() -> None:
    """At equal noise for a unit of signal, the exact networks of one world know the same."""
    losses, gaps = [], []
    for kind in ("linear", "flow"):
        pipeline, faces, attributes = mixture(12, kind=kind, steps=20_000)
        table = pipeline.space.parse(attributes)
        losses.append(denoising_loss(pipeline.denoiser, faces, table))
        found = diagnose(pipeline, faces, attributes, times=6)
        assert len(found.times) == 6
        assert (found.times[-1] < 20_000) == (kind == "flow")  # without a signal nothing differs
        gaps.append(found.by_attribute.overall.value)
    assert torch.allclose(*losses, atol=0.02)
    assert gaps[0] == pytest.approx(gaps[1], rel=0.1)


class Waves(nn.Module):
    """No model of anything; remembers the times it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Tensor] = []

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        self.asked.append(t)
        phase = t.to(x.dtype).view(-1, 1, 1, 1) / 50 + c.sum(dim=1).view(-1, 1, 1, 1)
        return torch.sin(2 * x + phase) + 0.3 * x.roll(1, dims=-1).cos()


def waves(schedule: NoiseSchedule) -> tuple[Denoiser, Tensor, Tensor]:
    pipeline = pipeline_of(Waves(), schedule, 1)
    x = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    table = pipeline.space.parse({"smiling": [0, 1]})
    return pipeline.denoiser, x, pipeline.denoiser.condition(table)


def test_our_steps_are_those_of_ddim_in_diffusers() -> None:
    """With the spacing of Stable Diffusion 1.5, whose last step ends at their first time."""
    diffusers = pytest.importorskip("diffusers")
    shape: dict[str, Any] = {"beta_schedule": "scaled_linear", "set_alpha_to_one": False}
    shape |= {"beta_start": 0.00085, "beta_end": 0.012, "clip_sample": False, "steps_offset": 1}
    for predicted in ("epsilon", "v_prediction", "sample"):
        scheduler = diffusers.DDIMScheduler(prediction_type=predicted, **shape)
        for name in ("alphas_cumprod", "final_alpha_cumprod"):
            setattr(scheduler, name, getattr(scheduler, name).double())
        denoiser, x, c = waves(NoiseSchedule.of(scheduler))
        scheduler.set_timesteps(10)
        theirs, times = x, [int(t) + 1 for t in scheduler.timesteps] + [1]
        for t in scheduler.timesteps:
            output = denoiser.network(theirs, t.expand(2), c)
            theirs = scheduler.step(output, t, theirs).prev_sample
        called, denoiser.network.asked = denoiser.network.asked, []
        plan = steps_along(denoiser.schedule, times, dtype=torch.float64)
        ours = integrate(ConditionalPredictor(denoiser, c), Trajectory(x), plan, DDIM()).x
        assert ((ours - theirs).abs().max() / theirs.abs().max()).item() < 1e-12
        assert torch.equal(torch.stack(called), torch.stack(denoiser.network.asked))


def test_our_steps_are_those_of_flow_matching_in_diffusers_from_pure_noise() -> None:
    diffusers = pytest.importorskip("diffusers")
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(10)
    denoiser, x, c = waves(NoiseSchedule.of(scheduler))
    assert denoiser.schedule.noise(torch.tensor(10)) == 1
    single, theirs = x, x
    sigmas = scheduler.sigmas.double()
    for t, now, after in zip(scheduler.timesteps, sigmas[:-1], sigmas[1:], strict=True):
        output = denoiser.network(single, t.expand(2), c)
        single = scheduler.step(output, t, single).prev_sample  # in float32
        theirs = theirs + (after - now) * denoiser.network(theirs, t.expand(2), c)
    denoiser.network.asked.clear()
    plan = steps_along(denoiser.schedule, range(10, -1, -1), dtype=torch.float64)
    ours = integrate(ConditionalPredictor(denoiser, c), Trajectory(x), plan, DDIM()).x
    assert ((ours - theirs).abs().max() / theirs.abs().max()).item() < 1e-12
    assert torch.allclose(ours, single.double(), atol=1e-5)
    asked = torch.stack([t[0] for t in denoiser.network.asked])
    assert asked.dtype == torch.float32
    assert torch.equal(asked, scheduler.timesteps)


def scheduler(name: str, **settings: Any) -> Any:
    """A stand-in: tables are read by the names that both libraries use."""
    config = {"num_train_timesteps": 100} | settings
    made = type(name, (SimpleNamespace,), {})(config=config)
    if "FlowMatch" not in name:
        made.alphas_cumprod = NoiseSchedule("linear", 100).alpha[1:].float()
    return made


def rflow(**settings: Any) -> Any:
    """As in MONAI, whose schedulers have attributes, no config."""
    own = {"num_train_timesteps": 100, "use_discrete_timesteps": True, "prediction_type": "v"}
    return type("RFlowScheduler", (SimpleNamespace,), {})(**own | settings)


def test_the_schedule_of_a_scheduler_is_that_of_its_training() -> None:
    t = torch.arange(101)
    read = NoiseSchedule.of(scheduler("DDPMScheduler", prediction_type="sample"))
    assert torch.allclose(read.noise(t), NoiseSchedule("linear", 100).noise(t), atol=1e-6)
    assert read.called(t).tolist() == [0, *range(100)]
    assert read.parameterisation == "image"
    flow = NoiseSchedule.of(scheduler("FlowMatchEulerDiscreteScheduler"))
    own = {"use_flow_sigmas": True, "prediction_type": "flow_prediction", "flow_shift": 3.0}
    other = NoiseSchedule.of(scheduler("UniPC", **own))
    for schedule, shift in ((flow, 1.0), (other, 3.0)):
        assert torch.allclose(schedule.noise(t), NoiseSchedule("flow", 100, shift).noise(t))
        assert torch.allclose(schedule.called(t), 100 * schedule.noise(t).float())
        assert schedule.parameterisation == "flow"
    nearly = scheduler("DDIMScheduler")
    nearly.alphas_cumprod = NoiseSchedule("cosine", 100).alpha[1:]  # ends below 1e-8, not at 0
    read = NoiseSchedule.of(nearly)
    assert torch.allclose(read.signal(t), NoiseSchedule("cosine", 100).signal(t), rtol=1e-9)
    begins = scheduler("DDIMScheduler")  # MONAI's cosine schedule begins at the image
    begins.alphas_cumprod = NoiseSchedule("cosine", 100).alpha[:-1]
    assert NoiseSchedule.of(begins).called(torch.arange(100)).tolist() == [*range(100)]


def test_the_flow_of_monai_leads_from_noise_to_image() -> None:
    whole = NoiseSchedule.of(rflow())
    assert whole.called(torch.tensor([1, 100])).tolist() == [1, 100]
    chosen = rflow(num_inference_steps=4, timesteps=torch.tensor([100, 75, 50, 25]))
    schedule = NoiseSchedule.of(chosen)
    assert schedule.called(torch.arange(1, 5)).tolist() == [25, 50, 75, 100]
    assert schedule.noise(torch.arange(5)).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert schedule.steps == 4
    denoiser, x, c = waves(schedule)
    t = torch.tensor([3, 3])
    assert torch.equal(denoiser(x, t, c), -denoiser.network(x, schedule.called(t), c))


NOISES = scheduler("DPM", prediction_type="flow_prediction")
VELOCITY = scheduler("DPM", use_flow_sigmas=True, prediction_type="v_prediction")
REFUSED: dict[str, tuple[Any, str, str]] = {
    "velocity": (VELOCITY, "prediction_type", "'v_prediction'"),
    "flow of noises": (NOISES, "prediction_type", "use_flow_sigmas"),
    "distilled": (scheduler("LCMScheduler"), "LCMScheduler", "null condition"),
    "distilled flow": (scheduler("FlowMatchLCMScheduler"), "FlowMatchLCM", "null condition"),
    "clipped": (scheduler("DDPMScheduler", clip_sample=True), "clip_sample", "clip_sample=False"),
    "thresholds": (scheduler("DDPMScheduler", thresholding=True), "thresholding", "false"),
    "inverted": (scheduler("FlowMatchEuler", invert_sigmas=True), "invert_sigmas", "false"),
    "unknown": (scheduler("DDIM", prediction_type="x"), "prediction_type", "one of 'epsilon'"),
    "dynamic": (scheduler("FlowMatchEuler", use_dynamic_shifting=True), "Euler", "set_timesteps"),
    "by size": (rflow(use_timestep_transform=True), "RFlowScheduler", "set_timesteps"),
    "not read": (SimpleNamespace(config={}), "scheduler", "alphas_cumprod"),
}


def test_a_signal_that_ends_is_refused_for_noises_and_bounded_for_velocities() -> None:
    """And what cannot be right is refused in a line."""
    for given, *said in REFUSED.values():
        refused(*said).by(NoiseSchedule.of, given)
    with refused("scheduler", "zero terminal SNR"):
        NoiseSchedule.of(scheduler("EulerDiscreteScheduler", rescale_betas_zero_snr=True))
    for predicted in ("epsilon", "v_prediction"):
        silent = scheduler("DDIMScheduler", prediction_type=predicted)
        silent.alphas_cumprod[-1] = 0
        if predicted == "epsilon":
            refused("scheduler", "zero terminal SNR").by(NoiseSchedule.of, silent)
        else:
            assert 0 < NoiseSchedule.of(silent).signal(torch.tensor(100)) < 1e-3


def test_levels_that_are_no_schedule_are_refused() -> None:
    for noise in ((0.0, 0.5, 0.5), (0.1, 0.5, 1.0), (0.0,), (), (0.0, 0.5, 1.2)):
        with refused("noise schedule", "rises from 0"):
            Table(tuple(1 - n for n in noise), noise, noise, "flow")
    refused("noise schedule", "rises from 0").by(Table, (1.0, 0.0), (0.0, 1.0), (0.0,), "flow")
    with refused("noise schedule", "or that of their squares"):
        Table((1.0, 1.0), (0.0, 0.9), (0, 1), "noise")
    with refused("noise schedule", "zero terminal SNR"):
        Table((1.0, 0.6, 0.0), (0.0, 0.8, 1.0), (0, 0, 1), "velocity")
    with refused("parameterisation of a flow", "'velocity'"):
        Table((1.0, 0.5), (0.0, 0.5), (0, 1), "velocity")


def test_what_fits_no_flow_is_refused() -> None:
    embedder = readable_embedder(binary_space())
    for kind in ("velocity", "noise"):
        with refused("parameterisation of a flow", f"'{kind}'"):
            Denoiser(Waves(), embedder, FLOW, channels=1, parameterisation=kind)
    with refused("parameterisation", "'flow'"):
        Denoiser(Waves(), embedder, NoiseSchedule(), channels=1, parameterisation="flow")
    for kind, shift in (("linear", 3.0), ("flow", 0.0), ("flow", float("nan"))):
        refused("noise schedule, shift", "above 0").by(NoiseSchedule, kind, shift=shift)
    pipeline, faces, attributes = mixture(1, kind="flow")
    question = faces, attributes, {"smiling": 1}
    for text in ("cfg++:0.02", "fcfg++:affected=0.02,invariant=0.01;raw=true"):
        asked = {"guidance": Guidance.parse(text)}
        refused("guidance cfg++", "a flow").by(pipeline.counterfactual, *question, **asked)


def test_times_of_training_have_their_spread_and_their_shift() -> None:
    def shares(times: TrainingTimes) -> Tensor:
        t = times.draw(50_000, 1000, torch.Generator().manual_seed(0))
        assert (int(t.min()), int(t.max())) >= (1, 990)
        assert t.max() <= 1000
        return t.double() / 1000

    even, normal = TrainingTimes(), TrainingTimes("logit-normal")
    assert shares(even).mean() == pytest.approx(0.5, abs=0.01)
    assert shares(normal).std() == pytest.approx(0.208, abs=0.01)  # of a logit-normal
    for spread in ("uniform", "logit-normal"):
        median = shares(TrainingTimes(spread, 3.0)).median()
        assert float(median) == pytest.approx(0.75, abs=0.01)
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    drawn = torch.randint(1, 1001, (8,), generator=generators[0])  # as before there were others
    assert torch.equal(even.draw(8, 1000, generators[1]), drawn)
    refused("times of training", "did you mean 'uniform'?").by(TrainingTimes, "unifrom")
    refused("times of training, shift", "above 0").by(TrainingTimes, shift=0.0)


def test_a_flow_is_trained_from_a_file_kept_and_asked_with_an_anchor(tmp_path: Path) -> None:
    model = {"schedule": {"kind": "flow", "shift": 2.0}}
    model["times"] = {"spread": "logit-normal", "shift": 1.5}
    path = tiny_file(tmp_path, model=model)
    config = read_config(str(path))
    assert config == tiny(model=model)
    assert config.model.schedule.parameterisation == "flow"
    train(config, tmp_path / "run")
    pipeline = fcfg.load(tmp_path / "run")
    assert pipeline.denoiser.schedule == NoiseSchedule("flow", 1000, 2.0)
    assert pipeline.denoiser.parameterisation == "flow"
    faces = fcfg.datasets.portraits.sample(2, size=8)
    for drawn in (True, False):
        guidance = Guidance.cfg(3.0).replace(anchor=True, drawn_noise=drawn)
        how: dict[str, Any] = {"guidance": guidance, "sampling": 3}
        other, same = (
            pipeline.counterfactual(faces.images, faces.attributes, do, **how).images
            for do in ({"smiling": "flip"}, {})
        )
        assert torch.isfinite(other).all()
        assert torch.allclose(same, faces.images, atol=1e-6)


def test_what_a_flow_needs_is_in_its_file_or_refused() -> None:
    text = to_yaml(tiny(model={"schedule": {"kind": "flow"}, "times": {"shift": 2.0}}))
    assert all(word in text for word in ("shift: 2.0", "parameterisation: flow"))
    assert "parameterisation: noise" in to_yaml(tiny())
    with refused("parameterisation of a flow", "'velocity'"):
        tiny(model={"schedule": {"kind": "flow", "parameterisation": "velocity"}})
    refused("noise schedule, shift", "'flow'").by(tiny, model={"schedule": {"shift": 2.0}})


def test_a_schedule_of_a_table_is_kept(tmp_path: Path) -> None:
    denoiser, _, _ = waves(NoiseSchedule.of(scheduler("DDPMScheduler")))
    pipeline = pipeline_of(denoiser.network, denoiser.schedule, 1)
    pipeline.denoiser.float()
    pipeline.save(tmp_path / "model")
    loaded = fcfg.load(tmp_path / "model", network=denoiser.network)
    assert isinstance(loaded, CounterfactualPipeline)
    assert loaded.denoiser.schedule == denoiser.schedule
