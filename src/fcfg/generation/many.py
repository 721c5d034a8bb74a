"""Counterfactuals of more pictures than a process holds: chunk by chunk, maybe by many workers.

Every chunk has a part of the output of its own. A part is written whole or not at all, and is not
computed again. So a run that was killed, or a worker that was lost, costs the chunks in work only,
and no picture is answered twice or left out.
"""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from PIL import Image

from fcfg.answers import in_blocks
from fcfg.causal.attributes import Table
from fcfg.generation.chunks import Chunk
from fcfg.generation.division import MANIFEST, Division, Workplace, read_chunk
from fcfg.generation.parsing import Factual, find_attributes
from fcfg.generation.parts import Form, Row, part_name, write_part
from fcfg.generation.picture_files import Picture, read_picture
from fcfg.generation.request import CheckedRequest, Request
from fcfg.generation.results import Result
from fcfg.generation.run import checked_plan, loop_over, results_in
from fcfg.model import AUTO, AnyModel, Preparation, load, model_pixels
from fcfg.support.errors import InputError, check_among, optional
from fcfg.support.files import remove_unfinished, single_writer, write_atomically
from fcfg.support.hashing import digest_of
from fcfg.support.images import to_pictures, to_png
from fcfg.support.outputs import make_folder
from fcfg.support.pictures import UnreadableError
from fcfg.support.progress import OnProgress

_AHEAD = 256  # chunks that workers know of
_NETWORK = Lock()  # while one thread of a worker computes, others read and write


@dataclass(frozen=True)
class Outcome:
    """What became of a chunk."""

    pictures: int
    unreadable: int = 0  #: number of its pictures that could not be read


@dataclass(frozen=True, eq=False)
class Shown:
    """The counterfactual of a picture, and its record."""

    picture: Image.Image
    result: Result


@dataclass(frozen=True, eq=False)
class Errand:
    """A question, as workers get it: each reads the model once, and answers chunk by chunk."""

    request: Request  #: about no files
    form: Form
    workplace: Workplace

    def __call__(self, number: int, chunk: Chunk) -> Outcome:
        """Write a part unless it is there."""
        path = self.request.folder / part_name(number, self.form)
        if path.exists():
            return Outcome(chunk.count)
        with _NETWORK:
            model = _model(self.request.model, self.workplace)
        asked = read_chunk(model, self.request, chunk)
        rows, found, wanted = list[Row](), dict[int, Picture](), model_pixels(model)
        for row, (name, data) in enumerate(zip(asked.names, asked.files, strict=True)):
            try:
                found[row] = read_picture(io.BytesIO(data), Path(name), wanted)
                rows.append(Row(name))
            except UnreadableError as error:
                rows.append(Row(name, error=str(error)))
        own = {name: column[[*found]] for name, column in asked.columns.items()}
        with _NETWORK:
            answers = self._answers(model, [*found.values()], own) if found else []
        for row, shown in zip(found, answers, strict=True):
            rows[row] = Row(asked.names[row], to_png(shown.picture), shown.result)
        write_part(path, self.form, rows, model.space)
        return Outcome(chunk.count, len(rows) - len(found))

    def _answers(self, model: AnyModel, pictures: Sequence[Picture], table: Table) -> list[Shown]:
        request, paths = self.request, [picture.path for picture in pictures]
        images = torch.stack([each.image for each in pictures])
        factual = Factual(table, "given", "")
        if not table:
            reading = model.read(images) if request.attributes == AUTO else None
            factual = find_attributes(request.attributes, model.space, paths, reading)
        names, plan = tuple(map(str, paths)), checked_plan(model, request)
        prepared = CheckedRequest(request, model, plan, names).about(pictures, images, factual)
        found = list[Shown]()
        for block in loop_over(prepared, in_blocks(range(len(pictures)), prepared.chunk)):
            for answer in block.answers():
                pictured = to_pictures(answer.pair.images.float().nan_to_num())
                found += map(Shown, pictured, results_in(prepared, block, answer))
        return found


@lru_cache(maxsize=1)
def _model(name: str, workplace: Workplace) -> AnyModel:
    model, digest, compiled = load(name), workplace.digest, workplace.compiled
    if (found := digest_of(model.image_model, model.scm)) != digest:
        expected, do = f"the weights {digest} of this run", "give all workers the same model"
        raise InputError(f"model {name}", expected=expected, got=found, do=do)
    if workplace.device == "cuda" and not torch.cuda.is_available():
        expected, do = "a GPU where the worker is", "start workers where one is, or --device cpu"
        raise InputError("device", expected=expected, got="none", do=do)
    how: Preparation = {"compile": True, "batch_size": compiled} if compiled else {}
    return model.to(workplace.device).prepare(workplace.precision, **how)


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
    out, done, unreadable = division.request.folder, 0, 0
    errand = Errand(division.request, division.form, division.workplace)
    make_folder(out)
    with single_writer(out, f".{MANIFEST}-{shard[0]}-of-{shard[1]}.lock"):
        division.check()
        text = json.dumps(division.manifest, indent=2, default=str)
        write_atomically(out / MANIFEST, text.encode())
        chunks = {row: division.chunks[row] for row in division.missing(shard)}
        total = sum(chunk.count for chunk in chunks.values())
        for outcome in _each(errand, chunks, executor):
            done, unreadable = done + outcome.pictures, unreadable + outcome.unreadable
            if on_progress is not None:
                on_progress(done / total)
        if shard[1] == 1:
            remove_unfinished(out)
    return unreadable


def _each(
    errand: Errand, chunks: Mapping[int, Chunk], executor: Executor | None
) -> Iterator[Outcome]:
    """Yield what became of each chunk, in any order."""
    if executor is None:
        yield from (errand(*each) for each in chunks.items())
        return
    left, running = iter(chunks.items()), set[Future[Outcome]]()
    while True:
        running |= {executor.submit(errand, *each) for each in islice(left, _AHEAD - len(running))}
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
