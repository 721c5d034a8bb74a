"""``fcfg generate``: counterfactuals of pictures, with a record and a summary table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fcfg.cli.computing import Computing, check_sampled, computing_by
from fcfg.cli.options import Given, options_of, with_options
from fcfg.support.errors import together
from fcfg.support.outputs import others_in

if TYPE_CHECKING:  # torch is not needed for help
    from fcfg.generation import PreparedRequest, Request, Result

_SHOWN, _DOUBTED = 20, 5  # rows of the table, answers named below it; the record has all


@with_options
def generate(
    model: str,
    images: list[Path],
    /,
    *,
    do: list[str],
    request: Given = options_of(
        "generation.request.Request",
        "attributes guidance anchor sampling seed out reverse trust overwrite",
    ),
    computing: Computing = computing_by("batch_size precision compile device shard"),
    engine: str | None = None,
    address: str | None = None,
    chunk: int | None = None,
    form: str | None = None,
) -> None:
    """Make counterfactuals of pictures: what if an attribute had been different?

    For every picture, the folder gets NAME.png, which shows the picture, its counterfactual, the
    reversal and the difference side by side; NAME-counterfactual.png, at the size of the model;
    and an entry in record.json. Pictures of other sizes are cropped or padded as in training.
    An interrupted run resumes when you run the same command again.

    Parquet files and tars, and folders of any number of pictures with --chunk, are answered chunk
    by chunk, each into a file of its own; with --engine, by many workers.

    Examples:
      fcfg generate portraits face.png --do smiling=1
      fcfg generate model faces/ --attributes faces/labels.csv --do smiling=flip
      fcfg generate model scan.png --attributes 'age=40,sex=1' --do age=+20 --sampling paper
      fcfg generate model faces/ --do smiling=1,young=0 --guidance cfg:2 --anchor --out cfg2
      torchrun --nproc_per_node 4 -m fcfg generate model faces/ --do smiling=flip
      fcfg generate model faces.parquet --do smiling=flip --engine dask --address tcp://head:8786

    Options:
        images: Pictures (PNG, JPEG, DICOM, ...), volumes (NIfTI), or folders; Parquet files, tars.
        do: Attributes to change: a value (age=40, =-3 for a negative one), a change (age=+10,
            age=-10%, age=*1.5), or smiling=flip. Repeatable.
        engine: Workers that answer the chunks: dask. By default this process does.
        address: Scheduler of the engine, such as tcp://head:8786; by default workers are started.
        chunk: Largest number of pictures that are answered together, 256 by default.
        form: Form of the answers to chunks: parquet, tar or pictures; by default parquet.
    """
    from fcfg.cli.progress import resumable
    from fcfg.generation import Request, find_pictures, parse_do, prepare, run
    from fcfg.generation.chunks import is_packed
    from fcfg.generation.picture_files import size_of
    from fcfg.model import load, model_format
    from fcfg.sampling import as_sampling

    guidance = request.pop("guidance", None)
    given: Given = {"engine": engine, "address": address, "chunk": chunk, "form": form}
    given = {name: value for name, value in given.items() if value is not None}
    if given or any(map(is_packed, images)):
        asked = Request(images, guidance=guidance, model=model, **request)
        _in_chunks(asked, do, computing, **given)
        return
    together(computing.check, lambda: as_sampling(request["sampling"]))
    pipeline = load(model).to(computing.target).prepare(computing.precision)
    chosen = {"sampling": request["sampling"]} if request["sampling"] != "default" else {}
    check_sampled(pipeline, **chosen, anchor=request.get("anchor"))
    targets, setting, paths, wanted = together(
        lambda: parse_do(do, pipeline.space),
        lambda: None if guidance is None else pipeline.parse_setting(guidance),
        lambda: find_pictures(images, volumes=pipeline.dimensions == 3),
        lambda: model_format(pipeline),
    )
    named = {"model": model, "batch_size": computing.rows(pipeline, size_of(paths, wanted))}
    asked = Request(images, do=targets, guidance=setting, shard=computing.part, **named, **request)
    prepared = prepare(pipeline, asked)
    pipeline.prepare(computing.precision, compile=computing.compile, batch_size=prepared.chunk)
    if computing.prints:
        _announce(prepared, computing.target)
    finished: list[Result] = []

    def kept() -> str:
        done = f"{len(finished)} of {len(prepared.own_rows)} pictures are finished"
        return f"{done}, in {prepared.out}; run the same command to go on"

    with resumable(kept, quiet=not computing.prints) as on_progress:
        run(prepared, on_chunk=finished.extend, on_progress=on_progress)
    if computing.prints:
        _show(finished, prepared)
    print(f"Written to {prepared.out}")


def _in_chunks(
    asked: Request,
    do: list[str],
    computing: Computing,
    engine: str = "",
    address: str = "",
    **how: Any,
) -> None:
    """Answer chunk by chunk, in this process or by the workers of an engine."""
    from fcfg.cli.progress import resumable
    from fcfg.generation import parse_do
    from fcfg.generation.division import MANIFEST, divide
    from fcfg.generation.many import answer_all, workers_of
    from fcfg.model import load

    engine = "dask" if address and not engine else engine
    elsewhere = engine and computing.device == "cuda"  # which this machine may not have
    device, part = "cuda" if elsewhere else computing.target, computing.part
    model, given = load(asked.model), cast("str | None", asked.guidance)
    check_sampled(model, anchor=asked.anchor)
    targets, setting = together(
        lambda: parse_do(do, model.space),
        lambda: None if given is None else model.parse_setting(given),
    )
    asked = replace(asked, do=targets, guidance=setting, batch_size=computing.rows(model, ()))
    how |= {"device": device, "precision": computing.precision, "compile": computing.compile}
    division = divide(model, asked, **how)
    del model  # workers read their own
    out, left = division.request.folder, len(division.missing())
    if computing.prints:
        parts = f"{left} of {len(division.chunks)} parts are left"
        print(f"{division.images} pictures, {division.plan}, on {device}; {parts}", flush=True)
        if others := others_in(out, (), "part-", MANIFEST):
            print(f"  {others}", flush=True)

    def kept() -> str:
        return f"whole parts are kept in {out}; run the same command to go on"

    workers = workers_of(engine, address) if engine else nullcontext()
    with workers as executor, resumable(kept, quiet=not computing.prints) as on_progress:
        unreadable = answer_all(division, executor, shard=part, on_progress=on_progress)
    if unreadable:
        print(f"Not read: {unreadable} pictures, whose records say why")
    print(f"Written to {asked.folder}")


def _announce(prepared: PreparedRequest, device: str) -> None:
    """Print what will be done, and how the pictures were made to fit."""
    from fcfg.generation.record import files_of, finished_before

    count, parts = len(prepared.pictures), prepared.request.shard[1]
    share = "" if parts == 1 else f" in {parts} parts"
    pictures = f"{count} {'picture' if count == 1 else 'pictures'}{share}"
    print(f"{pictures}, {prepared.plan}, on {device}")
    notes = Counter(note for picture in prepared.pictures for note in picture.notes)
    for note, times in notes.items():
        print(f"  {times} of {count}: {note}")
    print(f"  {prepared.factual.note}")
    if finished := len(finished_before(prepared)[0]):
        own = len(prepared.own_rows)
        print(f"  {finished} of {own} are finished already; --overwrite makes them anew")
    files = {file for row in range(count) for file in files_of(prepared, row).values()}
    if others := others_in(prepared.out, files, "record"):
        print(f"  {others}")
    sys.stdout.flush()


def _show(results: Sequence[Result], prepared: PreparedRequest) -> None:
    """Print a short table of the results, those that miss what was asked, and those in doubt."""
    from rich import box
    from rich.table import Table

    from fcfg.cli.tables import table_console
    from fcfg.generation.record import record_file
    from fcfg.trust import unchecked

    request, table = prepared.request, Table(box=box.SIMPLE_HEAD)
    for result in results[:_SHOWN]:
        cells = {"image": Path(result.file).name, "factual → counterfactual": _change(result)}
        if result.judged:
            judged = [_judged(result, name) for name in prepared.action.targets]
            cells["judge before → after"] = "\n".join(judged)
        if request.reverse:
            error = result.reversal_error
            cells["reversal error"] = "none" if error is None else f"{error:.4f}"
        for heading in () if table.columns else cells:
            table.add_column(heading, overflow="fold")
        table.add_row(*cells.values())
    table_console().print(table)
    if len(results) > _SHOWN:
        print(f"and {len(results) - _SHOWN} more, in {record_file(request.shard)}")
    missed = {result.file: result.missed for result in results if result.missed}
    if missed:
        several = f" by {len(missed)} of {len(results)}: {_named(missed)}"
        print(f"Not reached{several if len(results) > 1 else f': {results[0].missed}'}")
    rest = unchecked(prepared.pipeline.thresholds, prepared.plan)
    if request.trust and rest is not None:
        print(rest)
    doubted = {result.file: "; ".join(result.reasons) for result in results if result.reasons}
    if doubted:
        print(f"Do not trust {len(doubted)} of {len(results)}: {_named(doubted)}")


def _named(answers: Mapping[str, str]) -> str:
    """List the first answers with what is said of them."""
    first = [f"{Path(file).name} ({words})" for file, words in answers.items()][:_DOUBTED]
    more = f" and {len(answers) - _DOUBTED} more" if len(answers) > _DOUBTED else ""
    return ", ".join(first) + more


def _change(result: Result) -> str:
    """Format the changed attributes, one a line, then the others, with scores of the judge."""
    from fcfg.generation.results import value_text

    read: dict[str, str] = {}
    for name, value in result.factual.items():
        sure = result.sure(name) if result.attributes_from == "judge" else None
        read[name] = f"{name} {value_text(value)}" + ("" if sure is None else f" ({sure:.2f})")
    after = {name: value_text(result.counterfactual[name]) for name in result.changed}
    lines = [f"{read.pop(name)} → {text}" for name, text in after.items()] or ["nothing changes"]
    return "\n".join([*lines, f"kept: {', '.join(read.values())}"] if read else lines)


def _judged(result: Result, name: str) -> str:
    value, sure = result.counterfactual[name], result.judged_as(name)
    level = f" {value}" if isinstance(value, str) else ""
    digits = 1 if isinstance(value, float) else 2
    return f"{name}{level} {sure['factual']:.{digits}f} → {sure['counterfactual']:.{digits}f}"
