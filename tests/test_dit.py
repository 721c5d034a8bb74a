"""The transformer: it answers as the U-Net does, wherever that can stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fcfg
from fcfg import DiT, DiTConfig, Guidance
from fcfg.training import read_config, train
from refusal import refused
from runs import tiny, tiny_file
from tiny import randomised

SHAPE: dict[str, Any] = {"size": 8, "width": 32, "depth": 2, "head_channels": 16, "condition": 24}
OWN = {"kind": "dit", "width": 32, "depth": 1, "head_channels": 16, "embedding": 8}


def network(**options: Any) -> DiT:
    torch.manual_seed(0)
    made = DiT(DiTConfig(**SHAPE), **options)
    randomised(made, 0.1)
    return made.double()


def inputs(size: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, size, size, generator=generator, dtype=torch.float64)
    c = torch.randn(2, 24, generator=generator, dtype=torch.float64)
    return x, torch.tensor([3, 700]), c


def test_a_new_one_predicts_zero_and_then_knows_image_place_time_and_condition() -> None:
    x, t, c = inputs()
    assert not DiT(DiTConfig(**SHAPE)).double()(x, t, c).any()
    made = network()
    here = made(x, t, c)
    assert here.shape == x.shape
    for other in (made(x, t.flip(0), c), made(x, t, -c), made(x + 0.1, t, c)):
        assert (other - here).abs().max() > 1e-3
    moved = made(x.roll(2, dims=-1), t, c).roll(-2, dims=-1)
    assert (moved - here).abs().max() > 1e-3
    assert torch.equal(made(x, t.float(), c), here)  # a flow calls it with floats


def test_images_of_any_number_of_conditions_and_size_are_taken() -> None:
    made, (x, t, c) = network(), inputs()
    together = made(x, t, torch.cat([c, torch.zeros_like(c), -c]))
    one_by_one = torch.cat([made(x, t, each) for each in (c, torch.zeros_like(c), -c)])
    assert torch.allclose(together, one_by_one, atol=1e-12)
    x, t, c = inputs(12)
    assert network()(x, t, c).shape == x.shape


def test_recomputed_blocks_have_the_same_gradients() -> None:
    gradients = []
    for saves in (False, True):
        made = network(gradient_checkpointing=saves)
        made(*inputs()).square().mean().backward()
        gradients.append([p.grad for p in made.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-12)
        assert one.any()


@pytest.mark.parametrize("kind", ["linear", "flow"])
def test_one_is_trained_from_a_file_kept_and_asked_with_an_anchor(kind, tmp_path: Path) -> None:
    model = {"network": OWN, "schedule": {"kind": kind}, "steps": 4}
    config = read_config(str(tiny_file(tmp_path, model=model)))
    assert config == tiny(model=model)
    train(config, tmp_path / "run")
    pipeline = fcfg.load(tmp_path / "run")
    assert isinstance(pipeline.denoiser.network, DiT)
    assert (pipeline.denoiser.size, pipeline.denoiser.stride) == (8, 2)
    faces = fcfg.datasets.portraits.sample(2, size=8)
    guidance = Guidance.cfg(3.0).replace(anchor=True, drawn_noise=True)
    for do, changes in (({}, False), ({"smiling": "flip"}, True)):
        pair = pipeline.counterfactual(
            faces.images, faces.attributes, do, guidance=guidance, sampling=3
        )
        assert torch.equal(pair.images, faces.images) != changes


def test_what_makes_no_transformer_is_refused() -> None:
    for section, subject, fragment in (
        (OWN | {"widht": 3}, "network.widht", "did you mean 'width'?"),
        ({"kind": "vit"}, "network.kind", "one of 'unet', 'dit'"),
        ({"kind": "dit", "base": 8}, "network.base", "'depth'"),
        (OWN | {"width": 30}, "model.network", "head_channels 16"),
        (OWN | {"patch": 3}, "model.network", "not divisible by the patch 3"),
    ):
        refused(subject, fragment).by(tiny, model={"network": section})
    embedder = tiny().model.build(tiny().inputs).embedder
    with refused("denoiser", "the values of its DiT, (3, 2, 24, 2)"):
        fcfg.Denoiser(network(), embedder, fcfg.NoiseSchedule())
