"""Attributes and interventions as users write them: pairs, a table, or read by the judge."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fcfg.causal.attributes import AbstractAttribute, AttributeSpace, Binary, Categorical, Table
from fcfg.causal.codes import binary_code
from fcfg.causal.intervention import Intervention, from_text, intervened
from fcfg.datasets.columns import parse_table
from fcfg.judge import Reading
from fcfg.model import AUTO, AttributesLike
from fcfg.support.errors import InputError, listed, together
from fcfg.support.options import parse_pairs
from fcfg.support.tables import check_columns, read_columns

JUDGE = "judge"
FILE = "file_name"  # the column of a table that names the pictures
Attributes: TypeAlias = AttributesLike | os.PathLike[str]

_SEPARATOR = re.compile(r",(?=[^,=]*=)")  # a comma before the next name; levels may hold others
_WANTED = "'auto', a table that ends in .csv, or pairs such as smiling=0,male=1"


@dataclass(frozen=True, eq=False)
class Factual:
    """The attributes of pictures, and their source."""

    attributes: Table = field(repr=False)
    source: str  #: 'judge', 'given', or the path of a table
    note: str  #: the same as a sentence


def parse_do(texts: Iterable[str], space: AttributeSpace) -> dict[str, Intervention]:
    """Read an intervention: a string for each target, see :mod:`fcfg.causal.intervention`.

    >>> space = AttributeSpace([Binary("smiling"), Categorical("hair", ["dark", "fair"])])
    >>> parse_do(["smiling=flip,hair=fair"], space)
    {'smiling': 'flip', 'hair': 'fair'}
    """
    written = _pairs("do", texts)
    space.check_known(written, "do")

    def parse(name: str, text: str) -> Intervention:
        value = from_text(space[name], text)
        if not callable(value):
            intervened(space[name], value, np.zeros(1))  # raises before any picture is read
        return text if callable(value) else value

    values = together(*(partial(parse, *item) for item in written.items()))
    return dict(zip(written, values, strict=True))


def find_attributes(
    given: Attributes,
    space: AttributeSpace,
    files: Sequence[Path],
    reading: Reading | None,
    rename: Mapping[str, str] | None = None,
) -> Factual:
    """Return the factual attributes of files, one row for each.

    Args:
        given: 'auto' for those that the judge reads; the path of a CSV table with a column
            ``file_name`` and one for each attribute, read as in training; pairs such as
            ``smiling=0,male=1``, which hold for every file; or columns, a data frame, or rows.
        space: The attributes of the model.
        files: The pictures.
        reading: Attributes that the judge reads from them, if there is one.
        rename: Columns of the training table by attribute, where the names differ; a table
            without such a column has one with the name of the attribute.
    """
    if not isinstance(given, str | os.PathLike):
        return Factual(space.parse(given, len(files)), "given", "the attributes were given")
    text = os.fspath(given)
    if text == AUTO:
        if reading is None:
            raise InputError(
                "attributes",
                expected="a table or pairs, since the model has no judge to read them",
                got=f"'{AUTO}', or nothing",
                do="give --attributes table.csv, or --attributes 'name=value,...'",
            )
        note = "the attributes were read by the judge; in brackets: how sure it is"
        return Factual(reading.attributes, JUDGE, note)
    if text.lower().endswith(".csv"):
        return _from_table(Path(text), space, files, rename or {})
    if "=" not in text:
        raise InputError("attributes", expected=_WANTED, got=repr(text), do="write one of these")
    written = _pairs("attributes", [text])
    space.check_known(written)
    values = {name: [_value(space[name], value)] for name, value in written.items()}
    columns = {name: np.repeat(column, len(files)) for name, column in space.parse(values).items()}
    return Factual(columns, "given", f"all pictures have {text}, as given")


def _from_table(
    path: Path, space: AttributeSpace, files: Sequence[Path], rename: Mapping[str, str]
) -> Factual:
    table = read_columns(path)
    columns = {name: rename[name] if rename.get(name) in table else name for name in space.names}
    check_columns(str(path), (FILE, *columns.values()), table)
    rows = _matching(path, table[FILE], files)
    texts = {name: [table[column][row] for row in rows] for name, column in columns.items()}
    values = parse_table(space, texts, [str(file) for file in files], str(path))
    return Factual(values, str(path), f"the attributes are those of {path}")


def _matching(path: Path, names: Sequence[str], files: Sequence[Path]) -> list[int]:
    """Return the row of every file: the one with its path, or else with its name."""
    by_path: dict[Path, list[int]] = {}
    by_name: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        with suppress(ValueError):  # a NUL, which no file has in its name
            by_path.setdefault((path.parent / name).resolve(), []).append(row)
        by_name.setdefault(Path(name).name, []).append(row)
    rows = [by_path.get(file.resolve()) or by_name.get(file.name, []) for file in files]
    for file, matches in zip(files, rows, strict=True):
        if len(matches) > 1:
            raise InputError(
                str(path),
                expected=f"one row for '{file}'",
                got=f"{len(matches)}: {listed([names[row] for row in matches])}",
                do="keep one, or write file names with their folders",
            )
    missing = [str(file) for file, matches in zip(files, rows, strict=True) if not matches]
    if missing:
        raise InputError(
            str(path),
            expected=f"a row for every picture, by its {FILE}",
            got=f"none for {listed(missing)}",
            do="add the rows; names are relative to the table, or without a folder",
        )
    chosen = [row for (row,) in rows]
    claimed = [row for row, count in Counter(chosen).items() if count > 1]
    if claimed:
        raise InputError(
            str(path),
            expected="a row of its own for every picture",
            got=f"one '{names[claimed[0]]}' for several",
            do="write file names with their folders, relative to the table",
        )
    return chosen


def _pairs(subject: str, texts: Iterable[str]) -> dict[str, str]:
    parts = [part for text in texts for part in _SEPARATOR.split(text)]
    return parse_pairs(parts, subject, example="smiling=1,male=0")


def _value(attribute: AbstractAttribute, text: str) -> float | str:
    """Return a level by its name, anything else as a number if it is one."""
    if isinstance(attribute, Categorical):
        return text
    if isinstance(attribute, Binary) and (code := binary_code(text, attribute.levels)) is not None:
        return float(code)
    try:
        return float(text)
    except ValueError:
        return text
