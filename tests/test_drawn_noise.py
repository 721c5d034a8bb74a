"""Anchored predictions under drawn noise, on worlds whose answers are known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import worlds
from evaluations import counted_rows
from fcfg import Counterfactual, CounterfactualPipeline, Guidance, StepRecord
from fcfg.model.thresholds import way_back_guidance
from fcfg.trust import measure_trust
from place import anywhere
from refusal import refused
from worlds import RULES, mixture_faces

pytestmark = anywhere

DRAWN = Guidance.parse("none;anchor=true;drawn_noise=true")
OF_ALL = [DRAWN, *(rule.replace(anchor=True, drawn_noise=True) for rule in RULES)]


def ask(
    pipeline: CounterfactualPipeline, guidance: Guidance = DRAWN, **options: Any
) -> tuple[Tensor, Counterfactual]:
    options = {"sampling": "ddim uniform 8", "do": {"male": "flip"}} | options
    return worlds.ask(pipeline, guidance=guidance, **options)


def states(pair: Counterfactual) -> Tensor:
    """The path of the abduction, from the image to the noise."""
    return pair.abduction.path.states


def levels(pipeline: CounterfactualPipeline, t: int) -> tuple[float, float]:
    """Signal and noise at a time."""
    schedule, time = pipeline.denoiser.schedule, torch.tensor(t)
    return float(schedule.signal(time)), float(schedule.noise(time))


@pytest.mark.parametrize("text", ["none", "cfg:2.5", "contrast:1.5"])
def test_with_ddim_it_is_flowedit(pipeline: CounterfactualPipeline, text: str) -> None:
    """The sum of differences of clean images, written out."""
    guidance = Guidance.parse(f"{text};anchor=true;drawn_noise=true")
    faces, pair = ask(pipeline, guidance)
    denoiser, weight = pipeline.denoiser, float(text.partition(":")[2] or 1)
    own, asked = (
        denoiser.condition(table) for table in (pair.abduction.attributes, pair.attributes)
    )
    other = own if "contrast" in text else torch.zeros_like(own)

    def guided(x: Tensor, t: int, condition: Tensor) -> Tensor:
        (signal, noise), at = levels(pipeline, t), torch.full((len(x),), t, device=denoiser.device)
        plain, away = (
            (x - noise * denoiser(x.to(at.device), at, shown).cpu()) / signal
            for shown in (condition, other)
        )
        return plain + (weight - 1) * (plain - away)

    difference, times = torch.zeros_like(faces), pair.abduction.times
    for t, s, x in zip(times[:0:-1], times[-2::-1], states(pair).flip(0), strict=False):
        (signal, noise), (signal_s, noise_s) = levels(pipeline, t), levels(pipeline, s)
        made = guided(x + signal * difference, t, asked) - guided(x, t, own)
        left = (noise_s / signal_s) / (noise / signal)
        difference = left * difference + (1 - left) * made
    torch.testing.assert_close(pair.trajectory.x, faces + difference, atol=1e-8, rtol=1e-8)


def test_noise_follows_from_the_key_and_the_time(pipeline: CounterfactualPipeline) -> None:
    rule = Guidance.parse("cfg:2;anchor=true;drawn_noise=true")
    faces, whole = ask(pipeline, rule, n=5)
    _, few = ask(pipeline, rule, n=5, batch_size=4)
    torch.testing.assert_close(few.images, whole.images, atol=1e-12, rtol=0)
    table = {name: column[3:4] for name, column in whole.abduction.attributes.items()}
    question = {"do": {"male": 1 - table["male"]}, "sampling": "ddim uniform 8"}
    alone = pipeline.counterfactual(faces[3:4], table, guidance=rule, **question)
    torch.testing.assert_close(alone.images, whole.images[3:4], atol=1e-12, rtol=0)
    _, other = ask(pipeline, rule, n=5, keys=list("abcde"))
    assert not torch.equal(other.images, whole.images)
    noises = []
    for t, x in zip(whole.abduction.times[1:], states(whole)[1:], strict=True):
        signal, noise = levels(pipeline, t)
        noises.append((x - signal * states(whole)[0]).flatten() / noise)
    noises = torch.stack(noises)
    torch.testing.assert_close(noises[1::2], -noises[::2])  # neighbours are opposite
    assert torch.corrcoef(noises[::2]).fill_diagonal_(0).abs().max() < 0.5
    assert abs(float(noises.std()) - 1) < 0.2


def test_a_reversal_has_the_same_noise(pipeline: CounterfactualPipeline) -> None:
    _, pair = ask(pipeline)
    back = pipeline.reverse(pair)
    assert back.abduction.noise_is_drawn
    last, _ = levels(pipeline, pair.abduction.times[-1])
    there, here = (path[-1] - last * path[0] for path in (states(pair), states(back)))
    torch.testing.assert_close(there, here)
    same = pipeline.reverse(pair, keys=pair.abduction.keys)
    assert torch.equal(same.trajectory.x, back.trajectory.x)


@pytest.mark.parametrize("text", ["none", "cfg:2", "none;anchor=true", DRAWN, OF_ALL[2]], ids=repr)
def test_a_reversal_without_the_keys_draws_noise_anew(pipeline, text) -> None:
    """As someone would who has the answers, but not the images: from their pixels alone."""
    guidance = Guidance.parse(text) if isinstance(text, str) else text
    _, pair = ask(pipeline, guidance)
    same, anew = pipeline.reverse(pair), pipeline.reverse(pair, keys=None)
    do, how = {"male": pair.abduction.attributes["male"]}, {"sampling": "ddim uniform 8"}
    sent = pipeline.counterfactual(pair.images, pair.attributes, do, guidance=guidance, **how)
    assert torch.equal(anew.trajectory.x, sent.trajectory.x)
    assert torch.equal(anew.abduction.trajectory.x, sent.abduction.trajectory.x)
    is_same = torch.equal(same.abduction.trajectory.x, anew.abduction.trajectory.x)
    assert is_same != guidance.drawn_noise  # inferred noise follows from the image
    refused("keys", "4 integers or strings", "one").by(pipeline.reverse, pair, keys="one")


@pytest.mark.parametrize(("text", "rows"), [("none", 2), ("contrast:1.5", 3), ("cfg:2", 4)])
def test_no_network_is_called_before_the_prediction(pipeline, text, rows) -> None:
    records = list[StepRecord]()
    rule = Guidance.parse(f"{text};anchor=true;drawn_noise=true")
    with counted_rows(pipeline) as spent:
        _, pair = ask(pipeline, rule, n=4, on_step=records.append)
    assert pair.evaluations == 8 * rows
    assert sum(spent) == 4 * 8 * rows
    assert [record.ascending for record in records] == [True] * 8 + [False] * 8


def test_an_abduction_serves_both_kinds_of_guidance_and_no_others(pipeline) -> None:
    faces, pair = ask(pipeline)
    abduction = pipeline.abduct(faces, pair.abduction.attributes, sampling="ddim uniform 8")
    twice = [pipeline.predict(abduction, pair.action, DRAWN) for _ in range(2)]
    assert all(torch.equal(one.images, pair.images) for one in twice)
    assert twice[0].evaluations == pair.evaluations
    plain = pipeline.predict(abduction, pair.action, Guidance.none().replace(anchor=True))
    assert not torch.equal(plain.images, pair.images)
    refused("option drawn_noise", "without anchor=true").by(ask, pipeline, anchor=False)
    faces, attributes = mixture_faces(pipeline, 2)
    drawn = pipeline.abduct(faces, attributes, sampling="ddim uniform 4", drawn_noise=True)
    action = pipeline.act(attributes, {"male": 1 - attributes["male"]}, keys=drawn.keys)
    with refused("anchor", "True with drawn_noise=True"):
        pipeline.abduct(faces, attributes, drawn_noise=True, anchor=False)
    refused("keys", "2").by(pipeline.abduct, faces, attributes, drawn_noise=True, keys=["a"])
    refused("abduction", "inferred noise").by(pipeline.predict, drawn, action, Guidance.cfg(2.0))


def test_noise_does_not_depend_on_the_settings_of_torch(pipeline: CounterfactualPipeline) -> None:
    _, before = ask(pipeline)
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        faces, pair = ask(pipeline)
    finally:
        torch.set_default_dtype(default)
    assert torch.equal(states(before)[-1], states(pair)[-1])
    assert not torch.equal(*(states(pair)[-1] - faces)[:2])  # each has its own


def test_trust_knows_drawn_noise_whose_corrections_are_no_signal(pipeline) -> None:
    faces, pair = ask(pipeline)
    assert pair.correction is not None
    assert "correction" not in measure_trust(pipeline, faces, pair).values
    _, anchored = ask(pipeline, Guidance.parse("none;anchor=true"))
    assert "correction" in measure_trust(pipeline, faces, anchored).values
    pushed = Guidance.parse("contrast:2;anchor=true;drawn_noise=true")
    assert repr(way_back_guidance(pushed)) == repr(DRAWN)
