"""Published methods as settings of the package: each beside the algorithm, written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reference
import worlds
from evaluations import counted_rows
from fcfg import Counterfactual, CounterfactualPipeline, Guidance
from fcfg.diffusion import NoiseSchedule
from fcfg.guidance import CFG, Drawing
from fcfg.guidance.mask import largest
from fcfg.model.thresholds import way_back_guidance
from fcfg.sampling import DDIM, DDPM, Trajectory, steps_along
from place import DEVICE, anywhere
from refusal import refused
from worlds import mixture, mixture_faces, mixture_pipeline, walk

pytestmark = anywhere

DRAWN = ";anchor=true;drawn_noise=true"
FREE = f"{DRAWN};correlation=0"
#: Text form and sampling of each method, as docs/related.md names them.
METHODS = {
    "FlowEdit": (f"cfg:13.5{FREE};source=3.5", "ddim uniform:0.66 33"),
    "edit-friendly DDPM inversion": (f"cfg:15{FREE};source=3.5", "ddpm uniform:0.64 64"),
    "LEDITS++": (f"fcfg:affected=5,invariant=0{FREE};source=0;mask=0.8", "ddpm uniform:0.8 40"),
    "null-text inversion": ("cfg:7.5;align=10", "ddim uniform 50"),
    "negative-prompt inversion": ("contrast:7.5", "ddim uniform 50"),
    "SDEdit": (f"cfg:7.5{FREE};release=0", "ddpm uniform:0.5 50"),
}
ONE = ("cfg:1", "cfg:1;mask=0.7")
OUTSIDE = ("noises", "correlation", "release", "mask")
SPARSE = {"do": {"male": "flip"}, "n": 4}
TIGHT: dict[str, Any] = {"rtol": 0, "atol": 1e-12}


def ask(
    pipeline: CounterfactualPipeline, text: str, sampling: str, **options: Any
) -> tuple[np.ndarray, Counterfactual]:
    how = {"guidance": Guidance.parse(text), "sampling": sampling}
    faces, pair = worlds.ask(pipeline, **(SPARSE | how | options))
    return faces.numpy(), pair


class Numbers:
    """What the references need of a pipeline and an answer: all in NumPy."""

    def __init__(self, pipeline: CounterfactualPipeline, pair: Counterfactual) -> None:
        self.denoiser, self.times = pipeline.denoiser, list(pair.abduction.times)[::-1]
        self.own, self.asked = (
            self.denoiser.condition(table).cpu().numpy()
            for table in (pair.abduction.attributes, pair.attributes)
        )
        self.alpha = reference.linear_alpha(self.denoiser.schedule.steps)
        path = pair.abduction.path
        if path is not None:
            self.states = dict(zip(self.times, path.states.flip(0).numpy(), strict=True))
            extra = [] if path.further is None else list(path.further.flip(0).unbind(2))
            self.more = [dict(zip(self.times, each.numpy(), strict=True)) for each in extra]

    def eps(self, x: np.ndarray, t: int, c: np.ndarray) -> np.ndarray:
        """The prediction of the denoiser."""
        noisy, condition = (torch.from_numpy(array).to(DEVICE) for array in (x, c))
        at = torch.full((len(x),), t, device=DEVICE)
        return self.denoiser(noisy, at, condition).cpu().numpy()

    def cfg(self, weight: float) -> reference.Noise:
        """The prediction under classifier-free guidance."""

        def guided(x: np.ndarray, t: int, c: np.ndarray) -> np.ndarray:
            null = self.eps(x, t, np.zeros_like(c))
            return null + weight * (self.eps(x, t, c) - null)

        return guided


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_text_form_that_the_page_names(method: str) -> None:
    text, sampling = METHODS[method]
    page = Path(__file__).parents[1].joinpath("docs", "related.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| [{method}]")]
    assert f"`{text}`, `{sampling}`" in row
    if "align" in text:
        return  # whose answers are in test_alignment.py
    _, pair = ask(mixture_pipeline(), text, sampling, n=2)
    assert Guidance.parse(repr(pair.guidance)) == Guidance.parse(text)
    assert bool(pair.images.isfinite().all())


@pytest.mark.parametrize("eta", [1.0, 0.6])
@pytest.mark.parametrize("source", [3.5, 1.0, 0.0])
def test_it_is_edit_friendly_ddpm_inversion(pipeline, eta: float, source: float) -> None:
    """The authors' last step has no noise map; ours has the error of its mean, unless released."""
    sampling = f"ddpm:{eta} uniform:0.6 6"
    text = f"cfg:4.0{FREE};source={source}"
    faces, pair = ask(pipeline, f"{text};release=0.9", sampling)
    the = Numbers(pipeline, pair)
    about = (the.alpha, the.times, eta)
    maps = reference.edit_friendly_maps(the.cfg(source), the.states, the.own, *about)
    start = the.states[the.times[0]]
    published = reference.sample_ddpm(the.cfg(4.0), start, the.asked, maps, *about)
    np.testing.assert_allclose(pair.trajectory.x.numpy(), published, **TIGHT)
    _, whole = ask(pipeline, text, sampling)
    t = the.times[-2]
    noise = the.cfg(source)(the.states[t], t, the.own)
    mean, _ = reference.ddpm_step(noise, the.states[t], the.alpha, t, 0, eta)
    np.testing.assert_allclose(whole.trajectory.x.numpy(), published + faces - mean, **TIGHT)


