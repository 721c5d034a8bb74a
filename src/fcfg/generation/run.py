"""From files to counterfactuals in a folder.

:func:`~fcfg.generation.preparing.prepare` reads and checks everything that is cheap, so that a bad
question is refused before any work; :func:`run` does the work, some pictures at a time. What is
finished is on disk, whole, and named in the record, whenever the run is stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Unpack

from torch import Tensor

from fcfg.causal.intervention import Intervention
from fcfg.generation.comparison import compared
from fcfg.generation.outputs import output_files, record_file, save
from fcfg.generation.parsing import AUTO, JUDGE, Attributes
from fcfg.generation.preparing import prepare
from fcfg.generation.question import Question, files_say_their_range
from fcfg.generation.record import finished_before, write_record
from fcfg.generation.results import (
    Result,
    attributes_text,
    finite,
    rows_of,
    scores_of,
    value_text,
    values_of,
)
from fcfg.guidance import Guidance
from fcfg.judge import AttributeJudge, Reading
from fcfg.pipeline.counterfactual import DEFAULT_GUIDANCE, CounterfactualPipeline
from fcfg.pipeline.records import Action, Counterfactual
from fcfg.sampling import SamplingLike, SamplingParts, StepRecord, sampling_of
from fcfg.support.files import single_writer
from fcfg.support.images import image_keys, to_pictures
from fcfg.support.outputs import make_folder
from fcfg.support.progress import Progress


def generate(
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
    on_chunk: Callable[[list[Result]], None] | None = None,
    on_progress: Callable[[float], None] | None = None,
    **deprecated: Unpack[SamplingParts],
) -> list[Result]:
    """Make counterfactuals of picture files, in a folder: read and check, then :func:`run`.

    Args:
        pipeline: The model, on the device that is to do the work.
        files: Pictures and folders of pictures, cropped or padded as in the model's training.
        attributes: 'auto', a CSV table, pairs such as ``smiling=0,male=1``, or columns.
        do: For every target a value, a column, or a function of the factual column.
        guidance: How strongly to push each group of attributes.
        sampling: Solver, grid and steps, as in
            :meth:`fcfg.CounterfactualPipeline.counterfactual`.
        seed: Of what discrete attributes leave open.
        out: The folder to write to.
        reverse: Whether to go back to the factual attributes, and measure what is lost.
        batch_size: The most network rows at once.
        overwrite: Whether to replace outputs that exist.
        model: How the model is called in the record.
        shard: Which part of the pictures to work on, and of how many: several processes share a
            folder, each with the same question, a part of its own, and a record of its own.
        on_chunk: Told of the pictures that were just finished.
        on_progress: Told which share of the whole work is done, after every step.
        **deprecated: Parts of ``sampling`` by the keywords of fcfg 0.1.
    """
    question = prepare(
        pipeline,
        files,
        attributes,
        do,
        guidance,
        sampling=sampling_of(sampling, deprecated),
        seed=seed,
        out=out,
        reverse=reverse,
        batch_size=batch_size,
        overwrite=overwrite,
        model=model,
        shard=shard,
    )
    return run(question, on_chunk=on_chunk, on_progress=on_progress)


def run(
    question: Question,
    *,
    on_chunk: Callable[[list[Result]], None] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> list[Result]:
    """Answer a question: write the pictures and the record, and return what it says of each.

    An interrupted run of the same question goes on where it stopped.

    Args:
        question: What :func:`~fcfg.generation.preparing.prepare` gave.
        on_chunk: Called with the pictures that are finished, by an earlier run or just now.
        on_progress: Called with the share of the whole work that is done, after every step.
    """
    make_folder(question.out)
    with single_writer(question.out, f".{record_file(question.shard)}.lock"):
        known, size = finished_before(question)
        mine, results = question.mine, dict(known)
        write_record(question, list(results.values()), size)
        cost = (1 + question.rows) * (2 if question.reverse else 1)  # in network rows
        progress = Progress(len(mine) * cost, on_progress)
        for first in range(mine.start, mine.stop, size):
            rows = range(first, min(first + size, mine.stop))
            progress.done = (first - mine.start) * cost
            if not known.keys() >= set(rows):
                results |= _answer(question, slice(rows.start, rows.stop), progress, known)
                write_record(question, [results[row] for row in mine if row in results], size)
            if on_chunk is not None:
                on_chunk([results[row] for row in rows])
        return [results[row] for row in mine]


def _answer(
    question: Question,
    rows: slice,
    progress: Progress,
    known: Mapping[int, Result],
) -> dict[int, Result]:
    """Work on some of the pictures together, and write the files of those that are not known."""
    pipeline, images = question.pipeline, question.images[rows]
    count = len(images)
    cost = count * question.rows
    with files_say_their_range():
        abduction = pipeline.abduct(
            images,
            rows_of(question.factual.attributes, rows),
            sampling=question.sampling,
            batch_size=question.batch_size,
            on_step=progress.phase(count),
        )
    progress.advance(count)
    action = question.action
    pair = pipeline.predict(
        abduction,
        Action(rows_of(action.attributes, rows), action.targets, action.seed),
        question.guidance,
        partition=question.partition if question.guidance.factored else None,
        batch_size=question.batch_size,
        on_step=progress.phase(cost),
    )
    back = None
    progress.advance(cost)
    if question.reverse:
        abducting, predicting = progress.phase(count), progress.phase(cost, after=count)

        def on_step(step: StepRecord) -> None:
            (abducting if step.ascending else predicting)(step)

        back = pipeline.reverse(pair, batch_size=question.batch_size, on_step=on_step)
    return _write(question, rows, pair, back, known)


def _write(
    question: Question,
    rows: slice,
    pair: Counterfactual,
    back: Counterfactual | None,
    known: Mapping[int, Result],
) -> dict[int, Result]:
    space, judge, factual = question.pipeline.space, question.pipeline.judge, question.factual
    shown = {"factual": question.images[rows], "counterfactual": pair.images.float()}
    spent = {"counterfactual": pair.trajectory.spent}
    changes = _distances(shown["counterfactual"], shown["factual"])
    errors: list[float | None] = [None] * len(changes)
    if back is not None:
        shown["reversed"] = back.images.float()
        spent["reversal"] = back.trajectory.spent
        errors = _distances(shown["reversed"], shown["factual"])
    readings: dict[str, Reading] = {}
    if isinstance(judge, AttributeJudge):
        with files_say_their_range():
            readings = {name: judge.read(x.nan_to_num()) for name, x in shown.items()}
    results: dict[int, Result] = {}
    keys = image_keys(shown["factual"])
    for i, row in enumerate(range(rows.start, rows.stop)):
        if row in known:
            continue
        picture, files = question.pictures[row], output_files(question.names[row])
        result = Result(
            file=str(picture.path),
            key=keys[i],
            change=changes[i],
            stored=picture.stored,
            prepared=picture.notes,
            attributes_from=factual.source,
            factual=values_of(space, factual.attributes, row),
            counterfactual=values_of(space, pair.attributes, i),
            judged={image: scores_of(space, r, i) for image, r in readings.items()},
            network_rows={image: each[i] for image, each in spent.items()},
            reversal_error=errors[i],
            outputs=files,
        )
        images = {image: x[i].nan_to_num() for image, x in shown.items()}
        captions = _captions(result, question.action.targets)
        save(question.out / files["comparison"], compared(images, captions))
        plain = to_pictures(images["counterfactual"][None])[0]
        save(question.out / files["counterfactual"], plain)
        results[row] = result
    return results


def _distances(images: Tensor, others: Tensor) -> list[float | None]:
    """Mean absolute differences of images; None where they are not finite."""
    means = (images - others).abs().flatten(1).mean(dim=1)
    return [finite(mean) for mean in means.tolist()]


def _captions(result: Result, targets: Sequence[str]) -> dict[str, list[str]]:
    """Lines below factual, counterfactual and reversed image."""
    changed = {name: result.counterfactual[name] for name in result.changed}
    read = " (read by the judge)" if result.attributes_from == JUDGE else ""
    lines = {
        "factual": [attributes_text(result.factual) + read],
        "counterfactual": [attributes_text(changed) or "no attribute changes"],
        "reversed": []
        if result.reversal_error is None
        else [f"error {result.reversal_error:.3f}"],
    }
    for name in targets:
        for image, score in result.judged_as(name).items():
            value = result.counterfactual[name]
            sure = f"{score:.2f}" if isinstance(value, int | str) else value_text(score)
            level = f"{name} {value}" if isinstance(value, str) else name
            lines[image].append(f"judge: {level} {sure}")
    return lines
