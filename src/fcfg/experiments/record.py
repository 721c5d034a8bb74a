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

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from fcfg.errors import InputError, quoted

SCHEMA = 1
BASELINE = "none"  # the guidance that others are compared with: the paper's ω = 1
JSON: TypeAlias = dict[str, Any]
#: What every line has, by its kind; a header is checked once its schema is known.
_FIELDS = {
    "run": (),
    "real": ("image", "attributes", "scores", "factors"),
    "row": (
        *("do", "guidance", "image", "target", "scores", "factors"),
        *("change", "reversal", "truth", "evaluations", "seconds"),
    ),
    "distance": ("do", "guidance", "metric", "value", "n"),
}
#: What headers had to say only later, and what was true before.
_LATER: JSON = {"grid": "uniform", "continuous": "permuted"}
_HEADER = ("experiment", "images", "attributes", "graph", "questions")
#: Of a header, what may differ between shards, and when a run goes on elsewhere.
CIRCUMSTANCES = ("shard", "block", "command", "commit", "version", "environment")


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
        for entry in read_lines(file, unfinished=unfinished):
            reader.add(file, entry)
    if not reader.header:
        raise _nothing(Path(path))
    return reader.result(Path(path) if Path(path).is_dir() else None)


class _Reader:
    """Joins the entries of several files."""

    def __init__(self) -> None:
        self.header: JSON = {}
        self._asked: set[tuple[str, str]] = set()
        self._images: set[str] = set()
        self._rows: dict[tuple[str, str, str], JSON] = {}
        self._real: dict[str, JSON] = {}
        self._distances: dict[tuple[str, str, str], JSON] = {}

    def add(self, file: Path, entry: JSON) -> None:
        match entry["kind"]:
            case "run":
                self._begin(file, entry)
            case "row":
                self._add_row(file, entry)
            case "real":
                self._real[entry["image"]] = entry
            case _:
                self._distances[(entry["do"], entry["guidance"], entry["metric"])] = entry

    def result(self, folder: Path | None) -> Result:
        rows, distances = tuple(self._rows.values()), tuple(self._distances.values())
        return Result(self.header, rows, self._real, distances, folder)

    def _begin(self, file: Path, header: JSON) -> None:
        self.header = self.header or header
        check_same_run(file, header, self.header)
        self._asked = {(do, guidance) for do, guidance in header["questions"]}
        self._images = set(header["images"])

    def _add_row(self, file: Path, row: JSON) -> None:
        key = (row["do"], row["guidance"], row["image"])
        known = key[:2] in self._asked and key[2] in self._images
        if key in self._rows or not known:
            text = ", ".join(map(repr, key))
            raise InputError(
                f"result file {file}",
                expected="every row once, and none that its header does not ask for",
                got=f"a second one for {text}" if known else f"one for {text}",
                do="remove the file that repeats another" if known else "remove that line",
            )
        self._rows[key] = row


def read_lines(file: Path, *, unfinished: bool = False) -> list[JSON]:
    """All lines of a result file; refuses one that is not whole.

    Args:
        file: The file.
        unfinished: Leave out what is behind the last whole line; then there may be none.
    """
    text = _content(file)
    if unfinished:
        text = text[: text.rfind("\n") + 1]
        if not text:
            return []
    if text and not text.endswith("\n"):
        raise InputError(
            f"result file {file}",
            expected="whole lines",
            got="a last line that is half written",
            do="run the same 'fcfg evaluate' again: it goes on where it was stopped",
        )
    lines = [_parsed(file, number, line) for number, line in enumerate(text.splitlines(), 1)]
    if not lines or lines[0].get("kind") != "run":
        raise InputError(
            f"result file {file}",
            expected="a header in its first line",
            got=repr(text[:40]) if text else "an empty file",
            do="give a file that 'fcfg evaluate' wrote",
        )
    if lines[0].get("schema") != SCHEMA:
        raise InputError(
            f"result file {file}",
            expected=f"schema {SCHEMA}",
            got=lines[0].get("schema"),
            do="use the version of fcfg that wrote it",
        )
    lacking = [name for name in _HEADER if name not in lines[0]]
    if lacking:
        raise InputError(
            f"result file {file}",
            expected=f"a header with {quoted(_HEADER)}",
            got=f"none of {quoted(lacking)}",
            do="give a file that 'fcfg evaluate' wrote",
        )
    return lines


def opened(file: Path) -> IO[bytes]:
    """A result file, unpacked as it is read where ``gzip`` made it small."""
    return cast("IO[bytes]", gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _content(file: Path) -> str:
    try:
        with opened(file) as stream:
            return stream.read().decode("utf-8", "replace")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"result file {file}",
            expected="what gzip makes of a result file",
            got=str(error),
            do="pack it again",
        ) from error


def _parsed(file: Path, number: int, line: str) -> JSON:
    try:
        entry = json.loads(line)
        lacking = [name for name in _FIELDS[entry["kind"]] if name not in entry]
        if not lacking:
            return _LATER | entry if entry["kind"] == "run" else entry
        got = f"a {entry['kind']} without {quoted(lacking)}"
    except (json.JSONDecodeError, TypeError, KeyError):
        got = repr(line[:40])
    raise InputError(
        f"result file {file}, line {number}",
        expected=f"a JSON object of kind {', '.join(_FIELDS)}, with all its fields",
        got=got,
        do="remove this line, and run the same 'fcfg evaluate' again",
    )


def check_same_run(where: Path, header: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Refuse two headers that do not speak of the same images, model and questions."""
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
        text = self.path.read_bytes() if self.path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            with self.path.open("rb+") as file:
                file.truncate(len(whole))
        if not whole:
            self._write([header])
        lines = read_lines(self.path)
        check_same_run(self.path, header, lines[0])
        return lines

    def append(self, entries: Iterable[JSON]) -> None:
        """Write entries; their numbers have six digits, which is more than they bear."""
        self._write(map(_rounded, entries))

    def _write(self, lines: Iterable[JSON]) -> None:
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
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
