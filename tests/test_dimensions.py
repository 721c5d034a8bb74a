"""Series, anisotropic images and volumes go the way of pictures; and weights below zero."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fcfg
from convolutions import SPACE, Convolutions, convolutional, pipeline_of
from fcfg import AttributeSpace, CausalGraph, Guidance, StructuralCausalModel, UNet, UNetConfig
from fcfg.diffusion import AbstractEmbedder, AttributeEmbedder, Denoiser, NoiseSchedule
from fcfg.generation import compare
from fcfg.metrics import image_errors, image_mae
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.images import read_images, views
from fcfg.trust import denoising_loss, measure_trust
from refusal import refused

SIZES = {1: (12,), 2: (6, 10), 3: (4, 6, 8)}


class Depth(nn.Module):
    """A network of images as one of volumes of depth 1, or of some of these."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        return self.network(x.squeeze(2), t, c).unsqueeze(2)


def images_of(dimensions: int, count: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(dimensions)
    return torch.rand(count, 2, *SIZES[dimensions], generator=generator) * 2 - 1


GIVEN = {"a": np.array([0, 1, 0]), "b": np.array([0, 0, 1])}
RULES = ("none", "cfg:2.5", "fcfg:affected=3,invariant=1.2", "fcfg:affected=2,invariant=-1")
RULES += ("fcfg++:affected=0.03,invariant=0.01", "fapg:affected=3,invariant=1.2")
RULES += ("contrast:-0.7", "cfg:2;tolerance=0.05", "cfg:2;align=2")
SOLVERS = ("ddim", "dpm-2m", "heun", "bdia", "fixed-point:2")
ANCHORS = ("", ";anchor=true", ";anchor=true;drawn_noise=true")


def combinations() -> list[tuple[str, str]]:
    """Every rule with every solver it takes, under anchors in turn."""
    found: list[tuple[str, str]] = []
    for number, (rule, solver) in enumerate(product(RULES, SOLVERS)):
        lone = "align" in rule or "tolerance" in rule
        if solver == "ddim" or "align" not in rule:
            found.append((rule + ("" if lone else ANCHORS[number % 3]), solver))
    return found


@pytest.mark.parametrize("dimensions", SIZES)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("anchor", ANCHORS[1:])
def test_to_change_nothing_gives_the_image_back(dimensions: int, solver: str, anchor: str) -> None:
    """One image of three is asked for something, so that all are computed; and without the rest.

    The factual branch is asked by itself: answers to questions that change nothing are copies.
    """
    pipeline, images = convolutional(dimensions), images_of(dimensions)
    for rule in ("cfg:2.5", "fcfg:affected=3,invariant=-1", "fapg:affected=3,invariant=1.2"):
        guidance = Guidance.parse(rule + anchor)
        same = GIVEN["a"] + np.array([0, 0, 1])
        how = {"guidance": guidance, "sampling": f"{solver} uniform 6"}
        pair = pipeline.counterfactual(images, GIVEN, {"a": same}, **how)
        assert pair.images.shape == images.shape
        assert (pair.images[:2] - images[:2]).abs().max() < 1e-5
        assert (pair.images[2] - images[2]).abs().max() > 1e-3
        branch = pair.abduction.anchor
        assert branch.corrections.shape[1:] == images.shape
        assert branch.size.shape == (3,)


@pytest.mark.parametrize(("rule", "solver"), combinations())
def test_an_image_is_a_volume_of_depth_one(rule: str, solver: str) -> None:
    torch.manual_seed(0)
    network, images = Convolutions(2, 2, 8), images_of(2)
    how = {"guidance": Guidance.parse(rule), "sampling": f"{solver} uniform 5", "keys": [1, 2, 3]}
    do = {"a": "flip"}
    flat = pipeline_of(network, 2).counterfactual(images, GIVEN, do, **how)
    deep = pipeline_of(Depth(network), 3).counterfactual(images[:, :, None], GIVEN, do, **how)
    assert deep.images.shape == (3, 2, 1, 6, 10)
    assert torch.allclose(deep.images.squeeze(2), flat.images, atol=1e-5)
    assert deep.spent == flat.spent
    assert deep.images.squeeze(2).sub(images).abs().max() > 1e-3


@pytest.mark.parametrize("dimensions", SIZES)
def test_models_of_every_shape_are_read_measured_and_stored(dimensions: int, tmp_path) -> None:
    pipeline, images = convolutional(dimensions, stride=2), images_of(dimensions)
    pair = pipeline.counterfactual(images, GIVEN, {"a": 1}, sampling=4)
    size = " by ".join(map(str, SIZES[dimensions]))
    assert f"3 images of {size}, do(a)" in repr(pair)
    bytes_ = ((images + 1) * 127.5).round().to(torch.uint8).numpy()
    seen = read_images(bytes_, channels=2, dimensions=dimensions) if dimensions != 2 else images
    assert (seen - images).abs().max() < 0.005
    signals = measure_trust(pipeline, images, pair)
    assert signals.values["change"].shape == (3,)
    assert denoising_loss(pipeline.denoiser, images, GIVEN).shape[0] == 3
    assert image_mae(images, pair.images).shape == (3,)
    errors = image_errors(pair.images, pair.images, images)
    assert not errors.missed.any()
    assert errors.changed.any()
    assert pipeline.fitting_rows(SIZES[dimensions]) == 256
    assert pipeline.fitting_rows((128,) * dimensions) == (256 if dimensions < 3 else 1)
    pipeline.prepare("bf16")
    rounded = pipeline.counterfactual(images, GIVEN, {"a": 1}, sampling=4).images
    assert 0 < (rounded - pair.images).abs().max() < 0.1
    pipeline.prepare("float32").save(tmp_path)
    loaded = fcfg.load(tmp_path, network=Convolutions(dimensions, 2, 8))
    again = loaded.counterfactual(images, GIVEN, {"a": 1}, sampling=4).images
    assert torch.equal(again, pair.images)


def test_volumes_are_shown_by_three_slices_with_their_later_axis_upright() -> None:
    """Sagittal, coronal and axial: nose right, head up; nose up."""
    head = -torch.ones(1, 1, 5, 7, 9)
    head[0, 0, 2, 3, 8], head[0, 0, 2, 6, 4], head[0, 0, 4, 3, 4] = 0.2, 0.6, 1.0
    shown = (views(head)[0, 0] + 1).round(decimals=1)
    assert shown.shape == (9, 7 + 5 + 5)
    found = {tuple(place): shown[tuple(place)].item() for place in shown.nonzero().tolist()}
    top, nose, right = 1.2, 1.6, 2.0
    sagittal = {(0, 3): top, (4, 6): nose}
    coronal = {(0, 7 + 2): top, (4, 7 + 4): right}
    axial = {(0, 12 + 2): nose, (3, 12 + 4): right}
    assert found == pytest.approx(sagittal | coronal | axial)


@pytest.mark.parametrize("dimensions", SIZES)
def test_every_shape_is_drawn(dimensions: int) -> None:
    """On sheets, in notebooks, and beside its counterfactual with the difference."""
    images = images_of(dimensions)[:, :1]
    height, width = views(images).shape[2:]
    assert (height, width) == {1: (1, 12), 2: (6, 10), 3: (8, 6 + 4 + 4)}[dimensions]
    assert fcfg.sheet.sheet({"": images}).height == height + 8
    assert [picture.size for picture in fcfg.to_pictures(images)] == [(width, height)] * 3
    scale = fcfg.sheet.difference_scale(*images[:2])
    change = fcfg.sheet.difference_map(*images[:2], scale)
    assert change.shape == (height, width, 3)
    made = convolutional(dimensions, channels=1)
    pair = made.counterfactual(images, GIVEN, {"a": 1}, sampling=3)
    assert "the first" not in str(pair._repr_html_())
    assert "data:image/png" in str(pair._repr_html_())
    named = {"factual": images[0], "counterfactual": images[1]}
    assert compare(named, {name: ["below"] for name in named}).mode == "RGB"


def test_other_shapes_are_refused() -> None:
    for dimensions, fragment, *shapes in (
        (1, "(batch, 2, length)", (1, 2, 4, 4)),
        (1, "length divisible by 2", (1, 2, 5)),
        (3, "(batch, 2, x, y, z)", (1, 2, 4, 4), (1, 3, 4, 4, 4)),
        (3, "x and y and z divisible by 2", (1, 2, 4, 4, 5)),
    ):
        abduct = convolutional(dimensions, stride=2).abduct
        for shape in shapes:
            refused("images", fragment).by(abduct, torch.zeros(shape), {"a": [0], "b": [0]})
    with refused("images", "the size the model was trained at"):
        read_images(torch.zeros(1, 1, 4, 4, 8), channels=1, dimensions=3, size=4)
    refused("denoiser, dimensions", "from 1 to 3", "4").by(pipeline_of, nn.Identity(), 4)
    unet, embedder = UNet(UNetConfig(condition=8)), AttributeEmbedder(SPACE, width=4)
    with refused("denoiser (channels, stride, condition width, dimensions)", "8, 3)"):
        Denoiser(unet, embedder, NoiseSchedule(), dimensions=3)


class Shown(AbstractEmbedder):
    """An embedding without weights: values, and zeros for what is masked."""

    def __init__(self, space: AttributeSpace) -> None:
        super().__init__()
        self.space, self.width = space, 1

    @property
    def condition_width(self) -> int:
        return len(self.space)

    def forward(self, values: Tensor) -> Tensor:
        return 2 * values - 1

    def shown(self, keep: Tensor) -> Tensor:
        return keep


class Gaussian(nn.Module):
    """The exact denoiser of N(c₁ + c₂, 1) in every pixel, where c is ±1, or 0 if it is masked.

    (Of hidden attributes it knows the mean, not the variance, which makes weights add up.)
    """

    def __init__(self, schedule: NoiseSchedule) -> None:
        super().__init__()
        self.schedule = schedule

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        signal, noise = (f(t).to(x.dtype) for f in (self.schedule.signal, self.schedule.noise))
        mean = 0.2 * c.sum(dim=1) * signal
        return (noise * (x.flatten(1).T - mean)).T.view_as(x)


@pytest.mark.parametrize("weight", [-2.0, -0.5, 0.0, 1.0, 2.0])
def test_a_negative_weight_pushes_the_other_way_as_far(weight: float) -> None:
    """A world without a single weight: the mean moves by ω times the move at ω = 1."""
    schedule, embedder = NoiseSchedule("linear", 100), Shown(SPACE)
    denoiser = Denoiser(Gaussian(schedule), embedder, schedule, channels=1, dimensions=1)
    assert denoiser.device == torch.device("cpu")
    assert denoiser.state_dtype == torch.float32
    scm = StructuralCausalModel(SPACE, CausalGraph({"a": [], "b": []}))
    scm.fit({"a": np.arange(9) % 2, "b": np.arange(9) % 2}, steps=2)
    pipeline = CounterfactualPipeline(denoiser, scm)
    assert pipeline.device == torch.device("cpu")
    images = torch.linspace(-0.15, 0.15, 8).view(1, 1, 8)
    guidance = Guidance.parse(f"contrast:{weight};anchor=true")
    how = {"guidance": guidance, "sampling": "ddim uniform 100"}
    pair = pipeline.counterfactual(images, {"a": [0], "b": [0]}, {"a": 1}, **how)
    moved = pair.images - images
    assert torch.allclose(moved, torch.full_like(moved, 0.4 * weight), atol=0.02)


def test_negative_weights_have_a_text_form_and_rules_keep_the_ends_of_what_they_mean() -> None:
    for text in ("cfg:-1.5", "fcfg:affected=3.0,invariant=-1.2", "apg:-2.0"):
        assert repr(Guidance.parse(text)) == text
    assert Guidance.cfg(-1.5) == Guidance.parse("cfg:-1.5")
    refused("guidance cfg++, weight of 'all'", "interpolates", "-0.1").by(Guidance.cfgpp, -0.1)
    with refused("guidance cfg, weight of 'all'", "from -1,000,000 to 1,000,000", "-10000000"):
        Guidance.cfg(-1e7)
