"""From what a user asks to a question: everything cheap is read and checked before any work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from fcfg.causal.intervention import Intervention
from fcfg.generation.outputs import check_inputs_are_kept, output_names, record_file
from fcfg.generation.parsing import AUTO, Attributes, find_attributes
from fcfg.generation.picture_files import find_pictures, model_pixels, read_files, renamed_columns
from fcfg.generation.question import Question, files_say_their_range
from fcfg.generation.record import finished_before
from fcfg.generation.results import intervention_text
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge
from fcfg.pipeline.counterfactual import DEFAULT_GUIDANCE, CounterfactualPipeline
from fcfg.sampling import SamplingLike, as_sampling
from fcfg.support.errors import InputError, check_is
from fcfg.support.images import image_keys
from fcfg.support.shards import check_shard, contiguous_rows


def prepare(
    pipeline: CounterfactualPipeline,
    files: Iterable[str | os.PathLike[str]],
    attributes: Attributes = AUTO,
    do: Mapping[str, Intervention] | None = None,
    guidance: Guidance = DEFAULT_GUIDANCE,
    *,
    sampling: SamplingLike = "default",
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
    check_is("guidance", guidance, Guidance, "a fcfg.Guidance", do="call Guidance.parse(text)")
    if not do:
        raise InputError(
            "do", expected="at least one attribute to change", got="none", do="name it"
        )
    chosen = as_sampling(sampling)
    times = chosen.times(pipeline.denoiser.schedule)
    partition = guidance.partition(pipeline.graph, do)
    table = guidance.table(partition, times[::-1], pipeline.denoiser.schedule)
    table.check_batch(batch_size)
    pixels = model_pixels(pipeline)
    paths, folder = find_pictures(files), Path(out)
    names = output_names(paths)
    check_shard(shard, len(paths))
    own = [names[i] for i in contiguous_rows(len(names), shard)]
    check_inputs_are_kept(folder, own, record_file(shard), paths)
    judge = pipeline.judge
    pictures = read_files(paths, pixels)
    images = torch.stack([picture.image for picture in pictures])
    with files_say_their_range():
        reading = judge.read(images) if isinstance(judge, AttributeJudge) else None
    rename = renamed_columns(pipeline)
    factual = find_attributes(attributes, pipeline.space, paths, reading, rename)
    action = pipeline.act(factual.attributes, do, seed=seed, keys=image_keys(images))
    question = Question(
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
        rows=table.rows,
        sampling=chosen,
        reverse=reverse,
        batch_size=batch_size,
        out=folder,
        model=model,
        shard=shard,
        overwrite=overwrite,
    )
    finished_before(question)  # or a refusal: the folder holds something else
    return question