@pytest.mark.parametrize("kind", ["linear", "flow"])
@pytest.mark.parametrize(("noises", "n_min"), [(1, 0), (3, 0), (1, 2), (3, 2)])
def test_it_is_flowedit(kind: str, noises: int, n_min: int) -> None:
    """Of a flow as published, of noises in the coordinates x / signal and noise / signal."""
    pipeline = mixture_pipeline(kind=kind)
    release = 1 - 0.6 * (n_min + 0.5) / 6 if n_min else 1.0
    text = f"cfg:4.0{FREE};noises={noises};source=1.5;release={release}"
    faces, pair = ask(pipeline, text, "ddim uniform:0.6 6")
    the, schedule = Numbers(pipeline, pair), pipeline.denoiser.schedule

    def signal(t: int) -> float:
        return 1.0 if schedule.is_flow else float(schedule.signal(torch.tensor(t)))

    def level(t: int) -> float:
        return float(schedule.noise(torch.tensor(t))) / signal(t)

    def velocity(weight: float, c: np.ndarray) -> Any:
        return lambda z, t: the.cfg(weight)(signal(t) * z, t, c)

    sources = {
        t: [states[t] / signal(t) for states in (the.states, *the.more)] for t in the.times[:-1]
    }
    branches = velocity(1.5, the.own), velocity(4.0, the.asked)
    expected = reference.flowedit(*branches, faces, sources, level, the.times, n_min)
    np.testing.assert_allclose(pair.trajectory.x.numpy(), expected, **TIGHT)


def test_it_is_sdedit(pipeline: CounterfactualPipeline) -> None:
    """The image with noise, then plain prediction; with DDPM, new noise at every step."""
    for solver in ("ddim", "ddpm:1.0", "ddpm:0.5"):
        faces, pair = ask(pipeline, f"cfg:2.0{FREE};release=0", f"{solver} uniform:0.5 5")
        the, eta = Numbers(pipeline, pair), float(solver.partition(":")[2] or 0)
        noises = {
            t: (x - np.sqrt(the.alpha[t]) * faces) / np.sqrt(max(1 - the.alpha[t], 1e-9))
            for t, x in the.states.items()
        }
        about = (noises, the.alpha, the.times, eta)
        expected = reference.sample_ddpm(the.cfg(2.0), the.states[500], the.asked, *about)
        np.testing.assert_allclose(pair.trajectory.x.numpy(), expected, **TIGHT)
        assert pair.evaluations == 5 * 2  # no branch is measured that is not subtracted


def test_it_is_the_rule_of_ledits() -> None:
    """Of concepts as groups, in images of three channels."""
    numbers = np.random.default_rng(0).standard_normal((3, 2, 3, 5, 4))
    null, *groups = torch.from_numpy(numbers)
    weights = torch.tensor([3.0, -2.0], dtype=torch.float64)
    (step,) = steps_along(NoiseSchedule(), (500, 400), weights=weights[None])
    for mask in (0.0, 0.5, 0.83):
        rule = CFG(mask=mask)
        found, _ = rule.combine(null, step, null, torch.stack(groups), weights, ())
        expected = reference.ledits_guidance(numbers[0], numbers[1:], weights.tolist(), mask)
        np.testing.assert_allclose(found.clean.numpy(), expected, **TIGHT)
        assert found.renoise is found.clean
    kept = (largest(torch.stack(groups), 0.75) != 0).any(dim=2).flatten(2).sum(dim=2)
    assert torch.equal(kept, torch.full((2, 2), 5))  # of 20 pixels of each group and image
    answers = [ask(mixture_pipeline(), text, "ddim uniform 2")[1] for text in ONE]
    assert not torch.allclose(answers[0].images, answers[1].images)  # weight 1 is masked, too


