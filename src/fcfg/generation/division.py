"""A question about many pictures, checked and divided into chunks before anything is written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from fcfg.causal.attributes import Table
from fcfg.generation.chunks import Chunk, Rows, find_chunks
from fcfg.generation.parsing import find_attributes
from fcfg.generation.parts import Form, part_name
from fcfg.generation.picture_files import renamed_columns
from fcfg.generation.record import describe
from fcfg.generation.request import CheckedRequest, Request
from fcfg.generation.run import checked_plan
from fcfg.model import AUTO, AnyModel, Plan, model_pixels
from fcfg.storage import shipped
from fcfg.support.errors import InputError, check_among, check_integer, quoted, short, together
from fcfg.support.hashing import hex_digest
from fcfg.support.outputs import already_there, check_same

MANIFEST = "_manifest.json"  #: which readers of a folder of Parquet files leave out
_MAY_DIFFER = ("fcfg", "model", "network", "provenance")


@dataclass(frozen=True)
class Workplace:
    """How every worker computes, and with which weights."""

    device: str
    precision: str
    compiled: int  #: number of pictures that the network is compiled for, or 0
    digest: str  #: of the model


@dataclass(frozen=True, eq=False)
class Division:
    """A question about many pictures, checked and divided into chunks."""

    request: Request  #: about no files
    form: Form
    workplace: Workplace
    chunks: Sequence[Chunk] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)
    plan: Plan[Any]

    @property
    def images(self) -> int:
        """Number of pictures."""
        return sum(chunk.count for chunk in self.chunks)

    def missing(self, shard: tuple[int, int] = (0, 1)) -> list[int]:
        """Return the numbers of the chunks of a shard whose parts are not there."""
        out, (number, count) = self.request.folder, shard
        there, own = {*os.listdir(out)} if out.is_dir() else {}, range(len(self.chunks))
        return [row for row in own[number::count] if part_name(row, self.form) not in there]

    def check(self) -> None:
        """Refuse a folder with the answers to another question, or with files of others."""
        path = self.request.folder / MANIFEST
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
    if request.overwrite:
        expected, do = "none with parts, which are never replaced", "remove the folder first"
        raise InputError("--overwrite", expected=expected, got="it", do=do)
    is_table = str(given := request.attributes).lower().endswith(".csv")

    def find_table(folder: Path, names: Sequence[str]) -> Table:
        if not is_table:
            return {}
        paths = [folder / name for name in names]
        return find_attributes(given, model.space, paths, None, renamed_columns(model)).attributes

    plan, *_, chunks = together(
        lambda: checked_plan(model, request),
        lambda: model_pixels(model),
        lambda: check_among("--form", form, get_args(Form)),
        lambda: check_integer("--chunk", chunk, 1, 10**6, do="256 is the default"),
        lambda: find_chunks([*map(Path, request.files)], max(chunk, 1), find_table),
    )
    if not isinstance(given, str | os.PathLike) or (is_table and chunks[0].kind):
        expected = "a table in a file, for a folder of pictures; else pairs, or 'auto'"
        do = "put the attributes into columns of the Parquet files, or into the tars"
        raise InputError("attributes", expected=expected, got=short(given), do=do)
    checked = CheckedRequest(own := _for_workers(request, is_table), model, plan, ())
    compiled = min(chunk, own.batch_size // plan.rows) if compile else 0
    workplace = Workplace(device, precision, compiled, checked.digest)
    digests = [hex_digest(Path(given).read_bytes())] if is_table else []
    manifest = describe(checked) | {"device": device, "precision": precision, "form": form}
    manifest |= {"compiled": compile, "trust": own.trust, "attributes": [str(given), *digests]}
    manifest |= {"chunk": chunk, "batch_size": own.batch_size}
    manifest |= {"inputs": hex_digest("".join(map(repr, chunks)))}
    division = Division(own, form, workplace, chunks, manifest, plan)
    division.check()
    first = read_chunk(model, own, chunks[0])  # what is wrong with all is wrong with it, too
    if not first.columns and (own.attributes != AUTO or model.judge is None):
        find_attributes(own.attributes, model.space, [], None)
    return division


def read_chunk(model: AnyModel, request: Request, chunk: Chunk) -> Rows:
    """Read a chunk with the columns of all attributes, or of none for the judge to read."""
    names, rows = model.space.names, chunk.read(model.space.names)
    missing = [name for name in names if name not in rows.columns]
    if request.attributes != AUTO or len(missing) == len(names):
        return replace(rows, columns={})
    if missing:
        expected, got = "all attributes, or none of them", f"none for {quoted(missing)}"
        do = "add them, or leave all out for the judge to read"
        raise InputError(f"{chunk.place}", expected=expected, got=got, do=do)
    return replace(rows, columns=model.space.parse(rows.columns))


def _for_workers(request: Request, is_table: bool) -> Request:
    """Return a request without its files, with absolute paths; chunks have what a table says."""
    is_path = request.model not in shipped() and not request.model.startswith("hf://")
    return replace(
        request,
        files=(),
        model=os.path.abspath(request.model) if is_path else request.model,
        out=Path(os.path.abspath(request.folder)),
        attributes=AUTO if is_table else request.attributes,
    )
