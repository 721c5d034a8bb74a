"""Result files: what an evaluation writes, line by line, and reads back.

A run is a folder with one JSONL file for each shard. The first line is the header, which says
everything about the run; each further line is an entry with a ``kind``:

``real``
    What the judge reads from one factual image.
``row``
    One image under one intervention and one guidance: the attributes it was asked for, what the
    judge reads from it, how far it is from the factual image, how far the way back ends from it,
    and, where the world is drawn, how far it is from the truth. Intervention "" is the null one.
``distance``
    A Fréchet distance between all counterfactuals of a setting and all factual images.

``docs/evaluate.md`` describes every field.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.evaluation.legal import Legal
from fcfg.evaluation.result_lines import JSON, check_fields, opened, read_lines, sealed
from fcfg.support.errors import InputError, quoted
from fcfg.support.hashing import hex_digest

SCHEMA = 1
BASELINE = "none"  # the guidance that others are compared with: the paper's ω = 1
#: What headers had to say only later, and what was true before.
_LATER: JSON = {"grid": "uniform", "continuous": "permuted"}
#: What every header says, and what it looks like.
_HEADER: dict[str, Callable[[Any], bool]] = {
    "experiment": lambda value: isinstance(value, str),
    "images": lambda value: _is_list(value, str) and len(set(value)) == len(value),
    "attributes": lambda value: isinstance(value, dict) and _is_list(list(value.values()), dict),
    "graph": lambda value: isinstance(value, dict) and _is_list(list(value.values()), list),
    "questions": lambda value: (
        _is_list(value, list) and all(len(pair) == 2 and _is_list(pair, str) for pair in value)
    ),
}
_PIECE = 2**16  # bytes that are looked through at once for the end of a line
#: Of a header, what may differ between shards, and when a run goes on elsewhere.
CIRCUMSTANCES = ("shard", "block", "command", "commit", "version", "environment")


def _is_list(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(part, kind) for part in value)


@dataclass(frozen=True, eq=False)
class Result:
    """All that was written of a run."""

    header: JSON = field(repr=False)
    rows: tuple[JSON, ...] = field(repr=False)
    real: dict[str, JSON] = field(repr=False)  #: by image
    distances: tuple[JSON, ...] = field(repr=False)
    folder: Path | None  #: where pictures may lie

    @property
    def missing(self) -> int:
        """How many rows are still to come."""
        return len(self.header["questions"]) * len(self.header["images"]) - len(self.rows)


def result_files(path: Path) -> list[Path]:
    """The files of a run: itself, or those in its folder; ``gzip`` may have made them small."""
    there = path.is_dir()
    files = sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")]) if there else [path]
    if not files or not files[0].exists():
        raise _nothing(path)
    return files


def _nothing(path: Path) -> InputError:
    return InputError(
        f"results {path}",
        expected="a folder with result files (*.jsonl, *.jsonl.gz), or such a file",
        got="none",
        do="make them with 'fcfg evaluate MODEL EXPERIMENT'",
    )


def read_results(path: str | os.PathLike[str], *, unfinished: bool = False) -> Result:
    """Read a run, joining its shards.

    Args:
        path: The folder of the run, or one result file; or several written one after the other.
        unfinished: Whether other processes may be writing: what is not a whole line is left out.
    """
    reader = _Reader()
    for file in result_files(Path(path)):
        for where, entry in read_lines(file, unfinished=unfinished):
            reader.add(file, where, entry)
    if not reader.header:
        raise _nothing(Path(path))
    return reader.result(Path(path) if Path(path).is_dir() else None)


class _Reader:
    """Joins the entries of several files."""

    def __init__(self) -> None:
        self.header: JSON = {}
        self._legal: Legal | None = None
        self._asked: set[tuple[str, str]] = set()
        self._images: set[str] = set()
        self._rows: dict[tuple[str, str, str], JSON] = {}
        self._real: dict[str, JSON] = {}
        self._distances: dict[tuple[str, str, str], JSON] = {}

    def add(self, file: Path, where: str, entry: JSON) -> None:
        check_fields(where, entry)
        if entry["kind"] == "run":
            self._begin(file, checked_header(where, entry))
            return
        assert self._legal is not None  # the first line is a header
        self._check_asked(where, entry)
        self._legal.check(where, entry)
        match entry["kind"]:
            case "row":
                self._rows[(entry["do"], entry["guidance"], entry["image"])] = entry
            case "real":
                self._real[entry["image"]] = entry
            case _:
                self._distances[(entry["do"], entry["guidance"], str(entry["metric"]))] = entry

    def result(self, folder: Path | None) -> Result:
        rows, distances = tuple(self._rows.values()), tuple(self._distances.values())
        return Result(self.header, rows, self._real, distances, folder)

    def _begin(self, file: Path, header: JSON) -> None:
        self.header = self.header or header
        check_same_run(file, header, self.header)
        self._asked = {(do, guidance) for do, guidance in header["questions"]}
        self._images = set(header["images"])
        self._legal = Legal(AttributeSpace.from_config(header["attributes"]))

    def _check_asked(self, where: str, entry: JSON) -> None:
        """Every entry is about what the header asks for; rows and images come once."""
        names = [name for name in ("do", "guidance", "image") if name in entry]
        key = tuple(str(entry[name]) for name in names)
        known = all(isinstance(entry[name], str) for name in names)
        known = known and ("image" not in entry or entry["image"] in self._images)
        known = known and ("do" not in entry or key[:2] in self._asked)
        if not known or key in self._rows or (len(key) == 1 and key[0] in self._real):
            text = ", ".join(map(repr, key))
            raise InputError(
                where,
                expected="every row once, and none that its header does not ask for",
                got=f"a second one for {text}" if known else f"one for {text}",
                do="remove the file that repeats another" if known else "remove that line",
            )


def checked_header(where: str, header: JSON) -> JSON:
    """A header with all that later versions have to say, or a refusal.

    Args:
        where: The line that it is in.
        header: What it says.
    """
    if header.get("schema") != SCHEMA:
        raise InputError(
            where,
            expected=f"schema {SCHEMA}",
            got=header.get("schema"),
            do="use the version of fcfg that wrote it",
        )
    lacking = [name for name in _HEADER if name not in header]
    if lacking:
        raise InputError(
            where,
            expected=f"a header with {quoted(_HEADER)}",
            got=f"none of {quoted(lacking)}",
            do="give a file that 'fcfg evaluate' wrote",
        )
    unfit = [name for name, is_legal in _HEADER.items() if not is_legal(header[name])]
    if not unfit:
        try:
            space = AttributeSpace.from_config(header["attributes"])
            unfit += (
                [] if set(CausalGraph(header["graph"]).nodes) == set(space.names) else ["graph"]
            )
        except InputError as error:
            raise error.about(f"{where}, {str(error).split(':')[0]}", error.do) from error
    if unfit:
        raise InputError(
            where,
            expected="a header of texts, lists and mappings that fit together",
            got=f"other {quoted(unfit)}",
            do="give a file that 'fcfg evaluate' wrote",
        )
    return _LATER | header


def check_same_run(where: Path, header: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Refuse two headers that do not speak of the same images, model and questions."""
    check_same_question(where, header, other)
    keys = sorted((header.keys() | other.keys()) - set(CIRCUMSTANCES))
    different = [key for key in keys if header.get(key) != other.get(key)]
    if different:
        key = different[0]
        raise InputError(
            f"results {where}",
            expected=f"one run ({key}: {_brief(other.get(key))})",
            got=f"another one ({key}: {_brief(header.get(key))})",
            do="choose another --out for it",
        )


