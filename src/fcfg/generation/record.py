"""The output folder of a request: its file names, and the record that lets a run resume.

The record is written before the first picture is worked on, and again whenever some are finished.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from fcfg.generation.request import CheckedRequest, PreparedRequest
from fcfg.generation.results import Result, intervention_json, values_of
from fcfg.support.errors import InputError, quoted
from fcfg.support.files import write_atomically
from fcfg.support.images import image_keys
from fcfg.support.outputs import already_there, check_folder, check_same
from fcfg.version import __version__

# Entries that must agree for a run to resume; the answers follow from these and the pictures.
_REQUEST = (
    *("digest", "do", "guidance", "groups", "solver", "grid", "steps", "seed", "reverse"),
    *("device", "precision", "compiled", "shard"),
)
_RESULTS = TypeAdapter(list[Result])


def output_names(paths: Sequence[Path]) -> list[str]:
    """Name the outputs of each file: by its stem, after its folder where stems are equal."""
    own = [path.name[: -len(".nii.gz")] if _is_packed(path) else path.stem for path in paths]
    stems = Counter(stem.casefold() for stem in own)
    names = [
        stem if stems[stem.casefold()] == 1 else f"{path.resolve().parent.name}-{stem}"
        for path, stem in zip(paths, own, strict=True)
    ]
    outputs = [{file.casefold() for file in output_files(name).values()} for name in names]
    written = Counter(file for files in outputs for file in files)
    doubled = [
        str(path)
        for path, files in zip(paths, outputs, strict=True)
        if any(written[file] > 1 for file in files)
    ]
    if doubled:
        raise InputError(
            "images",
            expected="files whose outputs have different names",
            got=quoted(doubled),
            do="rename them, or run them one after another into different folders",
        )
    return names


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".nii.gz")


def output_files(name: str, *, volume: bool = False) -> dict[str, str]:
    """Return the files written for one picture, or for one volume."""
    files = {"comparison": f"{name}.png", "counterfactual": f"{name}-counterfactual.png"}
    if volume:
        files["slices"] = files["counterfactual"]
        files["counterfactual"] = f"{name}-counterfactual.nii.gz"
    return files


def record_file(shard: tuple[int, int]) -> str:
    """Return the name of the record of a run, or of one shard of it."""
    number, count = shard
    return "record.json" if count == 1 else f"record-{number}-of-{count}.json"


def _own_files(request: CheckedRequest) -> list[str]:
    """Return the files that are written for the pictures of the shard."""
    return [file for row in request.own_rows for file in files_of(request, row).values()]


def files_of(request: CheckedRequest, row: int) -> dict[str, str]:
    """Return the files that are written for a picture of a request."""
    return output_files(request.names[row], volume=request.pipeline.dimensions == 3)


def check_inputs_are_kept(request: CheckedRequest, inputs: Sequence[Path]) -> None:
    """Refuse a folder where outputs or the record would replace the pictures."""
    folder, files = request.out, (*_own_files(request), record_file(request.request.shard))
    check_folder(folder)
    read = {path.resolve() for path in inputs}
    replaced = [str(folder / file) for file in files if (folder / file).resolve() in read]
    if replaced:
        raise InputError(
            f"out {folder}",
            expected="a folder other than that of the pictures",
            got=f"one where {quoted(replaced[:3])} would be replaced",
            do="choose another with --out",
        )


def write_record(prepared: PreparedRequest, results: Sequence[Result], chunk: int) -> None:
    """Write the request and the results so far, which were finished some pictures at a time."""
    record = describe(prepared) | {
        "batch_size": prepared.request.batch_size,
        "at_once": chunk,
        "asked": len(prepared.own_rows),
        "finished": len(results),
        "images": [asdict(result) for result in results],
    }
    text = json.dumps(record, indent=2, default=str)
    write_atomically(prepared.out / record_file(prepared.request.shard), text.encode())


def read_record(request: CheckedRequest) -> tuple[list[Result], int]:
    """Return the results of an interrupted run, and how many pictures are finished together.

    Refuses a folder that holds the answers to another request, or files of others.
    """
    folder = request.out
    path = folder / record_file(request.request.shard)
    if request.request.overwrite:
        return [], request.chunk
    if not os.path.lexists(path):
        existing = [file for file in _own_files(request) if os.path.lexists(folder / file)]
        if existing:
            raise already_there(folder, existing)
        return [], request.chunk
    try:
        record = json.loads(path.read_bytes()) if path.is_file() else {}
        results = _RESULTS.validate_python(record["images"])
        chunk = max(1, int(record["at_once"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise already_there(folder, [path.name]) from error
    there = {key: record.get(key) for key in _REQUEST}
    now = json.loads(json.dumps(describe(request), default=str))
    _check_same(request, there, {key: now.get(key) for key in _REQUEST})
    return results, chunk


def finished_before(prepared: PreparedRequest) -> tuple[dict[int, Result], int]:
    """Return what :func:`read_record` does, by number of picture, for the same pictures alone."""
    results, chunk = read_record(prepared)
    rows = {str(prepared.pictures[row].path): row for row in prepared.own_rows}
    others = {"images": quoted(result.file for result in results if result.file not in rows)}
    _check_same(prepared, others, {"images": quoted([])})
    kept: dict[int, Result] = {}
    for result in results:
        row = rows[result.file]
        space, factual, wanted = prepared.pipeline.space, prepared.factual, prepared.action
        now = {
            "key": image_keys(prepared.images[row : row + 1])[0],
            "attributes_from": factual.source,
            "factual": values_of(space, factual.attributes, row),
            "counterfactual": values_of(space, wanted.attributes, row),
            "outputs": files_of(prepared, row),
        }
        there = {f"{key} of '{result.file}'": getattr(result, key) for key in now}
        _check_same(prepared, there, dict(zip(there, now.values(), strict=True)))
        if all((prepared.out / file).is_file() for file in result.outputs.values()):
            kept[row] = result
    return kept, chunk


def _check_same(request: CheckedRequest, there: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse a record of something else than what is asked now."""
    do = "choose another with --out, or replace it with --overwrite"
    check_same(f"out {request.out}", there, asked, do=do)


def describe(prepared: CheckedRequest) -> dict[str, Any]:
    """Everything that a record says of a request, except its pictures."""
    pipeline, request = prepared.pipeline, prepared.request
    return {
        "fcfg": __version__,
        "model": request.model,
        "network": repr(pipeline),
        "digest": prepared.digest,
        "provenance": pipeline.provenance,
        "do": {name: intervention_json(value) for name, value in (request.do or {}).items()},
        **prepared.plan.to_json(),
        "seed": request.seed,
        "reverse": request.reverse,
        "device": str(pipeline.device),
        "precision": pipeline.precision,
        "compiled": pipeline.compiled,
        "shard": list(request.shard),
    }