def test_contrast_without_an_anchor_is_negative_prompt_inversion(pipeline) -> None:
    """Inverted under the source condition, which then stands for the null one."""
    faces, pair = ask(pipeline, "contrast:2.5", "ddim uniform 8")
    the = Numbers(pipeline, pair)

    def eps(x: np.ndarray, t: int, c: np.ndarray) -> np.ndarray:
        return the.eps(x, t, c if c.any() else the.own)

    u = reference.abduct(the.eps, faces, the.own, the.alpha, the.times[::-1])
    expected = reference.predict_fcfg(eps, u, [the.asked], [2.5], the.alpha, the.times)
    np.testing.assert_allclose(pair.trajectory.x.numpy(), expected, **TIGHT)


LAWS = [  # where both branches are alike
    ("cfg:3;mask=0.5", "ddim uniform:0.8 5"),
    ("contrast:2;noises=2", "dpm-2m karras 5"),
    ("fcfg:affected=2,invariant=1.2;noises=3;correlation=0", "ddpm:0.7 quadratic 4"),
    ("none;correlation=1", "heun uniform 4"),
    ("apg:2;noises=2;correlation=0", "ddim quadratic 4"),
    ("cfg++:0.02;noises=2", "ddpm uniform 4"),
    ("fcontrast:affected=2,invariant=1;mask=0.3", "bdia uniform 4"),
]


@pytest.mark.parametrize(("text", "sampling"), LAWS)
def test_nothing_asked_gives_the_image_and_no_answer_depends_on_others(
    pipeline: CounterfactualPipeline, text: str, sampling: str
) -> None:
    faces, attributes = mixture_faces(pipeline, 3)
    rule, how = Guidance.parse(text + DRAWN), {"sampling": sampling, "drawn_noise": True}
    pair, states = walk(pipeline, faces, attributes, rule, **how)
    torch.testing.assert_close(states[-1].cpu(), faces, atol=1e-9, rtol=0)
    assert torch.equal(pair.images, faces)
    keys = list("abcde")
    _, whole = ask(pipeline, repr(rule), sampling, n=5, keys=keys)
    _, few = ask(pipeline, repr(rule), sampling, n=5, keys=keys, batch_size=9)
    torch.testing.assert_close(few.trajectory.x, whole.trajectory.x, **TIGHT)
    torch.testing.assert_close(few.correction, whole.correction, **TIGHT)
    others, table = mixture_faces(pipeline, 5)
    table = {name: column[:1] for name, column in table.items()}
    alone = {"guidance": rule, "sampling": sampling, "keys": ["a"]}
    first = pipeline.counterfactual(others[:1], table, {"male": 1 - table["male"]}, **alone)
    torch.testing.assert_close(first.trajectory.x, whole.trajectory.x[:1], **TIGHT)


@pytest.mark.parametrize("correlation", [-1, 0, 1])
def test_noises_are_drawn_as_they_say(correlation: int) -> None:
    pipeline, text = mixture_pipeline(), f"none{DRAWN};correlation={correlation}"
    _, pair = ask(pipeline, f"{text};noises=3", "ddim uniform 6")
    path, schedule = pair.abduction.path, pipeline.denoiser.schedule
    t = torch.tensor(pair.abduction.times)[1:].view(-1, 1, 1, 1)
    states = path.flat(slice(None)).states.view(7, 4, 3, 16)  # times, images, noises, pixels
    drawn = (states[1:] - schedule.signal(t) * states[0]) / schedule.noise(t)
    _, single = ask(pipeline, text, "ddim uniform 6")
    assert torch.equal(path.states, single.abduction.path.states)  # of which others are further
    related = torch.corrcoef(drawn.movedim(0, -1).flatten(0, 2).T)
    expected = torch.full((6, 6), float(correlation == 1), dtype=torch.float64).fill_diagonal_(1)
    if correlation == -1:
        expected[[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]] = -1
    assert (related - expected).abs().max() < 0.35
    others = torch.corrcoef(drawn.movedim(2, 0).flatten(1)).fill_diagonal_(0)
    assert others.abs().max() < 0.25
    assert abs(float(drawn.std()) - 1) < 0.2


def test_several_noises_vary_less_cost_more_rows_and_show_one_state(pipeline) -> None:
    spread, sizes = [], set[int]()
    for text in (f"contrast:2{FREE};noises={noises}" for noises in (1, 8)):
        pairs = []
        for key in range(6):
            how = {
                "keys": [key] * 3,
                "n": 3,
                "on_step": lambda it: sizes.add(len(it.trajectory.x)),
            }
            with counted_rows(pipeline) as spent:
                pairs.append(ask(pipeline, text, "ddim uniform 4", **how)[1])
            assert pairs[-1].evaluations == 3 * 4 * pairs[-1].guidance.noises == sum(spent) / 3
        spread.append(float(torch.stack([pair.trajectory.x for pair in pairs]).std(dim=0).mean()))
    assert spread[1] < 0.6 * spread[0]
    assert sizes == {3}
    other = pipeline.predict(pairs[-1].abduction, pairs[-1].action, Guidance.parse(f"none{FREE}"))
    _, asked = ask(pipeline, f"none{FREE}", "ddim uniform 4", n=3, keys=[5] * 3)
    assert torch.equal(other.trajectory.x, asked.trajectory.x)  # other noises, of the same keys


