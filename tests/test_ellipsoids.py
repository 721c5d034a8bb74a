"""A network of MONAI, trained on drawn volumes whose counterfactuals are known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fcfg
from fcfg.diffusion.codec import AbstractCodec

PAGE = Path(__file__).parents[1] / "docs" / "your-model.md"
STEPS, BATCH, RATE = 350, 16, 4e-3


class Folded(AbstractCodec):
    """Cubes of eight voxels as channels of one, which nothing loses: a network is faster so."""

    channels, latent_channels, factor = 1, 8, 2

    def encode(self, images: Tensor) -> Tensor:
        parts = images.unflatten(4, (-1, 2)).unflatten(3, (-1, 2)).unflatten(2, (-1, 2))
        return parts.permute(0, 1, 3, 5, 7, 2, 4, 6).flatten(1, 4)

    def decode(self, latents: Tensor) -> Tensor:
        parts = latents.unflatten(1, (1, 2, 2, 2)).permute(0, 1, 5, 2, 6, 3, 7, 4)
        return parts.flatten(6, 7).flatten(4, 5).flatten(2, 3)


def drawn() -> dict[str, Any]:
    """The space, the graph and the drawing of the page about models of others."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "def draw_people" in block), names)
    return names


def test_folding_loses_nothing() -> None:
    volumes = torch.rand(2, 1, 4, 6, 8)
    folded = Folded().encode(volumes)
    assert folded.shape == (2, 8, 2, 3, 4)
    assert torch.equal(folded[0, :, 0, 0, 0], volumes[0, 0, :2, :2, :2].flatten())
    assert torch.equal(Folded().decode(folded), volumes)


@pytest.mark.long
def test_answers_are_nearer_to_the_truth_than_no_change() -> None:
    """After about a minute on two cores, too short to draw the whole spot of a disease."""
    nets = pytest.importorskip("monai.networks.nets", reason="needs the extra monai")
    world = drawn()
    space, draw, draw_people = (world[name] for name in ("space", "draw", "draw_people"))
    people, centres = draw_people(2048)
    latents = Folded().encode(draw(**people, centre=centres))
    scm = fcfg.StructuralCausalModel(space, world["graph"])
    scm.fit(people, steps=60)
    config: dict[str, Any] = {"spatial_dims": 3, "in_channels": 8, "out_channels": 8}
    config |= {"channels": [16, 32], "num_res_blocks": 1, "attention_levels": [False, True]}
    config |= {"num_head_channels": 32, "norm_num_groups": 8, "with_conditioning": True}
    config |= {"cross_attention_dim": 16}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nets.DiffusionModelUNet(**config)
        tokens = fcfg.AttributeTokens(space, 16, "context")
    schedule = fcfg.NoiseSchedule("flow")
    model = fcfg.wrap(network, schedule, scm, tokens, config=config, codec=Folded())
    denoiser, values = model.denoiser.train(), torch.from_numpy(space.encode(people)).float()
    optimiser = torch.optim.AdamW(denoiser.parameters(), RATE)
    course = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, STEPS)
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        rows = torch.randint(len(latents), (BATCH,), generator=generator)
        noise = denoiser.draw(latents[rows].shape, generator, p_null=0.2)
        optimiser.zero_grad()
        denoiser.loss(latents[rows], values[rows], noise).backward()
        optimiser.step()
        course.step()
    denoiser.eval()
    others, places = draw_people(32, seed=9)
    before = draw(**others, centre=places)

    def errors(do: dict[str, Any], **options: Any) -> tuple[Tensor, Tensor]:
        """Of the answers and of no change."""
        answer = model.counterfactual(before, others, do, sampling=6, **options)
        truth = draw(**answer.attributes, centre=places)
        near, far = ((x - truth).square().mean((1, 2, 3, 4)) for x in (answer.images, before))
        return near, far

    for do in ({"age": [30.0] * 16 + [80.0] * 16}, {"disease": "flip"}):
        near, far = errors(do)
        assert near.mean() < far.mean()
        assert (near < far).float().mean() > 0.75
    assert near.mean() > 0.5 * far.mean()  # most of the spot is missing
    near, far = errors({"disease": "flip"}, guidance=fcfg.Guidance.contrast(3.0))
    assert near.mean() > far.mean()
