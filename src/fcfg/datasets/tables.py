"""Label files: comma-separated, possibly compressed, read strictly."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from fcfg.datasets.columns import missing_column
from fcfg.datasets.listing import listed
from fcfg.support.errors import InputError

_OTHERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}  # that separate elsewhere
_ROW = 2**20  # characters of the longest row
_CELLS = 10**8  # that are kept, of all columns together: about a gigabyte
_REPEATED = 1000  # different texts of a column that are kept once each, however often they occur


def read_columns(path: Path, wanted: Iterable[str] | None = None) -> dict[str, list[str]]:
    """Read columns of a ``.csv`` or ``.csv.gz`` file as texts.

    Args:
        path: The file, with a header.
        wanted: Which columns; all by default.
    """
    try:
        with _opened(path) as file:
            return _columns(path, _Lines(path, file).rows(), wanted)
    except (csv.Error, UnicodeDecodeError, EOFError, OSError) as error:
        raise InputError(
            str(path),
            expected="a comma-separated table in UTF-8 that can be read",
            got=getattr(error, "strerror", None) or f"{error}",
            do="check the path" if not path.is_file() else "save it again, or download it again",
        ) from error


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


class _Lines:
    """Lines of a file, of which a row takes a bounded number of characters."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self.path, self.file = path, file
        self.length = 0  # of the lines since a row was complete

    def __iter__(self) -> Iterator[str]:
        while line := self.file.readline(_ROW + 1):
            self.length += len(line)
            if self.length > _ROW:
                raise _too_large(self.path, f"rows of at most {_ROW:,} characters", "a longer one")
            yield line

    def rows(self) -> Iterator[list[str]]:
        for row in csv.reader(self, strict=True):
            self.length = 0
            yield row


def _too_large(path: Path, expected: str, got: str) -> InputError:
    return InputError(
        str(path), expected=expected, got=got, do="leave out rows or columns that nobody needs"
    )


def _columns(
    path: Path, rows: Iterator[list[str]], wanted: Iterable[str] | None
) -> dict[str, list[str]]:
    header = next(rows, [])
    _check_header(path, header)
    names = header if wanted is None else list(wanted)
    for name in names:
        if name not in header:
            raise missing_column(str(path), name, dict.fromkeys(header))
    places = [(header.index(name), list[str](), dict[str, str]()) for name in names]
    cells = 0
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
        cells += len(places)
        if cells > _CELLS:
            raise _too_large(path, f"at most {_CELLS:,} values", f"more, after {line:,} lines")
        for place, texts, known in places:
            text = row[place]
            same = (
                known.get(text, text) if len(known) == _REPEATED else known.setdefault(text, text)
            )
            texts.append(same)
    return {name: texts for name, (_, texts, _) in zip(names, places, strict=True)}


def _check_header(path: Path, header: list[str]) -> None:
    """Refuse a first line that names nothing, something twice, or everything in one text."""
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled or not header:
        raise InputError(
            str(path),
            expected="a first line that names every column once",
            got=f"{listed(doubled)} more than once" if doubled else "an empty file",
            do="add or correct the first line",
        )
    between = [name for mark, name in _OTHERS.items() if mark in header[0]]
    if len(header) == 1 and between:
        raise InputError(
            str(path),
            expected="commas between the columns",
            got=f"{between[0]} in its first line, and no comma",
            do="save it with commas as separators",
        )


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
