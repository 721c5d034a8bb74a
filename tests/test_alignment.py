"""Alignment: null conditions that bring guided images back to the path of their abduction."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evaluations import counted_rows
from fcfg import Abduction, Action, CounterfactualPipeline, Guidance, NoiseSchedule
from fcfg.pipeline import alignment
from refusal import refused
from tiny_rivals import tiny_images, tiny_pipeline
from worlds import SHAPE, binary_space, pipeline_of

World = tuple[CounterfactualPipeline, Tensor, dict[str, np.ndarray]]  # images, attributes
SAMPLING = "ddim uniform 4"
LARGE = 0.03 / alignment.LARGEST_SCALE  # few steps suffice, where it matters how far they lead
RULES = ("contrast:2", "cfg++:0.02", "apg:2", "fcfg:affected=2,invariant=1")
NO_COUNTS = (-1, 0.5, float("nan"), True, "much", 2000)


class SmoothNetwork(nn.Module):
    """A noise prediction that is smooth in its condition."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.mix = torch.randn(12, 16, generator=generator, dtype=torch.float64)

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        pull = torch.tanh(c @ self.mix).view(-1, *SHAPE)
        return 0.3 * x + torch.sin(t / 400).view(-1, 1, 1, 1) * pull * (1 + 0.2 * x)


class StillNetwork(SmoothNetwork):
    """A noise of the attributes alone, 0 without any: plain DDIM goes back exactly."""

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        values = c.unflatten(1, (3, 4))[..., 1]
        return torch.tanh(values @ self.mix[:3]).view(-1, *SHAPE)


def smooth() -> World:
    pipeline = pipeline_of(SmoothNetwork(), NoiseSchedule(), 3)
    generator = torch.Generator().manual_seed(4)
    images = torch.rand(4, *SHAPE, generator=generator, dtype=torch.float64) - 0.5
    codes = torch.randint(0, 2, (4, 3), generator=generator).numpy()
    return pipeline, images, dict(zip(binary_space().names, codes.T, strict=True))


def semantic() -> World:
    return tiny_pipeline(), *tiny_images()


def guided(inner: int, weight: float = 2.0) -> Guidance:
    return Guidance.cfg(weight).replace(align=inner)


def asked(world: World) -> tuple[CounterfactualPipeline, Abduction, Action]:
    """A model, its images, and an intervention on them."""
    pipeline, images, attributes = world
    abduction = pipeline.abduct(images, attributes, sampling=SAMPLING)
    return pipeline, abduction, pipeline.act(attributes, {"male": 1})


def errors(pipeline: CounterfactualPipeline, abduction: Abduction, guidance: Guidance) -> Tensor:
    """How far the factual prediction is from the path, summed over its steps, for each image."""
    action = pipeline.act(abduction.attributes, {"male": abduction.attributes["male"]})
    told: dict[str, Any] = {"on_step": lambda record: states.append(record.trajectory.x)}
    states: list[Tensor] = []
    pipeline.predict(abduction, action, guidance, **told)
    target = abduction.path.states.flip(0)[1:]
    return (torch.stack(states) - target).square().mean(dim=(2, 3, 4)).sum(dim=0)


