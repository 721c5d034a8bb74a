"""Anchored predictions under drawn noise, on worlds whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from evaluations import counted_rows
from fcfg.guidance import Guidance
from fcfg.model.thresholds import way_back_guidance
from fcfg.pipeline.counterfactual import Counterfactual, CounterfactualPipeline
from fcfg.sampling import Path, StepRecord, Trajectory
from fcfg.trust import measure_trust
from place import anywhere
from refusal import refused
from worlds import RULES, mixture_faces, mixture_pipeline

pytestmark = anywhere

DRAWN = Guidance.parse("none;anchor=true;drawn_noise=true")
OF_ALL = [DRAWN, *(rule.replace(anchor=True, drawn_noise=True) for rule in RULES)]


@pytest.fixture(scope="module")
def pipeline() -> CounterfactualPipeline:
    return mixture_pipeline()


def ask(
    pipeline: CounterfactualPipeline, guidance: Guidance = DRAWN, n: int = 4, **options: Any
) -> tuple[Tensor, Counterfactual]:
    faces, attributes = mixture_faces(pipeline, n)
    options = {"sampling": "ddim uniform 8", "do": {"male": 1 - attributes["male"]}} | options
    return faces, pipeline.counterfactual(faces, attributes, guidance=guidance, **options)


@pytest.mark.parametrize("text", ["none", "cfg:2.5", "contrast:1.5"])
def test_with_ddim_it_is_flowedit(pipeline: CounterfactualPipeline, text: str) -> None:
    """The sum of differences of clean images, written out."""
    guidance = Guidance.parse(f"{text};anchor=true;drawn_noise=true")
    faces, pair = ask(pipeline, guidance)
    path, denoiser = pair.abduction.path, pipeline.denoiser
    assert path is not None
    own, asked = (
        denoiser.condition(table) for table in (pair.abduction.attributes, pair.attributes)
    )
    schedule, weight = denoiser.schedule, float(text.partition(":")[2] or 1)
    other = own if "contrast" in text else torch.zeros_like(own)
    difference = torch.zeros_like(faces)
    times = pair.abduction.times[::-1]

    def clean(x: Tensor, t: int, condition: Tensor) -> Tensor:
        at = torch.full((len(x),), t)
        place = denoiser.device
        noise = denoiser(x.to(place), at.to(place), condition.to(place)).cpu()
        return (x - float(schedule.noise(at[:1])) * noise) / float(schedule.signal(at[:1]))

    for index, t in enumerate(times[:-1]):
        signal, noise, signal_s, noise_s = (
            float(f(torch.tensor(u)))
            for u in (t, times[index + 1])
            for f in (schedule.signal, schedule.noise)
        )
        x = path.states[len(times) - 1 - index]
        y = x + signal * difference
        guided = {}
        for name, state, condition in (("x", x, own), ("y", y, asked)):
            plain = clean(state, t, condition)
            away = own if "contrast" in text and name == "x" else other
            guided[name] = plain + (weight - 1) * (plain - clean(state, t, away))
        left = (noise_s / signal_s) / (noise / signal)
        difference = left * difference + (1 - left) * (guided["y"] - guided["x"])
    torch.testing.assert_close(pair.trajectory.x, faces + difference, atol=1e-8, rtol=1e-8)


def test_noise_follows_from_the_key_and_the_time(pipeline: CounterfactualPipeline) -> None:
    rule = Guidance.parse("cfg:2;anchor=true;drawn_noise=true")
    faces, whole = ask(pipeline, rule, n=5)
    _, few = ask(pipeline, rule, n=5, batch_size=4)
    torch.testing.assert_close(few.images, whole.images, atol=1e-12, rtol=0)
    attributes = {name: column[3:4] for name, column in whole.abduction.attributes.items()}
    alone = pipeline.counterfactual(
        faces[3:4],
        attributes,
        {"male": 1 - attributes["male"]},
        guidance=rule,
        sampling="ddim uniform 8",
    )
    torch.testing.assert_close(alone.images, whole.images[3:4], atol=1e-12, rtol=0)
    _, other = ask(pipeline, rule, n=5, keys=list("abcde"))
    assert not torch.equal(other.images, whole.images)
    assert whole.abduction.path is not None
    states = whole.abduction.path.states
    levels = [pipeline.denoiser.schedule.noise(torch.tensor(t)) for t in whole.abduction.times[1:]]
    signals = [
        pipeline.denoiser.schedule.signal(torch.tensor(t)) for t in whole.abduction.times[1:]
    ]
    noises = torch.stack(
        [
            (x - signal * states[0]) / level
            for x, signal, level in zip(states[1:], signals, levels, strict=True)
        ]
    ).flatten(1)
    torch.testing.assert_close(noises[1::2], -noises[::2])  # neighbours are opposite
    assert torch.corrcoef(noises[::2]).fill_diagonal_(0).abs().max() < 0.5
    assert abs(float(noises.std()) - 1) < 0.2


def test_opposite_neighbours_bring_answers_nearer_to_their_mean(
    pipeline: CounterfactualPipeline,
) -> None:
    """Less of an answer depends on the noise than with new noise at every time."""
    rule = Guidance.parse("cfg:2;anchor=true;drawn_noise=true")
    spread = dict[str, float]()
    for kind in ("opposite", "new"):
        answers = []
        for number in range(8):
            keys = [f"{number}-{row}" for row in range(4)]
            _, pair = ask(pipeline, rule, keys=keys)
            abduction = pair.abduction
            assert abduction.path is not None
            if kind == "new":
                states = abduction.path.states.clone()
                _, other = ask(pipeline, rule, keys=[f"other {key}" for key in keys])
                assert other.abduction.path is not None
                states[2::2] = other.abduction.path.states[2::2]
                path = Path(states)
                abduction = replace(abduction, path=path, trajectory=Trajectory(states[-1]))
            answers.append(pipeline.predict(abduction, pair.action, rule).trajectory.x)
        spread[kind] = float(torch.stack(answers).std(dim=0).mean())
    assert spread["opposite"] < 0.9 * spread["new"]


def test_a_reversal_has_the_same_noise(pipeline: CounterfactualPipeline) -> None:
    _, pair = ask(pipeline)
    back = pipeline.reverse(pair)
    assert back.abduction.noise_is_drawn
    assert pair.abduction.path is not None
    assert back.abduction.path is not None
    last = float(pipeline.denoiser.schedule.signal(torch.tensor(pair.abduction.times[-1])))
    there, here = pair.abduction.path.states, back.abduction.path.states
    torch.testing.assert_close(there[-1] - last * there[0], here[-1] - last * here[0])
    same = pipeline.reverse(pair, keys=pair.abduction.keys)
    assert torch.equal(same.trajectory.x, back.trajectory.x)


@pytest.mark.parametrize("text", ["none", "cfg:2", "none;anchor=true", DRAWN, OF_ALL[2]], ids=repr)
def test_a_reversal_without_the_keys_draws_noise_anew(
    pipeline: CounterfactualPipeline, text: str | Guidance
) -> None:
    """As someone would who has the answers, but not the images: from their pixels alone."""
    guidance = Guidance.parse(text) if isinstance(text, str) else text
    _, pair = ask(pipeline, guidance)
    same, anew = pipeline.reverse(pair), pipeline.reverse(pair, keys=None)
    sent = pipeline.counterfactual(
        pair.images,
        pair.attributes,
        {"male": pair.abduction.attributes["male"]},
        guidance=guidance,
        sampling="ddim uniform 8",
    )
    assert torch.equal(anew.trajectory.x, sent.trajectory.x)
    assert torch.equal(anew.abduction.trajectory.x, sent.abduction.trajectory.x)
    is_same = torch.equal(same.abduction.trajectory.x, anew.abduction.trajectory.x)
    assert is_same != guidance.drawn_noise  # inferred noise follows from the image
    with refused("keys", "4 integers or strings", "one"):
        pipeline.reverse(pair, keys="one")


@pytest.mark.parametrize(("text", "rows"), [("none", 2), ("contrast:1.5", 3), ("cfg:2", 4)])
def test_no_network_is_called_before_the_prediction(
    pipeline: CounterfactualPipeline, text: str, rows: int
) -> None:
    records = list[StepRecord]()
    rule = Guidance.parse(f"{text};anchor=true;drawn_noise=true")
    with counted_rows(pipeline) as spent:
        _, pair = ask(pipeline, rule, n=4, on_step=records.append)
    assert pair.evaluations == 8 * rows
    assert sum(spent) == 4 * 8 * rows
    assert [record.ascending for record in records] == [True] * 8 + [False] * 8


def test_an_abduction_serves_both_kinds_of_guidance(pipeline: CounterfactualPipeline) -> None:
    faces, pair = ask(pipeline)
    abduction = pipeline.abduct(faces, pair.abduction.attributes, sampling="ddim uniform 8")
    twice = [pipeline.predict(abduction, pair.action, DRAWN) for _ in range(2)]
    assert all(torch.equal(one.images, pair.images) for one in twice)
    assert twice[0].evaluations == pair.evaluations
    plain = pipeline.predict(abduction, pair.action, Guidance.none().replace(anchor=True))
    assert not torch.equal(plain.images, pair.images)


def test_what_drawn_noise_cannot_do_is_refused(pipeline: CounterfactualPipeline) -> None:
    with refused("option drawn_noise", "without anchor=true"):
        Guidance.parse("cfg:2;drawn_noise=true")
    with refused("option drawn_noise", "true or false", "2"):
        Guidance.cfg(2.0).replace(anchor=True, drawn_noise=2)
    with refused("option drawn_noise", "without anchor=true"):
        ask(pipeline, anchor=False)
    faces, attributes = mixture_faces(pipeline, 2)
    drawn = pipeline.abduct(faces, attributes, sampling="ddim uniform 4", drawn_noise=True)
    action = pipeline.act(attributes, {"male": 1 - attributes["male"]}, keys=drawn.keys)
    with refused("anchor", "True with drawn_noise=True"):
        pipeline.abduct(faces, attributes, drawn_noise=True, anchor=False)
    with refused("keys", "2"):
        pipeline.abduct(faces, attributes, drawn_noise=True, keys=["a"])
    with refused("abduction", "inferred noise", "drawn noise"):
        pipeline.predict(drawn, action, Guidance.cfg(2.0))


def test_noise_does_not_depend_on_the_settings_of_torch(pipeline: CounterfactualPipeline) -> None:
    _, before = ask(pipeline)
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        faces, pair = ask(pipeline)
    finally:
        torch.set_default_dtype(default)
    assert before.abduction.path is not None
    assert pair.abduction.path is not None
    assert torch.equal(before.abduction.path.states[-1], pair.abduction.path.states[-1])
    assert not torch.equal(*(pair.abduction.path.states[-1] - faces)[:2])  # each has its own


def test_corrections_of_drawn_noise_are_no_signal(pipeline: CounterfactualPipeline) -> None:
    faces, pair = ask(pipeline)
    assert pair.correction is not None
    assert "correction" not in measure_trust(pipeline, faces, pair).values
    _, anchored = ask(pipeline, Guidance.parse("none;anchor=true"))
    assert "correction" in measure_trust(pipeline, faces, anchored).values


def test_limits_of_trust_know_the_noise() -> None:
    assert repr(
        way_back_guidance(Guidance.parse("contrast:2;anchor=true;drawn_noise=true"))
    ) == repr(DRAWN)
