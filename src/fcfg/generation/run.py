"""Counterfactuals of picture files, written to a folder.

:func:`prepare` reads and checks everything that is cheap, so that a bad request fails before any
work; :func:`run` does the work, some pictures at a time. Interrupted runs resume where they
stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fcfg.causal.intervention import Intervention
from fcfg.generation.comparison import compare
from fcfg.generation.parsing import JUDGE, Attributes, Factual, find_attributes
from fcfg.generation.picture_files import find_pictures, read_files, renamed_columns
from fcfg.generation.record import (
    check_inputs_are_kept,
    finished_before,
    output_files,
    output_names,
    read_record,
    record_file,
    write_record,
)
from fcfg.generation.request import PreparedRequest, Question, Request
from fcfg.generation.results import (
    Result,
    attributes_text,
    finite,
    scores_of,
    value_text,
    values_of,
)
from fcfg.judge import Reading
from fcfg.model import AUTO, AbstractCounterfactual, Action, AnyModel, model_pixels
from fcfg.support.errors import InputError, check_batch_size, check_integer, together
from fcfg.support.files import single_writer, write_atomically
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.images import image_keys, pixel_range_is_known, to_pictures, to_png
from fcfg.support.outputs import make_folder
from fcfg.support.progress import Progress, call_bar
from fcfg.support.shards import check_shard, contiguous_rows
from fcfg.trust import Signals, measure_trust, not_reached

OnChunk = Callable[[list[Result]], None]
OnProgress = Callable[[float], None]


def generate(
    pipeline: AnyModel,
    files: Iterable[str | os.PathLike[str]],
    attributes: Attributes = AUTO,
    do: Mapping[str, Intervention] | None = None,
    guidance: object = None,
    *,
    on_chunk: OnChunk | None = None,
    on_progress: OnProgress | None = None,
    progress: bool = True,
    **options: Any,
) -> list[Result]:
    """Make counterfactuals of picture files, in a folder.

    Args:
        pipeline: The model, on its device.
        files: Pictures and folders of pictures.
        attributes: 'auto', a CSV table, pairs such as ``smiling=0,male=1``, or columns, a data
            frame, or rows.
        do: For every target a value, a column, or a function of the factual column.
        guidance: Setting of the model, such as a :class:`fcfg.Guidance`; by default its own.
        on_chunk: Callback invoked with the results of the pictures that were just finished.
        on_progress: Callback invoked after every step with the share of the work that is done.
        progress: Whether to show a bar if it takes seconds, without ``on_progress``.
        **options: Other fields of :class:`~fcfg.generation.request.Request`, such as ``sampling``,
            ``out`` and ``reverse``.
    """
    prepared = prepare(pipeline, Request(files, attributes, do, guidance, **options))
    with call_bar(on_progress, progress) as report:
        return run(prepared, on_chunk=on_chunk, on_progress=on_progress or report)


def prepare(pipeline: AnyModel, request: Request) -> PreparedRequest:
    """Read and check a request without writing anything.

    Args:
        pipeline: The model, on its device.
        request: The request.
    """
    do, shard = request.do, request.shard
    if not do:
        raise InputError(
            "do", expected="at least one attribute to change", got="none", do="name it"
        )
    plan, _, pixels, paths = together(
        lambda: pipeline.plan(
            do, request.guidance, anchor=request.anchor, sampling=request.sampling
        ),
        lambda: check_integer("seed", request.seed, 0, LARGEST_SEED, do="0 is the default"),
        lambda: model_pixels(pipeline),
        lambda: find_pictures(request.files),
    )
    check_batch_size(request.batch_size, plan.rows)
    names = output_names(paths)
    check_shard(shard, len(paths))
    own = [names[row] for row in contiguous_rows(len(names), shard)]
    check_inputs_are_kept(request.folder, own, record_file(shard), paths)
    question = Question(request, pipeline, tuple(names), plan)
    read_record(question)  # refuses a folder that holds something else, before the judge's work

    def attributes(reading: Reading | None) -> Factual:
        rename = renamed_columns(pipeline)
        return find_attributes(request.attributes, pipeline.space, paths, reading, rename)

    by_judge = isinstance(request.attributes, str) and request.attributes == AUTO
    pictures, factual = together(
        lambda: read_files(paths, pixels), lambda: None if by_judge else attributes(None)
    )
    images = torch.stack([picture.image for picture in pictures])
    reading = pipeline.read(images)
    factual = attributes(reading) if by_judge else factual
    prepared = PreparedRequest(
        request=request,
        pipeline=pipeline,
        names=question.names,
        plan=plan,
        pictures=tuple(pictures),
        images=images,
        factual=factual,
        reading=reading,
        action=pipeline.act(factual.attributes, do, seed=request.seed, keys=image_keys(images)),
    )
    finished_before(prepared)  # refuses answers for other pictures
    return prepared


def run(
    prepared: PreparedRequest,
    *,
    on_chunk: OnChunk | None = None,
    on_progress: OnProgress | None = None,
) -> list[Result]:
    """Write the pictures and the record of a request, and return the results.

    An interrupted run of the same request resumes where it stopped.

    Args:
        prepared: The request, see :func:`prepare`.
        on_chunk: Callback invoked with the results of finished pictures, earlier runs included.
        on_progress: Callback invoked after every step with the share of the work that is done.
    """
    make_folder(prepared.out)
    with single_writer(prepared.out, f".{record_file(prepared.request.shard)}.lock"):
        known, size = finished_before(prepared)
        known = {row: result.doubted(prepared.limits) for row, result in known.items()}
        own, results = prepared.own_rows, dict(known)
        write_record(prepared, list(results.values()), size)
        rows_each = prepared.plan.rows
        cost = (1 + rows_each) * (2 if prepared.request.reverse else 1)  # in network rows
        cost += rows_each if prepared.request.trust else 0  # or less, if anchored
        progress = Progress(len(own) * cost, on_progress)
        for first in range(own.start, own.stop, size):
            rows = range(first, min(first + size, own.stop))
            progress.done = (first - own.start) * cost
            if not known.keys() >= set(rows):
                results |= _answer(prepared, slice(rows.start, rows.stop), progress, known)
                write_record(prepared, [results[row] for row in own if row in results], size)
            if on_chunk is not None:
                on_chunk([results[row] for row in rows])
        return [results[row] for row in own]


def _answer(
    prepared: PreparedRequest,
    rows: slice,
    progress: Progress,
    known: Mapping[int, Result],
) -> dict[int, Result]:
    """Work on some of the pictures together, and write the files of those that are new."""
    pipeline, request, action = prepared.pipeline, prepared.request, prepared.action
    count = rows.stop - rows.start
    cost = count * prepared.plan.rows
    with pixel_range_is_known():
        abduction = pipeline.abduct(
            prepared.images[rows],
            {name: column[rows] for name, column in prepared.factual.attributes.items()},
            batch_size=request.batch_size,
            on_step=progress.phase(count),
            plan=prepared.plan,
        )
    progress.advance(count)
    attributes = {name: column[rows] for name, column in action.attributes.items()}
    pair = pipeline.predict(
        abduction,
        Action(attributes, action.targets, action.seed),
        prepared.plan,
        batch_size=request.batch_size,
        on_step=progress.phase(cost),
    )
    back = None
    progress.advance(cost)
    if request.reverse:
        steps = progress.both(count, cost)
        back = pipeline.reverse(pair, batch_size=request.batch_size, on_step=steps)
        progress.advance(count + cost)
    signals = Signals({})
    if request.trust and pipeline.traits.trust:
        images, step = prepared.images[rows], progress.phase(cost)
        with pixel_range_is_known():
            signals = measure_trust(
                pipeline, images, pair, batch_size=request.batch_size, on_step=step
            )
        progress.advance(cost)
    return _write(prepared, rows, pair, back, signals, known)


def _write(
    prepared: PreparedRequest,
    rows: slice,
    pair: AbstractCounterfactual,
    back: AbstractCounterfactual | None,
    signals: Signals,
    known: Mapping[int, Result],
) -> dict[int, Result]:
    pipeline, factual = prepared.pipeline, prepared.factual
    shown = {"factual": prepared.images[rows], "counterfactual": pair.images.float()}
    spent = {"counterfactual": pair.spent}
    changes = _distances(shown["counterfactual"], shown["factual"])
    errors: list[float | None] = [None] * len(changes)
    if back is not None:
        shown["reversed"] = back.images.float()
        spent["reversal"] = back.spent
        errors = _distances(shown["reversed"], shown["factual"])
    readings = {name: pipeline.read(images.nan_to_num()) for name, images in shown.items()}
    own = {name: column[rows] for name, column in factual.attributes.items()}
    both = readings["factual"], readings["counterfactual"]
    missed = not_reached(pipeline, own, pair.action, *both)
    results: dict[int, Result] = {}
    keys = image_keys(shown["factual"])
    for i, row in enumerate(range(rows.start, rows.stop)):
        if row in known:
            continue
        picture, files = prepared.pictures[row], output_files(prepared.names[row])
        result = Result(
            file=str(picture.path),
            key=keys[i],
            change=changes[i],
            stored=picture.stored,
            prepared=picture.notes,
            attributes_from=factual.source,
            factual=values_of(pipeline.space, factual.attributes, row),
            counterfactual=values_of(pipeline.space, pair.attributes, i),
            judged={
                image: scores_of(pipeline.space, reading, i)
                for image, reading in readings.items()
                if reading is not None
            },
            network_rows={image: each[i] for image, each in spent.items()} | signals.cost,
            signals={name: finite(value) for name, value in signals.of(i).items()},
            not_reached=missed[i],
            reversal_error=errors[i],
            outputs=files,
        )
        images = {image: x[i].nan_to_num() for image, x in shown.items()}
        page = compare(images, _captions(result, prepared.action.targets))
        write_atomically(prepared.out / files["comparison"], to_png(page))
        (plain,) = to_pictures(images["counterfactual"][None])
        write_atomically(prepared.out / files["counterfactual"], to_png(plain))
        results[row] = result.doubted(prepared.limits)
    return results


def _distances(images: Tensor, others: Tensor) -> list[float | None]:
    """Mean absolute differences of images; None where they are not finite."""
    means = (images - others).abs().flatten(1).mean(dim=1)
    return [finite(mean) for mean in means.tolist()]


def _captions(result: Result, targets: Sequence[str]) -> dict[str, list[str]]:
    """Lines below factual, counterfactual and reversed image."""
    changed = {name: result.counterfactual[name] for name in result.changed}
    source = " (read by the judge)" if result.attributes_from == JUDGE else ""
    error = result.reversal_error
    lines = {
        "factual": [attributes_text(result.factual) + source],
        "counterfactual": [attributes_text(changed) or "no attribute changes"],
        "reversed": [] if error is None else [f"error {error:.3f}"],
    }
    for name in targets:
        for image, score in result.judged_as(name).items():
            value = result.counterfactual[name]
            text = f"{score:.2f}" if isinstance(value, int | str) else value_text(score)
            level = f"{name} {value}" if isinstance(value, str) else name
            missed = image == "counterfactual" and name in result.not_reached
            lines[image].append(f"judge: {level} {text}{', not reached' if missed else ''}")
    return lines
