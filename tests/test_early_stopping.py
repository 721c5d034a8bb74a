"""Laws of a tolerance: guidance ends where it changes nothing, image by image, and no earlier."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fcfg import Abduction, Action, CounterfactualPipeline, Guidance, NoiseSchedule
from fcfg.diffusion.prediction import ConditionalPredictor
from fcfg.guidance import EarlyStoppingPredictor, GuidedPredictor
from fcfg.sampling import steps_along
from place import anywhere
from worlds import INVERTIBLE, RULES, mixture, pipeline_of

pytestmark = anywhere

rules = pytest.mark.parametrize("guidance", RULES, ids=repr)


def rms(x: Tensor) -> Tensor:
    return x.square().flatten(1).mean(dim=1).sqrt()


def asked(
    n: int = 6, sampling: str = "ddim uniform 40"
) -> tuple[CounterfactualPipeline, Abduction, Action]:
    """A pipeline, an abduction and an action of n images."""
    pipeline, faces, attributes = mixture(n)
    abduction = pipeline.abduct(faces, attributes, sampling=sampling)
    return pipeline, abduction, pipeline.act(attributes, {"smiling": 1})


@rules
@pytest.mark.parametrize("interval", [{}, {"start": 0.25, "stop": 0.9}], ids=repr)
def test_the_answer_moves_by_no_more_than_the_tolerance(guidance: Guidance, interval) -> None:
    pipeline, abduction, action = asked()
    guidance = guidance.replace(**interval)
    whole = pipeline.predict(abduction, action, guidance)
    rows, missed = [whole.evaluations], [0.0]
    for tolerance in (1e-9, 0.003, 0.01, 0.05):
        pair = pipeline.predict(abduction, action, guidance.replace(tolerance=tolerance))
        missed.append(rms(pair.trajectory.x - whole.trajectory.x).max().item())
        rows.append(pair.evaluations)
        assert missed[-1] <= tolerance
    assert rows == sorted(rows, reverse=True)
    assert missed == sorted(missed)
    assert rows[-1] < rows[0] == rows[1]
    assert missed[-1] > 0


@pytest.mark.parametrize("solver", INVERTIBLE)
def test_it_saves_rows_under_every_solver_and_all_are_counted(solver: str) -> None:
    pipeline, abduction, action = asked(sampling=f"{solver} karras 40")
    network, guidance = pipeline.denoiser.network, Guidance.fcfg(affected=3.0, invariant=1.2)
    whole = pipeline.predict(abduction, action, guidance)
    before = network.rows
    pair = pipeline.predict(abduction, action, guidance.replace(tolerance=0.01))
    up, full = abduction.trajectory.spent[0], whole.evaluations
    assert network.rows - before == sum(rows - up for rows in pair.trajectory.spent)
    assert max(pair.trajectory.spent) < full
    assert len(set(pair.trajectory.spent)) > 1  # images settle when each of them does
    assert rms(pair.trajectory.x - whole.trajectory.x).max() <= 0.01


@rules
def test_an_image_settles_alike_whatever_is_beside_it(guidance: Guidance) -> None:
    pipeline, abduction, action = asked()
    guidance = guidance.replace(tolerance=0.01)
    together = pipeline.predict(abduction, action, guidance)
    alone = pipeline.predict(abduction, action, guidance, batch_size=4)  # one image at once
    assert alone.trajectory.spent == together.trajectory.spent
    assert torch.allclose(alone.trajectory.x, together.trajectory.x, atol=1e-10)
    assert together.evaluations == sum(together.trajectory.spent) / 6


@rules
def test_a_settled_image_is_asked_about_as_the_plain_model_is(guidance: Guidance) -> None:
    pipeline, abduction, action = asked(3)
    denoiser = pipeline.denoiser
    x = abduction.trajectory.x.to(denoiser.device)
    condition = denoiser.condition(action.attributes)
    keep = torch.tensor([[True, False, False], [False, True, True]], device=x.device)
    how = {"weights": torch.full((2, 2), 0.5), "device": x.device, "dtype": x.dtype}
    first, second = steps_along(denoiser.schedule, (500, 400, 300), guided=[True, True], **how)
    rule = GuidedPredictor(denoiser, condition, keep, guidance.rule)
    predictor = EarlyStoppingPredictor(rule, 0.01)
    _, (moved, _, *held) = predictor.predict(x, first, predictor.init(x))
    settled = torch.tensor([True, False, True], device=x.device)
    found, _ = predictor.predict(x, second, (moved, settled, *held))
    guided, _ = rule.predict(x, second, tuple(held))
    plain, _ = ConditionalPredictor(denoiser, condition).predict(x, second, ())
    for ours, pushed in ((found.clean, guided.clean), (found.renoise, guided.renoise)):
        assert torch.allclose(ours[settled], plain.clean[settled], atol=1e-12)
        assert torch.allclose(ours[~settled], pushed[~settled], atol=1e-12)
        assert not torch.allclose(plain.clean[~settled], pushed[~settled], atol=1e-6)
    assert found.rows.tolist() == [1, 3, 1]


def test_where_guidance_was_never_felt_it_goes_on() -> None:
    pipeline, abduction, action = asked(2, "ddim uniform 10")
    guidance = Guidance.cfg(3.0)
    whole = pipeline.predict(abduction, action, guidance)
    pair = pipeline.predict(abduction, action, guidance.replace(tolerance=1e6))
    assert torch.allclose(pair.trajectory.x, whole.trajectory.x, atol=1e-12)
    assert pair.evaluations == whole.evaluations


class LateNetwork(nn.Module):
    """An attribute shows only at middle times: not in noise, and no longer in the image."""

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        shows = ((t > 300) & (t < 700)).view(-1, 1, 1, 1).to(x.dtype)
        return 0.1 * x + 0.5 * shows * c[:, :1, None, None].to(x.dtype)


def test_an_attribute_that_shows_late_is_not_given_up_before_it_does() -> None:
    pipeline = pipeline_of(LateNetwork(), NoiseSchedule(), 1)
    faces = torch.zeros(2, 1, 4, 4, dtype=torch.float64)
    rule, table = Guidance.cfg(3.0), {"smiling": [0, 1]}
    pair = pipeline.counterfactual(faces, table, {"smiling": 1}, guidance=rule, sampling=20)
    early = pipeline.predict(pair.abduction, pair.action, rule.replace(tolerance=0.1))
    none = pipeline.predict(pair.abduction, pair.action, Guidance.none())
    assert torch.allclose(early.trajectory.x, pair.trajectory.x, atol=1e-10)
    assert early.evaluations < pair.evaluations
    assert rms(none.trajectory.x - pair.trajectory.x).min() > 0.1
