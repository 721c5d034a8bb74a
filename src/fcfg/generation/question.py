"""What is asked of picture files: everything read and checked, before any work."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.counterfactual import DEFAULT_GUIDANCE, CounterfactualPipeline
from fcfg.errors import InputError, check_is, check_shard, check_whole
from fcfg.generation.outputs import check_outputs, output_names, record_file
from fcfg.generation.pictures import (
    Picture,
    find_pictures,
    model_pixels,
    read_files,
    renamed_columns,
)
from fcfg.generation.results import intervention_text
from fcfg.generation.texts import AUTO, Attributes, Factual, find_attributes
from fcfg.graph import Partition
from fcfg.guidance import Guidance
from fcfg.images import image_keys
from fcfg.intervention import Intervention
from fcfg.judging import AttributeJudge, Reading
from fcfg.records import Action
from fcfg.sampling import AbstractSolver, Way, find_way


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
    way: Way
    reverse: bool
    batch_size: int
    out: Path
    model: str  #: how the caller calls it
    shard: tuple[int, int]  #: which part of the pictures is answered, of how many

    @property
    def mine(self) -> range:
        """The pictures of the shard, by number."""
        return _part(len(self.images), self.shard)

    @property
    def at_once(self) -> int:
        """Pictures that are finished together."""
        return min(len(self.mine), self.batch_size // self.rows)


def prepare(
    pipeline: CounterfactualPipeline,
    files: Iterable[str | os.PathLike[str]],
    attributes: Attributes = AUTO,
    do: Mapping[str, Intervention] | None = None,
    guidance: Guidance = DEFAULT_GUIDANCE,
    *,
    quality: str = "default",
    steps: int | None = None,
    solver: AbstractSolver | str | None = None,
    grid: str | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] = "counterfactuals",
    reverse: bool = True,
    batch_size: int = 256,
    overwrite: bool = False,
    model: str = "",
    shard: tuple[int, int] = (0, 1),
) -> Question:
    """Read and check a question, writing nothing.

    The arguments are those of :func:`fcfg.generation.run.generate`.
    """
    check_is("guidance", guidance, Guidance, "a fcfg.Guidance, such as Guidance.parse(text)")
    if not do:
        raise InputError(
            "do", expected="at least one attribute to change", got="none", do="name it"
        )
    way = find_way(quality, solver=solver, grid=grid, steps=steps)
    times = way.times(pipeline.denoiser.schedule)
    check_whole("batch_size", batch_size, 1, 10**9, do="256 is the default")
    partition = guidance.partition(pipeline.graph, do)
    rows = guidance.table(partition, times[::-1], pipeline.denoiser.schedule).rows
    if batch_size < rows:
        raise InputError(
            "batch_size",
            expected=f"at least {rows} network rows, what one image needs",
            got=batch_size,
            do="raise it, or use fewer groups",
        )
    pixels = model_pixels(pipeline)
    paths, folder = find_pictures(files), Path(out)
    names = output_names(paths)
    check_shard(shard, len(paths))
    own = [names[i] for i in _part(len(names), shard)]
    check_outputs(folder, own, record_file(shard), paths, overwrite=overwrite)
    judge = pipeline.judge
    pictures = read_files(paths, pixels)
    images = torch.stack([picture.image for picture in pictures])
    with files_say_their_range():
        reading = judge.read(images) if isinstance(judge, AttributeJudge) else None
    rename = renamed_columns(pipeline)
    factual = find_attributes(attributes, pipeline.space, paths, reading, rename)
    action = pipeline.act(factual.attributes, do, seed=seed, keys=image_keys(images))
    return Question(
        pipeline=pipeline,
        pictures=tuple(pictures),
        names=tuple(names),
        images=images,
        factual=factual,
        reading=reading,
        action=action,
        do={name: intervention_text(value) for name, value in do.items()},
        guidance=guidance,
        partition=partition,
        rows=rows,
        way=way,
        reverse=reverse,
        batch_size=batch_size,
        out=folder,
        model=model,
        shard=shard,
    )


def _part(count: int, shard: tuple[int, int]) -> range:
    number, parts = shard
    return range(number * count // parts, (number + 1) * count // parts)


@contextmanager
def files_say_their_range() -> Generator[None]:
    """Bright pictures are bright: their files say what their numbers mean, unlike arrays."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="images: all pixels are in")
        yield