def test_a_release_at_the_start_is_the_plain_prediction_and_promises_no_image(pipeline) -> None:
    plain, released = (
        ask(pipeline, text, "dpm-2m karras 6")[1]
        for text in ("cfg:2", "cfg:2;anchor=true;release=0")
    )
    assert torch.equal(plain.trajectory.x, released.trajectory.x)
    faces, attributes = mixture_faces(pipeline, 3)
    nothing = {"do": {"male": attributes["male"]}, "n": 3}
    for change in ("release=0.5", "source=1"):
        _, pair = ask(pipeline, f"cfg:3{DRAWN};{change}", "ddim uniform 6", **nothing)
        assert not torch.allclose(pair.trajectory.x, faces, atol=1e-3)
    _, pair = ask(pipeline, f"cfg:3{DRAWN};source=3", "ddim uniform 6", **nothing)
    torch.testing.assert_close(pair.trajectory.x, faces, atol=1e-9, rtol=0)


def test_ddpm_steps_to_the_mean_of_the_posterior_and_without_noise_it_is_ddim() -> None:
    """Equation 7 of DDPM, for the clean image that is predicted; of flows, too."""
    for kind, times in (("linear", (700, 400)), ("flow", (700, 400)), ("flow", (1000, 600))):
        schedule, x = NoiseSchedule(kind), worlds.images()
        predictor = worlds.Gaussian(schedule)
        (step,) = steps_along(schedule, times, device=DEVICE, dtype=torch.float64)
        after, plain, ddim = (
            solver.step(predictor, Trajectory(x), step).x for solver in (DDPM(), DDPM(0), DDIM())
        )
        torch.testing.assert_close(plain, ddim, **TIGHT)
        image = step.image(x, predictor.predict(x, step, ())[0].clean)
        ratio = step.signal_t / step.signal_s
        left = step.noise_t.square() - (ratio * step.noise_s).square()
        mean = (step.signal_s * left * image + ratio * step.noise_s.square() * x) / step.noise_t**2
        torch.testing.assert_close(after, mean, **TIGHT)
        deviation = DDPM().fresh(step) * step.noise_s
        torch.testing.assert_close(deviation, left.sqrt() * step.noise_s / step.noise_t, **TIGHT)


def test_a_guidance_without_its_anchor_has_none_of_its_options() -> None:
    text = f"cfg:2.0{FREE};noises=2;release=0.9;source=1.5"
    assert repr(Guidance.parse(text).unanchored) == "cfg:2.0"
    assert Guidance.parse(text).drawing == Drawing(2, 0)
    assert way_back_guidance(Guidance.parse(text)) == Guidance.parse(text)
    pushed = Guidance.parse(f"contrast:2{FREE};noises=2")
    assert repr(way_back_guidance(pushed)) == f"none{DRAWN};noises=2;correlation=0"


def test_what_makes_no_sense_together_is_refused() -> None:
    for subject, text in (
        ("option noises", "cfg:2;anchor=true;noises=2"),
        ("option correlation", "cfg:2;correlation=0"),
        ("option release", "cfg:2;release=0.5"),
        ("option source", "cfg:2;source=1"),
        ("option source", f"contrast:2{DRAWN};source=1"),
        ("option noises", f"cfg:2{DRAWN};noises=2;release=0"),
        ("guidance cfg++", f"cfg++:0.02{DRAWN};source=2"),
        ("guidance none", f"none{DRAWN};source=1"),
        *((f"option {name}", f"cfg:2{DRAWN};{name}=65") for name in OUTSIDE),
    ):
        refused(subject).by(Guidance.parse, text)
    refused("solver ddpm, eta").by(DDPM, 1.5)
    pipeline, faces, attributes = mixture(2)
    for text in ("cfg:2", "contrast:2;anchor=true"):
        with refused("sampling 'ddpm:1.0 uniform 4'", "drawn_noise=true"):
            ask(pipeline, text, "ddpm uniform 4")
    refused("sampling").by(pipeline.abduct, faces, attributes, sampling="ddpm uniform 4")
    with refused("guidance", "correlation=0 with ddpm:1.0"):
        ask(pipeline, f"cfg:2{DRAWN};release=0.5", "ddpm uniform 4")
