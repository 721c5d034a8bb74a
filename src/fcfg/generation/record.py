"""The record of a run: what was asked and what is finished; an interrupted run goes on from it.

It is written before the first picture is worked on, and again whenever some are finished.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fcfg.generation.outputs import output_files, record_file
from fcfg.generation.question import Question
from fcfg.generation.results import Result, values_of
from fcfg.support.errors import InputError, short
from fcfg.support.files import write_atomically
from fcfg.support.images import image_keys
from fcfg.support.outputs import already_there
from fcfg.version import __version__

# What must be the same for a run to go on; the answers follow from these and from the pictures.
_QUESTION = (
    *("digest", "do", "guidance", "groups", "solver", "grid", "steps", "seed", "reverse"),
    *("device", "precision", "compiled", "shard"),
)
_PICTURE = ("key", "attributes_from", "factual", "counterfactual", "outputs")


def write_record(question: Question, results: Sequence[Result], at_once: int) -> None:
    """Write what was asked and what is finished.

    Args:
        question: The question.
        results: Results of the pictures that are finished.
        at_once: Pictures that are finished together.
    """
    record = _described(question) | {
        "batch_size": question.batch_size,
        "at_once": at_once,
        "asked": len(question.mine),
        "finished": len(results),
        "images": [asdict(result) for result in results],
    }
    text = json.dumps(record, indent=2, default=str)
    write_atomically(question.out / record_file(question.shard), text.encode())


def finished_before(question: Question) -> tuple[dict[int, Result], int]:
    """Results of an interrupted run of the same question, by the number of their picture.

    Refuses a folder that holds the answers to another question, or files of others.

    Args:
        question: The question.

    Returns:
        The results, and how many pictures are finished together.
    """
    if question.overwrite:
        return {}, question.at_once
    path = question.out / record_file(question.shard)
    if not os.path.lexists(path):
        files = [file for row in question.mine for file in _files(question, row)]
        existing = [file for file in files if os.path.lexists(question.out / file)]
        if existing:
            raise already_there(question.out, existing)
        return {}, question.at_once
    if not path.is_file():
        raise already_there(question.out, [path.name])
    try:
        record = json.loads(path.read_bytes())
        results = [Result.from_json(entry) for entry in record["images"]]
        at_once = max(1, int(record["at_once"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise already_there(question.out, [path.name]) from error
    _check_same(question, record)
    rows = {str(question.pictures[row].path): row for row in question.mine}
    kept: dict[int, Result] = {}
    for result in results:
        row = rows.get(result.file)
        if row is None:
            raise _another(question, "images", f"'{result.file}'", "others")
        _check_picture(question, row, result)
        if all((question.out / file).is_file() for file in result.outputs.values()):
            kept[row] = result
    return kept, at_once


def _described(question: Question) -> dict[str, Any]:
    """Everything that a record says of a question, but for its pictures."""
    pipeline = question.pipeline
    device, execution = pipeline.denoiser.device, pipeline.execution
    return {
        "fcfg": __version__,
        "model": question.model,
        "network": repr(pipeline),
        "digest": question.digest,
        "provenance": pipeline.provenance,
        "do": question.do,
        "guidance": repr(question.guidance),
        "groups": {group: sorted(question.partition[group]) for group in question.partition},
        **question.sampling.to_json(),
        "seed": question.action.seed,
        "reverse": question.reverse,
        "device": str(device),
        "precision": None if execution is None else execution.on(device).precision,
        "compiled": execution is not None and execution.compile,
        "shard": list(question.shard),
    }


def _check_same(question: Question, record: Mapping[str, Any]) -> None:
    now = json.loads(json.dumps(_described(question), default=str))
    for key in _QUESTION:
        if record.get(key) != now[key]:
            raise _another(question, key, short(record.get(key)), short(now[key]))


def _check_picture(question: Question, row: int, result: Result) -> None:
    space, factual = question.pipeline.space, question.factual
    now = {
        "key": image_keys(question.images[row : row + 1])[0],
        "attributes_from": factual.source,
        "factual": values_of(space, factual.attributes, row),
        "counterfactual": values_of(space, question.action.attributes, row),
        "outputs": output_files(question.names[row]),
    }
    for key in _PICTURE:
        before = getattr(result, key)
        if before != now[key]:
            raise _another(question, f"{key} of '{result.file}'", short(before), short(now[key]))


def _files(question: Question, row: int) -> list[str]:
    return list(output_files(question.names[row]).values())


def _another(question: Question, key: str, before: str, now: str) -> InputError:
    return InputError(
        f"out {question.out}",
        expected=f"the question that its record holds already ({key}: {before})",
        got=f"another one ({key}: {now})",
        do="choose another with --out, or replace it with --overwrite",
    )
