"""Inputs of any number, in chunks: a folder of pictures, Parquet files, or tars of WebDataset.

A chunk says where its pictures are, and reads them where they are needed. None goes on beyond a
row group or a tar, so that nothing is read in order to find its beginning.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from fcfg.causal.attributes import Table
from fcfg.support.errors import InputError, listed, optional
from fcfg.support.pictures import SUFFIXES

IMAGE, NAME = "image", "file_name"  #: columns of Parquet files
PACKED = (".parquet", ".tar")
_LARGEST = 2**28  # bytes of a row group, which is read as a whole


@dataclass(frozen=True, eq=False)
class Rows:
    """The pictures of a chunk."""

    names: Sequence[str]
    files: Sequence[bytes]  #: their contents
    columns: Mapping[str, Any]  #: that stand beside them


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some pictures of an input; its ``repr`` says which."""

    kind: str  #: suffix of the file, or empty for a folder of pictures
    place: Path  #: the folder or the file
    count: int  #: number of pictures
    at: tuple[int, ...] = ()  #: row group and row, or offset of the first sample; size
    names: Sequence[str] = ()  #: of pictures in a folder
    table: Table = field(default_factory=dict[str, Any], repr=False)  #: of their attributes

    def read(self, wanted: Collection[str]) -> Rows:
        """Read the pictures, and those of the wanted columns that are there."""
        if not self.kind:
            pictures = [(self.place / name).read_bytes() for name in self.names]
            return Rows(self.names, pictures, self.table)
        return (_read_parquet if self.kind == ".parquet" else _read_tar)(self, wanted)


def is_packed(path: Path) -> bool:
    """Whether an input is a Parquet file or a tar, or a folder with one."""
    inside = os.scandir(path) if os.path.isdir(path) else [path]
    return any(each.name.endswith(PACKED) for each in inside)


def find_chunks(
    paths: Sequence[Path], size: int, find_table: Callable[[Path, Sequence[str]], Table]
) -> list[Chunk]:
    """Return the chunks of a folder of pictures, or of Parquet files or tars, in order.

    ``size`` is the largest number of pictures in one, and ``find_table`` returns the attributes of
    the pictures of a folder, if there is a table of them.
    """
    folder, found = Path(os.path.abspath(paths[0] if paths else "")), list[Chunk]()
    is_folder = len(paths) == 1 and folder.is_dir()
    names = _names(folder) if is_folder else [os.path.abspath(path) for path in paths]
    kinds = {Path(name).suffix if name.endswith(PACKED) else "" for name in names}
    if is_folder and kinds == {""}:
        table = find_table(folder, names)
        for part in (slice(at, at + size) for at in range(0, len(names), size)):
            own = {name: column[part] for name, column in table.items()}
            found.append(Chunk("", folder, len(names[part]), (), names[part], own))
    elif (
        len(kinds) == 1 and kinds != {""} and all(os.path.isfile(folder / name) for name in names)
    ):
        cut = _of_parquet if kinds == {".parquet"} else _of_tar
        found = [chunk for name in names for chunk in cut(folder / name, size)]
    if found:
        return found
    expected, got = "one folder of pictures, or Parquet files, or tars", listed([*map(str, paths)])
    raise InputError("images", expected=expected, got=got, do="check the paths, or ask twice")


def _names(folder: Path) -> list[str]:
    """Return the names of the files in a folder that may be inputs, sorted."""
    seen = (each for each in os.scandir(folder) if each.name[0] != "." and each.is_file())
    return sorted(each.name for each in seen if each.name.lower().endswith(SUFFIXES + PACKED))


