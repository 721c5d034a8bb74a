"""Tiny models of every kind, which one suite of laws asks; rivals, too, if they are there."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from evaluations import SIZE, tiny_model
from fcfg import AttributeTokens, NoiseSchedule, wrap
from fcfg.datasets import portraits
from fcfg.model import AnyModel
from own_kind import Note, ShiftModel
from tiny import randomised

FACES = portraits.sample(5, 3, SIZE)


def diffusion() -> AnyModel:
    """An awake one: the last layers of a new network are zero."""
    model = tiny_model(saved=True)
    randomised(model.image_model, 0.03)
    return model


def shift() -> ShiftModel:
    """The kind that is defined in the tests, with a record of its own."""
    world = tiny_model(saved=True)
    torch.manual_seed(4)
    network = nn.Linear(sum(world.space.widths), 3 * SIZE * SIZE)
    model = ShiftModel(network, world.scm, judge=world.judge, provenance=world.provenance)
    model.note = Note(model=Note.digest(network), text="seed 4")
    return model


def foreign() -> AnyModel:
    """A network of diffusers, which takes a token for each attribute."""
    from diffusers import UNet2DConditionModel

    world = tiny_model(saved=True)
    shape = {"in_channels": 3, "out_channels": 3, "block_out_channels": (8, 8)}
    shape |= {"layers_per_block": 1, "norm_num_groups": 4, "sample_size": SIZE}
    blocks = {
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    }
    torch.manual_seed(5)
    network = UNet2DConditionModel(**shape, **blocks, cross_attention_dim=8, attention_head_dim=4)
    network.conv_out.weight.data *= 0.3  # small predictions, which let rounding grow less
    tokens, schedule = AttributeTokens(world.space, 8), NoiseSchedule("linear", 1000)
    model = wrap(randomised(network, 0.03), schedule, world.scm, tokens, judge=world.judge)
    model.provenance = world.provenance
    return model


KINDS: dict[str, Callable[[], AnyModel]] = {"diffusion": diffusion, "shift": shift}
if find_spec("diffusers") is not None:
    KINDS["foreign"] = foreign
if find_spec("fcfg.rivals") is not None:
    import tiny_rivals

    KINDS |= {"hvae": tiny_rivals.hvae, "semantic": tiny_rivals.semantic}


def few_steps(model: AnyModel) -> dict[str, Any]:
    """Arguments of a plan that takes milliseconds."""
    return {"sampling": "ddim uniform 3"} if model.traits.steps else {}


def exact(model: AnyModel) -> dict[str, Any]:
    """Arguments of a plan under which nothing asked changes nothing."""
    return few_steps(model) | ({"anchor": True} if model.traits.steps else {})
