"""What is asked of picture files: everything that was read and checked."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from fcfg.causal.graph import Partition
from fcfg.generation.parsing import Factual
from fcfg.generation.picture_files import Picture
from fcfg.guidance import Guidance
from fcfg.judge import Reading
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.records import Action
from fcfg.sampling import SamplingConfig
from fcfg.support.hashing import digest_of
from fcfg.support.shards import contiguous_rows


@dataclass(frozen=True, eq=False)
class Question:
    """Everything that was asked, read and checked; :func:`fcfg.generation.run.run` answers it."""

    pipeline: CounterfactualPipeline
    pictures: tuple[Picture, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)  #: of the outputs, one for each picture
    images: Float[Tensor, "batch channel height width"] = field(repr=False)
    factual: Factual
    reading: Reading | None  #: what the judge sees in the pictures
    action: Action  #: the counterfactual attributes of all of them
    do: dict[str, Any]  #: as JSON
    guidance: Guidance
    partition: Partition
    rows: int  #: that a guided step needs for one image
    sampling: SamplingConfig
    reverse: bool
    batch_size: int
    out: Path
    model: str  #: how the caller calls it
    shard: tuple[int, int]  #: which part of the pictures is answered, of how many
    overwrite: bool  #: whether to begin anew, whatever the folder holds

    @property
    def mine(self) -> range:
        """The pictures of the shard, by number."""
        return contiguous_rows(len(self.images), self.shard)

    @property
    def at_once(self) -> int:
        """Pictures that are finished together."""
        return min(len(self.mine), self.batch_size // self.rows)

    @cached_property
    def digest(self) -> str:
        """A digest of the model's weights."""
        return digest_of(self.pipeline.denoiser, self.pipeline.scm)


@contextmanager
def files_say_their_range() -> Generator[None]:
    """Bright pictures are bright: their files say what their numbers mean, unlike arrays."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="images: all pixels are in")
        yield