@pytest.mark.parametrize("weight", [2.0, 0.0])
@pytest.mark.parametrize("world", [smooth, semantic])
def test_it_lowers_the_error_of_the_reconstruction_that_it_optimises(
    world, weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, abduction, _ = asked(world())
    plain, published = (errors(pipeline, abduction, guided(n, weight)) for n in (0, 1))
    assert bool((published < plain).all())
    monkeypatch.setattr(alignment, "RATE", LARGE)
    found = [errors(pipeline, abduction, guided(n, weight)) for n in (0, 1, 3, 12)]
    for more, less in pairwise(found):
        assert bool((less < more).all())
    if world is smooth:  # a network without training is steep, and moves less
        assert bool((found[-1] < 0.5 * found[0]).all())


def reference(
    pipeline: CounterfactualPipeline,
    abduction: Abduction,
    row: int,
    inner: int,
    male: int,
    weight: float = 2.0,
) -> tuple[Tensor, int]:
    """The equations for one image, written out: null conditions first, then the prediction."""
    denoiser, schedule = pipeline.denoiser, pipeline.denoiser.schedule
    table = {name: column[row : row + 1] for name, column in abduction.attributes.items()}
    z = None if abduction.semantics is None else abduction.semantics[row : row + 1]
    c = denoiser.condition(table, z).detach()
    changed = denoiser.condition({**table, "male": np.array([male])}, z).detach()
    embedder = denoiser.embedder
    phi = (embedder.null[None] if hasattr(embedder, "null") else torch.zeros_like(c)).detach()
    states = [state[row : row + 1] for state in abduction.path.states]
    times = abduction.times
    scale = min(schedule.steps / (len(times) - 1), 20)

    def ddim(x: Tensor, t: int, s: int, null: Tensor, condition: Tensor) -> Tensor:
        a_t, a_s = schedule.alpha[t], schedule.alpha[s]
        at = torch.tensor([t])
        eps_null, eps_c = denoiser(x, at, null), denoiser(x, at, condition)
        eps = eps_null + weight * (eps_c - eps_null)
        clean = (x - (1 - a_t).sqrt() * eps) / a_t.sqrt()
        return a_s.sqrt() * clean + (1 - a_s).sqrt() * eps

    x, nulls, rows = states[-1], [], 0
    for i in range(len(times) - 1, 0, -1):
        t, s = times[i], times[i - 1]
        phi = phi.clone().requires_grad_()
        optimiser = torch.optim.Adam([phi], lr=alignment.RATE * scale * t / schedule.steps)
        for _ in range(inner):
            loss = (ddim(x, t, s, phi, c) - states[i - 1]).square().mean()
            rows += 1
            if loss.item() < 1e-5:
                break
            optimiser.zero_grad()
            loss.backward(inputs=[phi])
            optimiser.step()
        phi = phi.detach()
        with torch.no_grad():
            x = ddim(x, t, s, phi, c)
        rows += 2
        nulls.append((t, s, phi))
    x = states[-1]
    for t, s, null in nulls:
        with torch.no_grad():
            x = ddim(x, t, s, null, changed)
        rows += 2
    return x, rows


@pytest.mark.parametrize(("world", "batch_size"), [(smooth, 2), (smooth, 256), (semantic, 4)])
def test_a_batch_gives_what_the_equations_give_for_each_image(
    world, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "RATE", LARGE)
    pipeline, abduction, action = asked(world())
    pair = pipeline.predict(abduction, action, guided(3), batch_size=batch_size)
    before = abduction.trajectory.spent[0]
    for row in range(len(pair.images)):
        expected, rows = reference(pipeline, abduction, row, 3, 1)
        torch.testing.assert_close(pair.trajectory.x[row], expected[0], atol=1e-9, rtol=1e-7)
        assert pair.spent[row] - before == rows


def test_images_stop_each_by_itself_and_all_rows_are_counted(monkeypatch) -> None:
    monkeypatch.setattr(alignment, "RATE", 0.1 / alignment.LARGEST_SCALE)
    pipeline = pipeline_of(StillNetwork(), NoiseSchedule(), 3)
    _, images, attributes = smooth()
    attributes = {name: np.array([0, 1, 0, 1]) for name in attributes}
    abduction = pipeline.abduct(images, attributes, sampling="ddim uniform 6")
    action = pipeline.act(attributes, {"male": 1})
    with counted_rows(pipeline) as evaluated:
        pair = pipeline.predict(abduction, action, guided(20, weight=1.01))
    spent = [rows - up for rows, up in zip(pair.spent, abduction.trajectory.spent, strict=True)]
    assert sum(evaluated) == sum(spent)
    assert spent[0] == spent[2] == 6 * (1 + 1 + 1 + 2)  # these are right from the start
    assert spent[0] < spent[1] < 6 * (1 + 20 + 1 + 2)
    for row in range(2):
        expected, rows = reference(pipeline, abduction, row, 20, 1, weight=1.01)
        torch.testing.assert_close(pair.trajectory.x[row], expected[0], atol=1e-9, rtol=1e-7)
        assert spent[row] == rows


def test_steps_outside_start_and_stop_are_not_aligned() -> None:
    pipeline, abduction, action = asked(semantic())
    pair = pipeline.predict(abduction, action, guided(1).replace(stop=0.5))
    spent = pair.spent[0] - abduction.trajectory.spent[0]
    assert spent == 2 * (1 + 1 + 1 + 2) + 2 * (1 + 1)
    assert repr(guided(3)) == "cfg:2.0;align=3"
    assert guided(0) == Guidance.cfg(2.0)
    plain = pipeline.predict(abduction, action, guided(1, weight=1.0))
    unguided = pipeline.predict(abduction, action, Guidance.none())
    assert torch.equal(plain.images, unguided.images)


def test_what_cannot_be_aligned_is_refused() -> None:
    own, whole = "each corrects guidance its own way", "a whole number from 0 to 1000"
    for text, options, fragment in (
        *((rule, {"align": 1}, "only cfg can be aligned") for rule in RULES),
        *(("cfg:2", {"align": 1} | o, own) for o in ({"anchor": True}, {"tolerance": 0.01})),
        *(("cfg:2", {"align": value}, whole) for value in NO_COUNTS),
    ):
        refused("guidance option align", fragment).by(Guidance.parse(text).replace, **options)
    refused("guidance none", "'anchor'", "'align'").by(Guidance.parse, "none;align=1")
    pipeline, images, attributes = semantic()
    with refused("guidance cfg:2.0;align=1", "solver dpm-2m", "ddim uniform 100"):
        pipeline.counterfactual(images, attributes, {"male": 1}, guidance=guided(1))
    abduction = pipeline.abduct(images, attributes, sampling=SAMPLING, anchor=False)
    with refused("abduction", "cfg:2.0;align=1", "no path"):
        pipeline.predict(abduction, pipeline.act(attributes, {"male": 1}), guided(1))
