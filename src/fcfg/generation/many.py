"""Counterfactuals of more pictures than a process holds: chunk by chunk, maybe by many workers.

Every chunk has a part of the output of its own. A part is written whole or not at all, and is not
computed again. So a run that was killed, or a worker that was lost, costs the chunks in work only,
and no picture is answered twice or left out.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, get_args

import torch
from PIL import Image

from fcfg.answers import in_blocks
from fcfg.causal.attributes import Table
from fcfg.generation.chunks import Chunk, find_chunks
from fcfg.generation.parsing import Factual, find_attributes
from fcfg.generation.parts import Form, Row, part_name, write_part
from fcfg.generation.picture_files import Picture, read_picture, renamed_columns
from fcfg.generation.record import describe
from fcfg.generation.request import CheckedRequest, Request
from fcfg.generation.results import Result
from fcfg.generation.run import checked_plan, loop_over, results_in
from fcfg.model import AUTO, AnyModel, Plan, Preparation, load, model_pixels
from fcfg.storage import shipped
from fcfg.support.errors import (
    InputError,
    check_among,
    check_integer,
    optional,
    quoted,
    short,
    together,
)
from fcfg.support.files import remove_unfinished, single_writer, write_atomically
from fcfg.support.hashing import digest_of, hex_digest
from fcfg.support.images import to_pictures, to_png
from fcfg.support.outputs import already_there, check_same, make_folder
from fcfg.support.pictures import UnreadableError
from fcfg.support.progress import OnProgress

MANIFEST = "_manifest.json"  #: which readers of a folder of Parquet files leave out
_AHEAD = 256  # chunks that workers know of
_MAY_DIFFER = ("fcfg", "model", "network", "provenance")
_NETWORK = Lock()  # while one thread of a worker computes, others read and write


@dataclass(frozen=True, eq=False)
class Errand:
    """A question, as workers get it: each reads the model once, and answers chunk by chunk."""

    request: Request  #: about no files
    form: Form
    device: str
    precision: str
    compiled: int  #: number of pictures that the network is compiled for, or 0
    digest: str  #: of the model

    def __call__(self, number: int, chunk: Chunk) -> tuple[int, int]:
        """Write a part unless it is there; return its pictures, and how many were unreadable."""
        path = self.request.folder / part_name(number, self.form)
        if path.exists():
            return chunk.count, 0
        with _NETWORK:
            own = (self.request.model, self.device, self.precision, self.compiled)
            model = _model(*own, self.digest)
        names, files, table = self.read(model, chunk)
        rows, found, wanted = list[Row](), dict[int, Picture](), model_pixels(model)
        for row, (name, data) in enumerate(zip(names, files, strict=True)):
            try:
                found[row] = read_picture(io.BytesIO(data), Path(name), wanted)
                rows.append(Row(name))
            except UnreadableError as error:
                rows.append(Row(name, error=str(error)))
        own = {name: column[[*found]] for name, column in table.items()}
        with _NETWORK:
            answers = self._answers(model, [*found.values()], own) if found else []
        for row, (shown, result) in zip(found, answers, strict=True):
            rows[row] = Row(names[row], to_png(shown), result)
        write_part(path, self.form, rows, model.space)
        return chunk.count, len(rows) - len(found)

    def read(self, model: AnyModel, chunk: Chunk) -> tuple[Sequence[str], Sequence[bytes], Table]:
        """Read a chunk with the columns of all attributes, or of none for the judge to read."""
        names, files, columns = chunk.read(model.space.names)
        missing = [name for name in model.space.names if name not in columns]
        if self.request.attributes != AUTO or len(missing) == len(model.space.names):
            return names, files, {}
        if missing:
            expected, got = "all attributes, or none of them", f"none for {quoted(missing)}"
            do = "add them, or leave all out for the judge to read"
            raise InputError(f"{chunk.place}", expected=expected, got=got, do=do)
        return names, files, model.space.parse(columns)

    def _answers(
        self, model: AnyModel, pictures: Sequence[Picture], table: Table
    ) -> list[tuple[Image.Image, Result]]:
        request, paths = self.request, [picture.path for picture in pictures]
        images = torch.stack([each.image for each in pictures])
        factual = Factual(table, "given", "")
        if not table:
            reading = model.read(images) if request.attributes == AUTO else None
            factual = find_attributes(request.attributes, model.space, paths, reading)
        names, plan = tuple(map(str, paths)), checked_plan(model, request)
        prepared = CheckedRequest(request, model, plan, names).about(pictures, images, factual)
        found = list[tuple[Image.Image, Result]]()
        for block in loop_over(prepared, in_blocks(range(len(pictures)), prepared.chunk)):
            for answer in block.answers():
                shown = to_pictures(answer.pair.images.float().nan_to_num())
                found += zip(shown, results_in(prepared, block, answer), strict=True)
        return found


@lru_cache(maxsize=1)
def _model(name: str, device: str, precision: str, compiled: int, digest: str) -> AnyModel:
    model = load(name)
    if (found := digest_of(model.image_model, model.scm)) != digest:
        expected, do = f"the weights {digest} of this run", "give all workers the same model"
        raise InputError(f"model {name}", expected=expected, got=found, do=do)
    if device == "cuda" and not torch.cuda.is_available():
        expected, do = "a GPU where the worker is", "start workers where one is, or --device cpu"
        raise InputError("device", expected=expected, got="none", do=do)
    how: Preparation = {"compile": True, "batch_size": compiled} if compiled else {}
    return model.to(device).prepare(precision, **how)


@dataclass(frozen=True, eq=False)
class Division:
    """A question about many pictures, checked and divided into chunks."""

    errand: Errand
    chunks: Sequence[Chunk] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)
    plan: Plan[Any]

    @property
    def images(self) -> int:
        """Number of pictures."""
        return sum(chunk.count for chunk in self.chunks)

    def missing(self, shard: tuple[int, int] = (0, 1)) -> list[int]:
        """Return the numbers of the chunks of a shard whose parts are not there."""
        out, (number, count) = self.errand.request.folder, shard
        there, own = {*os.listdir(out)} if out.is_dir() else {}, range(len(self.chunks))
        return [row for row in own[number::count] if part_name(row, self.errand.form) not in there]

    def check(self) -> None:
        """Refuse a folder with the answers to another question, or with files of others."""
        path = self.errand.request.folder / MANIFEST
        if not os.path.lexists(path):
            if len(self.missing()) < len(self.chunks):
                raise already_there(path.parent, ["part-…"])
            return
        try:
            there = {**json.loads(path.read_bytes())}
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise already_there(path.parent, [path.name]) from error
        now = json.loads(json.dumps(self.manifest, default=str))
        compared = [key for key in now if key not in _MAY_DIFFER]
        pair = ({key: each.get(key) for key in compared} for each in (there, now))
        check_same(f"out {path.parent}", *pair, do="choose another with --out")


def divide(
    model: AnyModel,
    request: Request,
    *,
    form: Form = "parquet",
    chunk: int = 256,
    device: str = "cpu",
    precision: str = "auto",
    compile: bool = False,
) -> Division:
    """Check a question about many pictures, and divide them; nothing is written.

    Args:
        model: The model, for checks; workers read ``request.model``.
        request: The question, with its files and the output folder.
        form: Form of the answers: parquet, tar or pictures.
        chunk: Largest number of pictures that are answered together.
        device: Device of every worker.
        precision: Precision of the network.
        compile: Compilation of the network by each worker, at its first chunk.
    """
    given, digests = request.attributes, list[str]()
    is_table = str(given).lower().endswith(".csv")
    if request.overwrite:
        expected, do = "none with parts, which are never replaced", "remove the folder first"
        raise InputError("--overwrite", expected=expected, got="it", do=do)

    def find_table(folder: Path, names: Sequence[str]) -> Table:
        if not is_table:
            return {}
        paths = [folder / name for name in names]
        found = find_attributes(given, model.space, paths, None, renamed_columns(model))
        digests.append(hex_digest(Path(str(given)).read_bytes()))
        return found.attributes

    plan, _, _, _, chunks = together(
        lambda: checked_plan(model, request),
        lambda: model_pixels(model),
        lambda: check_among("--form", form, get_args(Form)),
        lambda: check_integer("--chunk", chunk, 1, 10**6, do="256 is the default"),
        lambda: find_chunks([*map(Path, request.files)], max(chunk, 1), find_table),
    )
    if not isinstance(given, str | os.PathLike) or (is_table and not digests):
        expected = "a table in a file, for a folder of pictures; else pairs, or 'auto'"
        do = "put the attributes into columns of the Parquet files, or into the tars"
        raise InputError("attributes", expected=expected, got=short(given), do=do)
    is_path = request.model not in shipped() and not request.model.startswith("hf://")
    own = replace(
        request,
        files=(),
        model=os.path.abspath(request.model) if is_path else request.model,
        out=Path(os.path.abspath(request.folder)),
        attributes=AUTO if digests else given,
    )
    checked = CheckedRequest(own, model, plan, ())
    compiled = min(chunk, own.batch_size // plan.rows) if compile else 0
    errand = Errand(own, form, device, precision, compiled, checked.digest)
    manifest = describe(checked) | {"device": device, "precision": precision, "form": form}
    manifest |= {
        "compiled": compile,
        "trust": own.trust,
        "attributes": [str(given), *digests],
        "chunk": chunk,
    }
    manifest |= {"batch_size": own.batch_size, "inputs": hex_digest("".join(map(repr, chunks)))}
    division = Division(errand, chunks, manifest, plan)
    division.check()
    _, _, table = errand.read(model, chunks[0])  # what is wrong with all is wrong with it, too
    if not table and (own.attributes != AUTO or model.judge is None):
        find_attributes(own.attributes, model.space, [], None)
    return division


def answer_all(
    division: Division,
    executor: Executor | None = None,
    *,
    shard: tuple[int, int] = (0, 1),
    on_progress: OnProgress | None = None,
) -> int:
    """Write all parts that are missing; return how many of their pictures could not be read.

    Args:
        division: Result of :func:`divide`.
        executor: Whoever answers the chunks, in any order; this process by default.
        shard: Number and count of the share of this process, if several share the folder.
        on_progress: Callback invoked after every part with the share that is done.
    """
    out, done, unreadable = division.errand.request.folder, 0, 0
    make_folder(out)
    with single_writer(out, f".{MANIFEST}-{shard[0]}-of-{shard[1]}.lock"):
        division.check()
        text = json.dumps(division.manifest, indent=2, default=str)
        write_atomically(out / MANIFEST, text.encode())
        tasks = [(row, division.chunks[row]) for row in division.missing(shard)]
        total = sum(chunk.count for _, chunk in tasks)
        for count, broken in _each(division.errand, tasks, executor):
            done, unreadable = done + count, unreadable + broken
            if on_progress is not None:
                on_progress(done / total)
        if shard[1] == 1:
            remove_unfinished(out)
    return unreadable


def _each(
    errand: Errand, tasks: Iterable[tuple[int, Chunk]], executor: Executor | None
) -> Iterator[tuple[int, int]]:
    """Yield what became of each chunk, in any order."""
    if executor is None:
        yield from (errand(*task) for task in tasks)
        return
    left, running = iter(tasks), set[Future[tuple[int, int]]]()
    while True:
        running |= {executor.submit(errand, *t) for t in islice(left, _AHEAD - len(running))}
        if not running:
            return
        ended, running = wait(running, return_when=FIRST_COMPLETED)
        yield from (future.result() for future in ended)


@contextmanager
def workers_of(engine: str, address: str = "") -> Generator[Executor]:
    """Give the workers of an engine: those of a scheduler, or new ones on this machine."""
    check_among("--engine", engine, ("dask",))
    distributed: Any = optional("distributed", f"--engine {engine}", engine)
    try:
        own = {"address": address} if address else {"dashboard_address": None}
        client = distributed.Client(**own)
    except (OSError, ValueError) as error:
        expected, do = "the address of a scheduler that answers", "start it, or leave it out"
        raise InputError("--address", expected=expected, got=error, do=do) from error
    with client:
        yield client.get_executor(pure=False)
