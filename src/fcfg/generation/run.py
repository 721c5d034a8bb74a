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

from fcfg.answers import Answer, AnswerLoop, Block, Question, in_blocks
from fcfg.causal.intervention import Intervention
from fcfg.generation.comparison import compare
from fcfg.generation.parsing import JUDGE, Attributes, Factual, find_attributes
from fcfg.generation.picture_files import drawable, find_pictures, read_files, renamed_columns
from fcfg.generation.record import (
    check_inputs_are_kept,
    files_of,
    finished_before,
    output_names,
    read_record,
    record_file,
    write_record,
)
from fcfg.generation.request import CheckedRequest, PreparedRequest, Request
from fcfg.generation.results import Result, attributes_text, results_of, value_text
from fcfg.judge import Reading
from fcfg.model import AUTO, AnyModel, Plan, model_format
from fcfg.support.errors import InputError, check_batch_size, check_integer, together
from fcfg.support.files import single_writer, write_atomically
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.images import pixel_range_is_known, to_png
from fcfg.support.outputs import make_folder
from fcfg.support.progress import OnProgress, call_bar
from fcfg.support.shards import check_shard
from fcfg.trust import measure_trust

OnChunk = Callable[[list[Result]], None]


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
    """Make counterfactuals of picture files, in a folder, with a model on its device.

    The question and its ``options`` are fields of :class:`~fcfg.generation.Request`, such as
    ``sampling``, ``out`` and ``reverse``. ``on_chunk`` is called with the results of the pictures
    that were just finished, and ``on_progress`` after every step with the share of the work that
    is done. Without the latter, ``progress`` shows a bar if it takes seconds.
    """
    prepared = prepare(pipeline, Request(files, attributes, do, guidance, **options))
    with call_bar(on_progress, progress) as report:
        return run(prepared, on_chunk=on_chunk, on_progress=on_progress or report)


def checked_plan(pipeline: AnyModel, request: Request) -> Plan[Any]:
    """Return how a request is answered, after a check of all that is not about its files."""
    do = request.do
    if not do:
        raise InputError(
            "do", expected="at least one attribute to change", got="none", do="name it"
        )
    plan, _ = together(
        lambda: pipeline.plan(
            do, request.guidance, anchor=request.anchor, sampling=request.sampling
        ),
        lambda: check_integer("seed", request.seed, 0, LARGEST_SEED, do="0 is the default"),
    )
    check_batch_size(request.batch_size, plan.rows)
    return plan


def prepare(pipeline: AnyModel, request: Request) -> PreparedRequest:
    """Read and check a request to a model on its device, without writing anything."""
    plan, wanted, paths = together(
        lambda: checked_plan(pipeline, request),
        lambda: model_format(pipeline),
        lambda: find_pictures(request.files, volumes=pipeline.dimensions == 3),
    )
    checked = CheckedRequest(request, pipeline, plan, tuple(output_names(paths)))
    check_shard(request.shard, len(paths))
    check_inputs_are_kept(checked, paths)
    read_record(checked)  # refuses a folder that holds something else

    def attributes(reading: Reading | None) -> Factual:
        rename = renamed_columns(pipeline)
        return find_attributes(request.attributes, pipeline.space, paths, reading, rename)

    by_judge = isinstance(request.attributes, str) and request.attributes == AUTO
    pictures, factual = together(
        lambda: read_files(paths, wanted), lambda: None if by_judge else attributes(None)
    )
    images = torch.stack([picture.image for picture in pictures])
    factual = attributes(pipeline.read(images)) if by_judge else factual
    prepared = checked.about(pictures, images, factual)
    finished_before(prepared)  # refuses other pictures
    return prepared