def check_same_question(where: Path, header: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Refuse two headers of different experiments, or of models with different names."""
    ours, theirs = (
        f"an evaluation of '{h['experiment']}' by the model '{h.get('model', {}).get('name')}'"
        for h in (header, other)
    )
    if ours != theirs:
        raise InputError(
            f"results {where}",
            expected=f"{theirs}, which is there already",
            got=ours,
            do="choose another --out for it",
        )


def identity(header: Mapping[str, Any]) -> str:
    """A digest of what two headers of the same run share: its images, model and questions."""
    shared = {key: value for key, value in header.items() if key not in CIRCUMSTANCES}
    text = json.dumps(shared, sort_keys=True)
    return hex_digest(text)


def _brief(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


class ResultFile:
    """A result file that is being written.

    Args:
        path: The file; it is made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, header: JSON) -> list[JSON]:
        """Write the header, or check that it is this run's; return all lines that are there.

        A last line that was cut off when a run was stopped is removed; its row comes again.
        """
        if not self.path.exists() or self._cut() == 0:
            self._write([header])
        (where, first), *lines = read_lines(self.path)
        first = checked_header(where, first)
        check_same_run(self.path, header, first)
        return [first, *(entry for _, entry in lines)]

    def _cut(self) -> int:
        """Remove what is behind the last whole line; return how many bytes are left."""
        with opened(self.path) as file:
            place = size = file.seek(0, os.SEEK_END)
            end = 0
            while place > 0 and end == 0:
                start = max(0, place - _PIECE)
                file.seek(start)
                found = file.read(place - start).rfind(b"\n")
                place, end = start, start + found + 1 if found >= 0 else 0
        if end < size:
            os.truncate(self.path, end)
        return end

    def append(self, entries: Iterable[JSON]) -> None:
        """Write entries; their numbers have six digits, which is more than they bear."""
        self._write(map(_rounded, entries))

    def _write(self, lines: Iterable[JSON]) -> None:
        text = "".join(map(sealed, lines))
        with self.path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {key: _rounded(part) for key, part in value.items()}
        case list() | tuple():
            return [_rounded(part) for part in value]
        case _:
            return value
