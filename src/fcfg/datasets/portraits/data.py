"""Portraits as a data set for training, drawn when they are needed.

Training and validation portraits have seeds below
:data:`~fcfg.datasets.portraits.EVALUATION_SEED`. There is no test split: evaluation draws its own
portraits from there on, with their true counterfactuals.
"""

from __future__ import annotations

import os
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.datasets import portraits
from fcfg.datasets.base import AbstractData, Examples, OnProgress, Splits, silent
from fcfg.support.errors import InputError, check_integer

#: Seed for validation portraits, with any seed for training.
VALIDATION_SEED = portraits.EVALUATION_SEED - 1


class PortraitsData(AbstractData, frozen=True):
    """Options of drawn portraits."""

    is_drawn: ClassVar[bool] = True

    format: Literal["portraits", "portraits-causal"] = "portraits"  #: variant of the world
    size: int = Field(default=32, ge=8, le=1024)  #: height and width of the images
    channels: Literal[3] = 3  #: always RGB
    count: int = Field(default=100_000, ge=1, le=10**8)  #: portraits for training
    val: int = Field(default=2_000, ge=1, le=10**8)  #: portraits for validation
    seed: int = 0  #: seed for training portraits

    @field_validator("seed")
    @classmethod
    def _is_for_training(cls, seed: int) -> int:
        do = "use a smaller one: larger ones are for validation and evaluation"
        return check_integer("data, seed", seed, 0, VALIDATION_SEED - 1, do=do)

    def load(
        self, space: AttributeSpace, *, skip_bad: bool = False, on_progress: OnProgress = silent
    ) -> Splits:
        """Draw portraits for training and validation, on the GPU if there is one.

        Images are rounded to bytes as in a file, chunk by chunk: the float pixels of the whole
        set are never in memory.
        """
        known = portraits.space(self.format)
        known.check_known(space.names, f"attributes of '{self.format}'")
        for attribute in space:
            if attribute != known[attribute.name]:
                subject = f"attribute '{attribute.name}' of '{self.format}'"
                expected, got = known[attribute.name].to_config(), attribute.to_config()
                do = "declare it as the world does"
                raise InputError(subject, expected=f"{expected}", got=got, do=do)
        total = self.count + self.val
        each, memory = 3 * self.size**2, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if total * each > memory:
            raise InputError(
                "data, count",
                expected=f"at most {memory // each:,} images of {self.size} × {self.size} pixels, "
                "which fit into the memory of this machine",
                got=f"{total:,} with those of validation",
                do="draw fewer, or smaller ones",
            )

        import torch  # which the configuration does without

        from fcfg.support.images import images_to_bytes

        device = "cuda" if torch.cuda.is_available() else "cpu"
        splits: Splits = {}
        on_progress("drawing portraits", 0, total)
        drawn = (("train", self.count, self.seed), ("val", self.val, VALIDATION_SEED))
        for before, (split, count, seed) in zip((0, self.count), drawn, strict=True):
            images = np.empty((count, 3, self.size, self.size), dtype=np.uint8)
            tables: list[tuple[Table, Table]] = []
            done = 0
            for part in portraits.sample_in_chunks(count, seed, self.size, self.format, device):
                rows = slice(done, done := done + len(part.images))
                images[rows] = images_to_bytes(part.images).numpy()
                tables.append((part.attributes, part.factors))
                on_progress("drawing portraits", before + done, total)
            attributes, factors = (
                {name: np.concatenate([table[name] for table in parts]) for name in space.names}
                for parts in zip(*tables, strict=True)
            )
            names = tuple(f"{seed}-{number:08d}.png" for number in range(count))
            splits[split] = Examples(images, attributes, names, factors)
        return splits

    def training_images(self, space: AttributeSpace) -> int | None:
        return self.count