def run(
    prepared: PreparedRequest,
    *,
    on_chunk: OnChunk | None = None,
    on_progress: OnProgress | None = None,
) -> list[Result]:
    """Write the pictures and the record of a request, and return the results.

    An interrupted run of the same request resumes where it stopped. Callbacks are those of
    :func:`generate`; ``on_chunk`` gets the results of earlier runs, too.
    """
    request = prepared.request
    make_folder(prepared.out)
    with single_writer(prepared.out, f".{record_file(request.shard)}.lock"):
        known, size = finished_before(prepared)
        limits = prepared.limits
        known = {row: result.doubted(limits) for row, result in known.items()}
        own, results = prepared.own_rows, dict(known)
        write_record(prepared, list(results.values()), size)
        loop = loop_over(prepared, in_blocks(own, size), on_progress)
        for block in loop:
            if not known.keys() >= set(block.rows):
                for answer in block.answers():
                    written = _write(prepared, block, answer, known)
                    results |= written
                write_record(prepared, [results[row] for row in own if row in results], size)
            if on_chunk is not None:
                on_chunk([results[row] for row in block.rows])
        return [results[row] for row in own]


def loop_over(
    prepared: PreparedRequest,
    blocks: Sequence[Sequence[int]],
    on_progress: OnProgress | None = None,
) -> AnswerLoop:
    """Return the loop that answers a request about its pictures, some at a time."""
    request = prepared.request
    checks = request.trust and prepared.pipeline.traits.trust
    question = Question(
        f"do({', '.join(prepared.action.targets)})",
        prepared.plan,
        lambda: prepared.action,
        returns=int(request.reverse),
        extra=prepared.plan.rows if checks else 0,  # or less, if anchored
    )
    return AnswerLoop(
        prepared.pipeline,
        prepared.images,
        prepared.factual.attributes,
        [question],
        blocks=blocks,
        batch_size=request.batch_size,
        on_progress=on_progress,
    )


def results_in(prepared: PreparedRequest, block: Block, answer: Answer) -> list[Result]:
    """Return the results of the pictures of a block, with reasons not to believe them."""
    pair, back, factual = answer.pair, answer.back, prepared.factual
    about = [
        {
            "file": str(prepared.pictures[row].path),
            "stored": prepared.pictures[row].stored,
            "prepared": prepared.pictures[row].notes,
            "attributes_from": factual.source,
            "outputs": files_of(prepared, row),
        }
        for row in block.rows
    ]
    asked, signals, size = (prepared.pipeline, block.images), None, prepared.request.batch_size
    if rows := answer.question.extra:
        with pixel_range_is_known(), block.phase("trust", down=rows) as on_step:
            signals = measure_trust(*asked, pair, batch_size=size, on_step=on_step)
    made = results_of(*asked, block.attributes, pair, back, signals=signals, about=about)
    return [result.doubted(prepared.limits) for result in made]


def _write(
    prepared: PreparedRequest, block: Block, answer: Answer, known: Mapping[int, Result]
) -> dict[int, Result]:
    """Write the files of the pictures of a block that are new."""
    pair, back, made = answer.pair, answer.back, results_in(prepared, block, answer)
    shown = {"factual": block.images, "counterfactual": pair.images.float()}
    shown |= {} if back is None else {"reversed": back.images.float()}
    results: dict[int, Result] = {}
    for i, (row, result) in enumerate(zip(block.rows, made, strict=True)):
        if row in known:
            continue
        images = {image: x[i].nan_to_num() for image, x in shown.items()}
        seen = {image: drawable(x) for image, x in images.items()}
        page = compare(seen, _captions(result, prepared.action.targets))
        write_atomically(prepared.out / result.outputs["comparison"], to_png(page))
        for kind, data in prepared.pictures[row].written(images["counterfactual"]).items():
            write_atomically(prepared.out / result.outputs[kind], data)
        results[row] = result
    return results


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
    if result.round_trip is not None:
        lines["factual"].append(f"codec: loses {result.round_trip:.3f}")
    for name in targets:
        for image, score in result.judged_as(name).items():
            value = result.counterfactual[name]
            text = f"{score:.2f}" if isinstance(value, int | str) else value_text(score)
            level = f"{name} {value}" if isinstance(value, str) else name
            missed = image == "counterfactual" and name in result.not_reached
            lines[image].append(f"judge: {level} {text}{', not reached' if missed else ''}")
    return lines
