"""Anchored predictions, on worlds whose noise is known, and contrast, the rule beside them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import worlds
from evaluations import counted_rows
from fcfg import CounterfactualPipeline, Guidance
from fcfg.diffusion.prediction import ConditionalPredictor
from fcfg.evaluation import Experiment
from fcfg.pipeline.plans import PAPER_GUIDANCE
from fcfg.sampling import Anchor, Trajectory, steps_along
from fcfg.sampling.anchor import (
    _KnownPredictor,  # pyright: ignore[reportPrivateUsage] # its state matters to solvers
)
from place import anywhere
from products import pairwise
from refusal import refused
from worlds import ANY_RULE, INVERTIBLE, mixture_faces, walk

pytestmark = anywhere

ALL = [*ANY_RULE, Guidance.cfg(2.0).replace(stop=0.7)]


ask = partial(worlds.ask, n=3, sampling="dpm-2m karras 7", anchor=True)


@pytest.mark.parametrize(
    ("drawn", "guidance", "solver", "steps"), pairwise((False, True), ALL, INVERTIBLE, (1, 2, 7))
)
def test_the_factual_attributes_give_the_image_back(
    pipeline: CounterfactualPipeline, drawn: bool, guidance: Guidance, solver: str, steps: int
) -> None:
    """Not only where the pipeline knows that nothing changes: all steps lead there."""
    faces, attributes = mixture_faces(pipeline, 3)
    how = {"sampling": f"{solver} karras {steps}", "drawn_noise": drawn}
    pair, states = walk(pipeline, faces, attributes, guidance, **how)
    torch.testing.assert_close(states[-1].cpu(), faces, atol=1e-9, rtol=0)
    for state, expected in zip(states, pair.abduction.path.states.flip(0)[1:], strict=True):
        torch.testing.assert_close(state.cpu(), expected, atol=1e-8, rtol=1e-8)
    assert torch.equal(pair.images, faces)


@pytest.mark.parametrize("guidance", ALL, ids=repr)
def test_two_branches_in_one_batch_give_the_same(pipeline, guidance) -> None:
    """The definition, literally: path and counterfactual in one batch, step by step."""
    faces, attributes = mixture_faces(pipeline, 3)
    do = {"smiling": 1 - attributes["smiling"]}
    how = {"guidance": guidance.replace(anchor=True), "sampling": "dpm-2m karras 7"}
    pair = pipeline.counterfactual(faces, attributes, do, **how)
    path, denoiser, solver = pair.abduction.path, pipeline.denoiser, pair.abduction.solver
    both = {name: np.concatenate([attributes[name], pair.attributes[name]]) for name in attributes}
    factual = {name: np.concatenate([column, column]) for name, column in attributes.items()}
    times, weights = pair.abduction.times[::-1], pair.plan.weights
    conditions = denoiser.condition(both), denoiser.condition(factual)
    predictor = guidance.predictor(denoiser, *conditions, pair.plan.keep.to(denoiser.device))
    there = {"device": denoiser.device, "dtype": torch.float64}
    asked = {"weights": weights.weights, "guided": weights.guided}
    plan = steps_along(denoiser.schedule, times, **asked, **there)
    states = path.states.flip(0).to(denoiser.device)
    x = solver.begin(predictor, Trajectory(torch.cat([states[0], states[0]])))
    with torch.no_grad():
        for step, truth in zip(plan, states[1:], strict=True):
            x = solver.step(predictor, x, step)
            own, other = x.x.chunk(2)
            x = replace(x, x=torch.cat([truth, other + truth - own]))
    torch.testing.assert_close(pair.trajectory.x, x.x.chunk(2)[1].cpu(), atol=1e-9, rtol=0)


COSTS = {"none": 2 * 7 + 1, "contrast:1.5": 3 * 7 + 1, "cfg:1.5": 4 * 7 + 1}
COSTS |= {"apg:1.5": 4 * 7 + 1, "fcfg:affected=2,invariant=1.2": 7 * 7}


@pytest.mark.parametrize(("guidance", "rows"), COSTS.items())
def test_evaluations_are_shared_and_counted(pipeline, guidance, rows) -> None:
    """What the abduction evaluated is not evaluated again, and every row is counted."""
    n = 2
    with counted_rows(pipeline) as spent:
        _, pair = ask(pipeline, n=n, guidance=Guidance.parse(guidance))
    assert sum(spent) == n * rows
    assert pair.evaluations == rows
    with counted_rows(pipeline) as again:
        second = pipeline.predict(pair.abduction, pair.action, pair.guidance)
    assert sum(again) == n * 7 * (len(pair.partition.names) + 1 if guidance != "none" else 1)
    assert second.evaluations == rows
    assert torch.equal(second.images, pair.images)


def test_a_sweep_that_reuses_the_factual_branch_equals_one_that_does_not(pipeline) -> None:
    faces, attributes = mixture_faces(pipeline, 3)
    abduction = pipeline.abduct(faces, attributes, sampling="ddim uniform 6")
    for name in ("smiling", "male", "young"):
        for guidance in ALL:
            action = pipeline.act(attributes, {name: "flip"}, keys=abduction.keys)
            shared = pipeline.predict(abduction, action, guidance.replace(anchor=True))
            abduction = shared.abduction  # holds the last branch, so that memory is bounded
            how = {"do": {name: "flip"}, "guidance": guidance, "sampling": "ddim uniform 6"}
            assert torch.equal(shared.images, ask(pipeline, **how)[1].images)


def test_every_guidance_is_anchored_or_none_and_an_anchor_counts_its_steps() -> None:
    """Errors add like independent ones, and steps without an error add nothing."""
    one = torch.randn(1, 3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    size = one[0].square().mean(dim=(1, 2, 3)).sqrt()
    for steps in (1, 4, 9):
        corrections = torch.cat([one] * steps + [torch.zeros_like(one)] * 5)
        torch.testing.assert_close(Anchor(corrections, 0).size, steps**0.5 * size)
    values: dict[str, Any] = {"do": ["male"], "guidance": ["cfg:2"], "also": {"male": ["none"]}}
    asked = Experiment(**(values | {"anchor": True}))
    assert asked.guidance == ("none", "cfg:2.0;anchor=true")
    assert asked.also == {"male": ("none;anchor=true",)}


PLAIN: dict[str, Any] = {"anchor": False, "sampling": "ddim uniform 10"}


def same_answers(pipeline: CounterfactualPipeline, one: str, other: str, **options: Any) -> bool:
    """Whether two guidances give the same images, where nothing is anchored."""
    asked = (Guidance.parse(text) for text in (one, other))
    pairs = [ask(pipeline, guidance=guidance, **PLAIN, **options)[1] for guidance in asked]
    return torch.allclose(*(pair.images for pair in pairs), atol=1e-10, rtol=0)


def test_contrast_needs_no_weight_for_what_stays_put(pipeline: CounterfactualPipeline) -> None:
    """Weight 1 is the plain model; two groups and one give the same answer."""
    assert same_answers(pipeline, "contrast:1", "none")
    assert not same_answers(pipeline, "contrast:2", "none")
    for invariant in (0, 5):
        split = f"fcontrast:affected=2,invariant={invariant}"
        assert same_answers(pipeline, split, "contrast:2")


@pytest.mark.parametrize(
    "text", ["contrast:0.3", "contrast:4", "fcontrast:affected=4,invariant=9"]
)
def test_contrast_without_a_difference_is_the_plain_model(pipeline, text) -> None:
    """The masked attributes are the factual ones: nothing is pushed where nothing is asked."""
    _, attributes = mixture_faces(pipeline, 3)
    assert same_answers(pipeline, text, "none", do={"smiling": attributes["smiling"]})


def test_the_default_is_anchored_except_for_the_paper(pipeline: CounterfactualPipeline) -> None:
    faces, attributes = mixture_faces(pipeline, 2)
    abduction = pipeline.abduct(faces, attributes, sampling="ddim uniform 5")
    action = pipeline.act(attributes, {"smiling": 1}, keys=abduction.keys)
    assert pipeline.predict(abduction, action).guidance.anchor
    assert not pipeline.predict(abduction, action, Guidance.cfg(2.0)).guidance.anchor
    bare = pipeline.abduct(faces, attributes, sampling="ddim uniform 5", anchor=False)
    assert bare.path is None
    assert pipeline.predict(bare, action).guidance == PAPER_GUIDANCE
    with refused("guidance", "no anchor with the sampling 'paper'"):
        pipeline.predict(bare, action, Guidance.parse("cfg:2;anchor=true"))
    with refused("guidance", "no anchor with the sampling 'paper'"):
        pipeline.counterfactual(faces, attributes, {"smiling": 1}, sampling="paper", anchor=True)
    assert pipeline.plan(["smiling"], sampling="paper").setting == PAPER_GUIDANCE
    assert pipeline.abduct(faces, attributes, sampling="paper").path is None


def test_what_is_known_is_shared_as_far_as_it_can_be(pipeline) -> None:
    """Fixed-point abduction evaluates at its iterates, so the factual branch takes all rows."""
    _, pair = ask(pipeline, guidance=Guidance.none(), sampling="fixed-point:2 uniform 6")
    assert pair.abduction.path.noises is None
    assert pair.evaluations == 2 * 6 + 6 + 6
    faces, attributes = mixture_faces(pipeline, 2)
    predictor = ConditionalPredictor(pipeline.denoiser, pipeline.denoiser.condition(attributes))
    assert _KnownPredictor(predictor, faces, faces[None], 1).init(faces) == predictor.init(faces)