def _of_parquet(path: Path, size: int) -> Iterator[Chunk]:
    try:
        file = parquet().ParquetFile(path)
    except (OSError, ValueError) as error:
        raise _refusal(path, "a Parquet file", error) from error
    if IMAGE not in file.schema_arrow.names:
        raise _refusal(path, f"a column '{IMAGE}'", listed(file.schema_arrow.names))
    for number in range(file.num_row_groups):
        rows, large = (group := file.metadata.row_group(number)).num_rows, group.total_byte_size
        if large > _LARGEST:
            got = f"{large:,}; pyarrow takes row_group_size=1000"
            raise _refusal(path, f"row groups of at most {_LARGEST:,} bytes", got)
        for row in range(0, rows, size):
            yield Chunk(".parquet", path, min(size, rows - row), (number, row, large))


def _read_parquet(chunk: Chunk, wanted: Collection[str]) -> Rows:
    file, (group, start, _) = parquet().ParquetFile(chunk.place), chunk.at
    known = [name for name in (IMAGE, NAME, *wanted) if name in file.schema_arrow.names]
    table = file.read_row_group(group, columns=known).slice(start, chunk.count)
    columns = {name: table[name].to_pylist() for name in known}
    pictures = [  # Hugging Face stores {"bytes": …, "path": …}
        each["bytes"] if isinstance(each, dict) else each for each in columns.pop(IMAGE)
    ]
    if not all(isinstance(each, bytes) for each in pictures):
        raise _refusal(chunk.place, f"contents of picture files in column '{IMAGE}'", "others")
    numbers = range(start, start + chunk.count)
    names = columns.pop(NAME, [f"{chunk.place.stem}-{group}-{row}" for row in numbers])
    return Rows(names, pictures, columns)


def _of_tar(path: Path, size: int) -> Iterator[Chunk]:
    firsts, count = list[int](), 0
    try:
        with tarfile.open(path, "r:") as tar:
            for count, sample in enumerate(_samples(tar), start=1):
                firsts += [sample[0].offset] * (count % size == 1 or size == 1)
    except (OSError, tarfile.TarError) as error:
        raise _refusal(path, "a tar that is not compressed", error) from error
    for number, first in enumerate(firsts):
        own = min(size, count - number * size)
        yield Chunk(".tar", path, own, (first, path.stat().st_size))


def _read_tar(chunk: Chunk, wanted: Collection[str]) -> Rows:
    names, pictures, about = list[str](), list[bytes](), list[Any]()
    with chunk.place.open("rb") as opened:
        opened.seek(chunk.at[0])
        with tarfile.open(fileobj=opened, mode="r:") as tar:
            for sample in islice(_samples(tar), chunk.count):
                own = {info.name: tar.extractfile(info) for info in sample}
                read = {name: file.read() for name, file in own.items() if file is not None}
                shown = [name for name in read if name.lower().endswith(SUFFIXES)]
                said = [data for name, data in read.items() if name.endswith(".json")]
                try:
                    (name,), (text,) = shown, said or [b"{}"]
                    about.append(dict(json.loads(text)))
                except (ValueError, TypeError, RecursionError) as error:
                    expected = "one picture in every sample, and at most one object of JSON"
                    raise _refusal(chunk.place, expected, listed(list(read))) from error
                names.append(name)
                pictures.append(read[name])
    known = [name for name in wanted if any(name in each for each in about)]
    return Rows(names, pictures, {name: [each.get(name) for each in about] for name in known})


def _samples(tar: tarfile.TarFile) -> Iterator[list[tarfile.TarInfo]]:
    """Yield the files of each sample: neighbours whose names are equal up to their first dot."""

    def files() -> Iterator[tarfile.TarInfo]:
        while (info := tar.next()) is not None:
            tar.__dict__["members"] = []  # or it would keep the headers of all files
            if info.isfile():
                yield info

    def key(info: tarfile.TarInfo) -> tuple[str, str]:
        folder, _, name = info.name.rpartition("/")
        return folder, name.partition(".")[0]

    for _, sample in groupby(files(), key):
        yield list(sample)


def _refusal(path: Path, expected: str, got: object) -> InputError:
    return InputError(f"{path}", expected=expected, got=got, do="write it again")


def parquet() -> Any:
    """Import the reader of Parquet files, or say how to install it."""
    return optional("pyarrow.parquet", "Parquet files", "parquet")
