"""Requests: what a user asks of picture files, and the same read, checked and ready to run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from fcfg.causal.intervention import Intervention
from fcfg.generation.parsing import Attributes, Factual
from fcfg.generation.picture_files import Picture
from fcfg.generation.results import intervention_text
from fcfg.model import AUTO, Action, AnyModel, Plan
from fcfg.sampling import SamplingLike
from fcfg.support.hashing import digest_of
from fcfg.support.images import image_keys
from fcfg.support.shards import contiguous_rows


@dataclass(frozen=True, eq=False)
class Request:
    """Which counterfactuals to make of which files, how, and where to write them."""

    files: Iterable[str | os.PathLike[str]]
    """Pictures and folders of pictures, which are cropped or padded as in the model's training."""
    attributes: Attributes = AUTO
    """Attributes of the pictures: a table with a column 'file_name', pairs such as
    ``smiling=0,male=1`` that hold for every picture, or 'auto', the default, to read them with the
    judge. In Python also columns, a data frame, or rows."""
    do: Mapping[str, Intervention] | None = None
    """For every target a value, a column, or a function of the factual column."""
    guidance: object = None
    """How strongly to push each group of attributes, such as contrast:1.5, or
    fcfg:affected=3,invariant=1.2; 'none' for no guidance. The model's by default."""
    sampling: SamplingLike = "default"  #: solver, grid and steps, see :mod:`fcfg.sampling.config`
    anchor: bool | None = None  #: whether to anchor; by default as the guidance says
    seed: int = 0  #: for sampling discrete exogenous noise
    out: str | os.PathLike[str] | None = None
    """Output folder; counterfactuals/MODEL/NAME=VALUE by default."""
    reverse: bool = True  #: whether to go back to the factual attributes and measure the error
    trust: bool = True  #: whether to measure signals of trust, see :mod:`fcfg.trust`
    batch_size: int = 256  #: largest number of network rows per call
    overwrite: bool = False  #: whether to replace existing outputs
    model: str = ""  #: name of the model in the record
    shard: tuple[int, int] = (0, 1)
    """Number and count of the part to work on. Several processes can share a folder, each with
    the same request, a shard and a record of its own."""

    @property
    def folder(self) -> Path:
        """Output folder; by default one for each model and intervention."""
        if self.out is not None:
            return Path(self.out)
        targets = (f"{name}={intervention_text(do)}" for name, do in (self.do or {}).items())
        names = [Path(self.model).resolve().name] if self.model else []
        parts = [re.sub(r"[^\w.,=%+-]+", "x", name)[:60] for name in (*names, ",".join(targets))]
        return Path("counterfactuals", *parts)


@dataclass(frozen=True, eq=False)
class CheckedRequest:
    """A request whose options were checked, before its pictures are read."""

    request: Request
    pipeline: AnyModel
    plan: Plan[Any]  #: how it is answered
    names: tuple[str, ...] = field(repr=False)  #: of the outputs, one for each picture

    @property
    def out(self) -> Path:
        """Output folder."""
        return self.request.folder

    @property
    def own_rows(self) -> range:
        """Numbers of the pictures in the shard."""
        return contiguous_rows(len(self.names), self.request.shard)

    @property
    def chunk(self) -> int:
        """Number of pictures that are finished together."""
        return min(len(self.own_rows), self.request.batch_size // self.plan.rows)

    @cached_property
    def digest(self) -> str:
        """Digest of the model's weights."""
        return digest_of(self.pipeline.image_model, self.pipeline.scm)

    def about(
        self,
        pictures: Sequence[Picture],
        images: Float[Tensor, "batch channel *size"],
        own: Factual,
    ) -> PreparedRequest:
        """Return the request about pictures that were read, and their attributes."""
        do, seed = self.request.do or {}, self.request.seed
        action = self.pipeline.act(own.attributes, do, seed=seed, keys=image_keys(images))
        given = {each.name: getattr(self, each.name) for each in fields(CheckedRequest)}
        return PreparedRequest(
            **given, pictures=tuple(pictures), images=images, factual=own, action=action
        )


@dataclass(frozen=True, eq=False)
class PreparedRequest(CheckedRequest):
    """A request whose options, files and attributes were read and checked."""

    pictures: tuple[Picture, ...] = field(repr=False)
    images: Float[Tensor, "batch channel *size"] = field(repr=False)
    factual: Factual
    action: Action  #: counterfactual attributes of all pictures

    @cached_property
    def limits(self) -> Mapping[str, float]:
        """Limits of the signals of trust."""
        return self.pipeline.limits(self.action.targets, self.plan)
