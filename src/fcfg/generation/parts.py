"""Parts: the answers to one chunk, in a file that is written whole or not at all."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fcfg.causal.attributes import AttributeSpace
from fcfg.generation.chunks import NAME, parquet
from fcfg.generation.results import Result
from fcfg.support.errors import InputError, listed, optional
from fcfg.support.files import write_atomically
from fcfg.support.names import is_portable

Form: TypeAlias = Literal["parquet", "tar", "pictures"]
_SUFFIX: Mapping[Form, str] = {"parquet": ".parquet", "tar": ".tar", "pictures": ".jsonl"}


@dataclass(frozen=True, eq=False)
class Row:
    """One picture, and its answer unless it could not be read."""

    name: str
    png: bytes | None = field(default=None, repr=False)
    result: Result | None = None
    error: str = ""

    @property
    def record(self) -> str:
        """What is known of it, as JSON."""
        if self.result is None:
            return json.dumps({"file": self.name, "error": self.error})
        return json.dumps(asdict(self.result) | {"outputs": {}})


def part_name(number: int, form: Form) -> str:
    """Return the name of the file that makes a part whole.

    >>> part_name(7, "parquet")
    'part-00007.parquet'
    """
    return f"part-{number:05}{_SUFFIX[form]}"


def write_part(path: Path, form: Form, rows: Sequence[Row], space: AttributeSpace) -> None:
    """Write the answers to a chunk: a Parquet file, a tar, or pictures and then their records."""
    stems = [Path(row.name).stem for row in rows]
    if form == "parquet":
        write_atomically(path, _as_parquet(rows, space))
        return
    bad = [stem for stem in stems if not is_portable(stem) or "." in stem]
    if bad or len({stem.casefold() for stem in stems}) < len(stems):
        expected = "names of pictures that differ before their suffix, without other dots"
        got, do = listed(bad or stems, shown=3), "rename them, or take --form parquet"
        raise InputError("images", expected=expected, got=got, do=do)
    pictures = [(f"{stem}.png", row.png) for stem, row in zip(stems, rows, strict=True)]
    if form == "tar":
        about = [
            (f"{stem}.json", row.record.encode()) for stem, row in zip(stems, rows, strict=True)
        ]
        write_atomically(path, _as_tar(chain.from_iterable(zip(pictures, about, strict=True))))
        return
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    for name, png in pictures:
        if png is not None:
            write_atomically(folder / name, png)
    write_atomically(path, "".join(f"{row.record}\n" for row in rows).encode())


def _as_parquet(rows: Sequence[Row], space: AttributeSpace) -> bytes:
    table, file = parquet(), io.BytesIO()
    arrow: Any = optional("pyarrow", "Parquet files", "parquet")
    kinds = {int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    columns = {
        NAME: arrow.array([row.name for row in rows], arrow.string()),
        "counterfactual": arrow.array([row.png for row in rows], arrow.binary()),
        "record": arrow.array([row.record for row in rows], arrow.string()),
    }
    for attribute in space:
        name, kind = attribute.name, kinds[type(attribute.value(0))]
        for which in ("factual", "counterfactual"):
            values = [row.result and getattr(row.result, which)[name] for row in rows]
            columns[f"{which}_{name}"] = arrow.array(values, kind)
    table.write_table(arrow.table(columns), file)
    return file.getvalue()


def _as_tar(files: Iterable[tuple[str, bytes | None]]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, data in files:
            if data is not None:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return file.getvalue()
