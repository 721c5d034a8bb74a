"""Tiny models of every kind, which one suite of laws asks; rivals, too, if they are there."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from evaluations import SIZE, tiny_model
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


KINDS: dict[str, Callable[[], AnyModel]] = {"diffusion": diffusion, "shift": shift}
if find_spec("fcfg.rivals") is not None:
    import tiny_rivals

    KINDS |= {"hvae": tiny_rivals.hvae, "semantic": tiny_rivals.semantic}


def few_steps(model: AnyModel) -> dict[str, Any]:
    """Arguments of a plan that takes milliseconds."""
    return {"sampling": "ddim uniform 3"} if model.traits.steps else {}


def exact(model: AnyModel) -> dict[str, Any]:
    """Arguments of a plan under which nothing asked changes nothing."""
    return few_steps(model) | ({"anchor": True} if model.traits.steps else {})
