"""Label files: comma-separated, possibly compressed, read strictly."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from fcfg.datasets.columns import missing_column
from fcfg.errors import InputError, quoted


def read_columns(path: Path, wanted: Iterable[str] | None = None) -> dict[str, list[str]]:
    """Read columns of a ``.csv`` or ``.csv.gz`` file as texts.

    Args:
        path: The file, with a header.
        wanted: Which columns; all by default.
    """
    with _opened(path) as file:
        try:
            return _columns(path, csv.reader(file, strict=True), wanted)
        except (csv.Error, UnicodeDecodeError, EOFError, OSError) as error:
            raise InputError(
                str(path),
                expected="a comma-separated table in UTF-8",
                got=f"{error}",
                do="save it again, or download it again",
            ) from error


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _columns(
    path: Path, rows: Iterator[list[str]], wanted: Iterable[str] | None
) -> dict[str, list[str]]:
    header = next(rows, [])
    doubled = sorted({name for name in header if header.count(name) > 1})
    if doubled or not header:
        raise InputError(
            str(path),
            expected="a first line that names every column once",
            got=f"{quoted(doubled)} more than once" if doubled else "an empty file",
            do="add or correct the first line",
        )
    names = header if wanted is None else list(wanted)
    for name in names:
        if name not in header:
            raise missing_column(str(path), name, dict.fromkeys(header))
    places = [(header.index(name), list[str]()) for name in names]
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            if not row:  # an empty line, as editors leave at the end
                continue
            raise InputError(
                f"{path}, line {line}",
                expected=f"{len(header)} values",
                got=f"{len(row)}",
                do="quote texts that contain commas",
            )
        for place, texts in places:
            texts.append(row[place])
    return {name: texts for name, (_, texts) in zip(names, places, strict=True)}


def found(root: Path | None, candidates: Sequence[str], source: str) -> Path:
    """The first of some files that exists, or a refusal that says where to get it.

    Args:
        root: The folder of the data set; None is refused, too.
        candidates: Paths in it, the official one first.
        source: Where the data set comes from.
    """
    folder = folder_of(root)
    for candidate in candidates:
        if (folder / candidate).exists():
            return folder / candidate
    raise InputError(
        f"data in {folder}",
        expected=" or ".join(f"'{candidate}'" for candidate in candidates),
        got="no such file",
        do=f"get it from {source}",
    )


def folder_of(root: Path | None) -> Path:
    """The folder of a data set, or a refusal."""
    if root is None or not root.is_dir():
        raise InputError(
            "data, path",
            expected="a folder that exists",
            got="none" if root is None else f"'{root}'",
            do="give the folder of the data set as 'path'",
        )
    return root


def matched(keys: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """The first value of every key: tables that have a row for each finding of an exam."""
    first: dict[str, str] = {}
    for key, value in zip(keys, values, strict=True):
        first.setdefault(key, value)
    return first
