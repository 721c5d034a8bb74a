"""Drawn worlds as data: portraits with everything known, drawn when they are needed.

Training and validation portraits have seeds below
:data:`~fcfg.datasets.portraits.EVALUATION_SEED`; there is no test split, for evaluation draws its
own above it, with their true counterfactuals.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import BaseModel, ConfigDict, Field, field_validator
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.datasets import portraits
from fcfg.datasets.examples import Examples, OnProgress, Splits
from fcfg.support.errors import InputError

#: Validation portraits have this seed, whatever that of training.
VALIDATION_SEED = portraits.EVALUATION_SEED - 1


class DrawnData(BaseModel):
    """Options of a drawn world."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["portraits", "portraits-causal"] = "portraits"  #: which world
    size: int = Field(default=32, ge=8, le=1024)  #: height and width of the images
    channels: Literal[3] = 3  #: always RGB
    count: int = Field(default=100_000, ge=1, le=10**8)  #: drawings for training
    val: int = Field(default=2_000, ge=1, le=10**8)  #: drawings for validation
    seed: int = 0  #: of the training drawings

    @field_validator("seed")
    @classmethod
    def _is_for_training(cls, seed: int) -> int:
        if not 0 <= seed < VALIDATION_SEED:
            raise InputError(
                "data, seed",
                expected=f"an integer from 0 to {VALIDATION_SEED - 1}",
                got=seed,
                do="use a smaller one: larger ones are for validation and evaluation",
            )
        return seed


def load_drawn(
    config: DrawnData, space: AttributeSpace, on_progress: OnProgress | None = None
) -> Splits:
    """Draw a world, on the GPU where there is one.

    Images are rounded to bytes as files would hold them. The pixels of the whole set are never
    in memory as floating-point numbers.

    Args:
        config: The options.
        space: Attributes of the world, some or all, as it declares them.
        on_progress: Called with 'drawing portraits', how many are drawn, of how many.
    """
    _check_attributes(config.format, space)
    total = config.count + config.val
    _check_memory(config, total)

    def tell(done: int) -> None:
        if on_progress is not None:
            on_progress("drawing portraits", done, total)

    tell(0)
    return {
        "train": _draw(config, space, config.count, config.seed, tell),
        "val": _draw(
            config, space, config.val, VALIDATION_SEED, lambda done: tell(config.count + done)
        ),
    }


def _draw(
    config: DrawnData, space: AttributeSpace, count: int, seed: int, tell: Callable[[int], None]
) -> Examples:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = np.empty((count, 3, config.size, config.size), dtype=np.uint8)
    attributes: list[Table] = []
    factors: list[Table] = []
    done = 0
    for part in portraits.sample_in_chunks(count, seed, config.size, config.format, device):
        images[done : done + len(part.images)] = to_bytes(part.images)
        done += len(part.images)
        attributes.append(part.attributes)
        factors.append(part.factors)
        tell(done)
    return Examples(
        images,
        {name: np.concatenate([table[name] for table in attributes]) for name in space.names},
        tuple(f"{seed}-{number:08d}.png" for number in range(count)),
        {name: np.concatenate([table[name] for table in factors]) for name in space.names},
    )


def to_bytes(
    images: Float[Tensor, "batch 3 height width"],
) -> UInt8[np.ndarray, "batch 3 height width"]:
    """Pixels as an 8-bit file would hold them."""
    return ((images + 1) * 127.5).round().to(torch.uint8).numpy()


def _check_memory(config: DrawnData, total: int) -> None:
    """Refuse more images than the machine can hold, which all lie in its memory as bytes."""
    each, has = 3 * config.size**2, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if total * each > has:
        raise InputError(
            "data, count",
            expected=f"at most {has // each:,} images of {config.size} × {config.size} pixels, "
            "which fit into the memory of this machine",
            got=f"{total:,} with those of validation",
            do="draw fewer, or smaller ones",
        )


def _check_attributes(world: str, space: AttributeSpace) -> None:
    """Refuse attributes that the world does not have, or has otherwise."""
    drawn = portraits.space(world)
    drawn.check_known(space.names, f"attributes of '{world}'")
    for attribute in space:
        if attribute != drawn[attribute.name]:
            raise InputError(
                f"attribute '{attribute.name}' of '{world}'",
                expected=f"{drawn[attribute.name].to_config()}",
                got=f"{attribute.to_config()}",
                do="declare it as the world has it",
            )
