"""Result files: what an evaluation writes, line by line, and reads back.

A run is a folder with one JSONL file for each shard. The first line is the header, which describes
the run; each further line is an entry, whose ``kind`` is one of :data:`KEYS`. ``docs/evaluate.md``
describes every field.

Files are read line by line, so that a file that is no result file, or one that unpacks to more
than a run can write, is refused before it fills the memory. Each line ends with a ``check``, a
digest of the rest, which reveals later changes; older files have none.
"""

from __future__ import annotations

import gzip
import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from fcfg.evaluation.result_schema import (
    JSON,
    KEYS,
    OLDER,
    RECOMPUTE,
    Schema,
    checked_header,
    not_an_entry,
)
from fcfg.support.errors import InputError
from fcfg.support.hashing import hex_digest

BASELINE = "none"  # the guidance that others are compared with: the paper's ω = 1
#: Fields of a header that may differ between the shards of a run.
PER_SHARD = ("shard", "block", "command", "commit", "version", "environment")
#: Largest line and largest file, in bytes: a header of a million images, and two million rows.
LONGEST, MOST = 2**25, 2**31
_CHECK = "check"
_FIRST_LINE = "a header in its first line"


@dataclass(frozen=True, eq=False)
class Result:
    """All entries of a run."""

    header: JSON = field(repr=False)
    rows: tuple[JSON, ...] = field(repr=False)
    real: dict[str, JSON] = field(repr=False)  #: by image
    distances: tuple[JSON, ...] = field(repr=False)
    folder: Path | None  #: folder of the run, which may hold pictures
    minimality: dict[tuple[str, ...], JSON] = field(default_factory=dict, repr=False)
    """By intervention and guidance."""

    @property
    def missing(self) -> int:
        """Number of rows that are not computed yet."""
        return len(self.header["questions"]) * len(self.header["images"]) - len(self.rows)


def read_results(path: str | os.PathLike[str], *, unfinished: bool = False) -> Result:
    """Read a run, joining its shards.

    Args:
        path: Folder of the run, or one result file; a file may hold several, one after the other.
        unfinished: Whether to ignore an incomplete last line, which another process may write.
    """
    path = Path(path)
    files = [path] if os.path.exists(path) else []  # unlike Path.exists, with any name
    if os.path.isdir(path):
        files = sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
    header: JSON = {}
    schema: Schema | None = None
    questions: set[tuple[str, ...]] = set()
    images: set[str] = set()
    entries: dict[str, dict[tuple[str, ...], JSON]] = {kind: {} for kind in KEYS}
    for file in files:
        for where, entry in read_lines(file, unfinished=unfinished):
            if entry.get("kind") == "run":
                space, entry = checked_header(where, entry), OLDER | entry
                if schema is None:
                    header, schema = entry, Schema(space, len(entry["images"]))
                    questions = {tuple(question) for question in header["questions"]}
                    images = set(header["images"])
                check_same_run(file, entry, header)
                continue
            assert schema is not None, "the first line is a header"
            schema.check(where, entry)
            kind = entry["kind"]
            key = tuple(entry[name] for name in KEYS[kind])
            is_known = (kind == "real" or key[:2] in questions) and (
                "image" not in KEYS[kind] or entry["image"] in images
            )
            if not is_known or ("image" in KEYS[kind] and key in entries[kind]):
                names = ", ".join(map(repr, key))
                raise InputError(
                    where,
                    expected="every row once, and none that its header does not ask for",
                    got=f"a second one for {names}" if is_known else f"one for {names}",
                    do="remove the file that repeats another" if is_known else "remove that line",
                )
            entries[kind][key] = entry
    if schema is None:
        raise InputError(
            f"results {path}",
            expected="a folder with result files (*.jsonl, *.jsonl.gz), or such a file",
            got="none",
            do="make them with 'fcfg evaluate MODEL EXPERIMENT'",
        )
    return Result(
        header,
        tuple(entries["row"].values()),
        {image: entry for (image,), entry in entries["real"].items()},
        tuple(entries["distance"].values()),
        path if path.is_dir() else None,
        entries["minimality"],
    )


def check_same_run(where: Path, header: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Refuse two headers that differ in images, model or questions."""
    check_same_experiment(where, header, other)
    keys = sorted((header.keys() | other.keys()) - set(PER_SHARD))
    key = next((key for key in keys if header.get(key) != other.get(key)), None)
    if key is not None:
        name, present, new = _difference(key, other.get(key), header.get(key))
        raise InputError(
            f"results {where}",
            expected=f"one run ({name}: {present})",
            got=f"another one ({name}: {new})",
            do="choose another --out for it",
        )


def check_same_experiment(
    where: Path, header: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    """Refuse two headers of different experiments, or of models with different names."""
    new, present = (
        f"an evaluation of '{h['experiment']}' by the model '{h.get('model', {}).get('name')}'"
        for h in (header, other)
    )
    if new != present:
        raise InputError(
            f"results {where}",
            expected=f"{present}, which is there already",
            got=new,
            do="choose another --out for it",
        )


def identity(header: Mapping[str, Any]) -> str:
    """Return a digest of a run's images, model and questions, the same for all its shards."""
    shared = {key: value for key, value in header.items() if key not in PER_SHARD}
    text = json.dumps(shared, sort_keys=True)
    return hex_digest(text)


def _difference(name: str, one: Any, other: Any) -> tuple[str, str, str]:
    """Return the first part in which two JSON values differ: its name, and both as short texts.

    >>> _difference("model", {"kind": "hvae", "sizes": [8, 8]}, {"kind": "hvae", "sizes": [8, 9]})
    ('model.sizes.1', '8', '9')
    """
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"length of {name}", str(len(one)), str(len(other))
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                return _difference(f"{name}.{key}", one.get(key), other.get(key))
    texts = json.dumps(one), json.dumps(other)
    same = len(os.path.commonprefix(texts))  # noqa: RUF071 # characters are meant
    start = max(0, same - 20)  # of long ones, which may differ at their ends only
    short = [text if len(text) <= 80 else f"...{text[start : start + 77]}" for text in texts]
    return name, short[0], short[1]


class ResultFile:
    """A result file that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, header: JSON) -> list[JSON]:
        """Write the header, or check that it belongs to this run; return all lines.

        An incomplete last line, left by an interrupted run, is removed; its row is computed again.
        """
        if not self.path.exists() or self._remove_incomplete_line() == 0:
            self._write([header])
        (where, first), *lines = read_lines(self.path)
        checked_header(where, first)
        check_same_run(self.path, header, first)
        return [first, *(entry for _, entry in lines)]

    def _remove_incomplete_line(self) -> int:
        """Truncate the file after its last whole line; return the number of bytes left."""
        with open_file(self.path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                return 0
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                end = data.rfind(b"\n") + 1
        os.truncate(self.path, end)
        return end

    def append(self, entries: Iterable[JSON]) -> None:
        """Write entries, with six digits of every number."""
        self._write(map_leaves(_rounded, entry) for entry in entries)

    def _write(self, lines: Iterable[JSON]) -> None:
        text = "".join(map(sealed, lines))
        with self.path.open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to every value of nested JSON that is no object and no list.

    >>> map_leaves(str, {"a": (1, 2)})
    {'a': ['1', '2']}
    """
    if isinstance(value, dict):
        return {key: map_leaves(function, part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [map_leaves(function, part) for part in value]
    return function(value)


def sealed(entry: Mapping[str, Any]) -> str:
    r"""Return a line for a file, with its digest.

    >>> sealed({"kind": "real"})
    '{"kind": "real", "check": "16839f3a84c1"}\n'
    """
    text = json.dumps(entry, allow_nan=False)
    return json.dumps({**entry, _CHECK: _digest(text)}) + "\n"


def _digest(text: str) -> str:
    return hex_digest(text, size=6)


def open_file(file: Path) -> IO[bytes]:
    """Open a result file, and unpack it while reading if it ends in ``.gz``.

    A device or a pipe may have no end, and is refused.
    """
    if not file.is_file():
        got = "a folder" if file.is_dir() else "a device or a pipe"
        raise _no_results(file, "a regular file", got)
    return cast("IO[bytes]", gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _no_results(
    file: Path, expected: str, got: str, do: str = "give a file that 'fcfg evaluate' wrote"
) -> InputError:
    return InputError(f"result file {file}", expected=expected, got=got, do=do)


def read_lines(file: Path, *, unfinished: bool = False) -> Iterator[tuple[str, JSON]]:
    """Yield the name of every line, for messages, and its content."""
    has_digests = False
    for number, line in _whole_lines(file, unfinished):
        where = f"result file {file}, line {number}"
        entry = _parsed(where, line)
        is_header = entry.get("kind") == "run"
        if number == 1 and not is_header:
            raise _no_results(file, _FIRST_LINE, repr(line[:40]))
        has_digests = _CHECK in entry if is_header else has_digests
        if _CHECK in entry or has_digests:
            digest = entry.pop(_CHECK, None)
            if digest != _digest(json.dumps(entry)):
                raise InputError(
                    where,
                    expected="the line that was written here, which has a digest",
                    got="something else" if digest else "a line without one",
                    do=RECOMPUTE,
                )
        yield where, entry


def _whole_lines(file: Path, unfinished: bool) -> Iterator[tuple[int, str]]:
    number = total = 0
    try:
        with open_file(file) as stream:
            while line := stream.readline(LONGEST + 1):
                number, total = number + 1, total + len(line)
                if len(line) > LONGEST or total > MOST:
                    limits = f"lines of at most {LONGEST >> 20} MiB, and {MOST >> 30} GiB in all"
                    raise _no_results(file, limits, "more")
                if not line.endswith(b"\n"):
                    if unfinished:
                        return
                    do = "run the same 'fcfg evaluate' again: it resumes where it stopped"
                    raise _no_results(file, "whole lines", "a last line that is half written", do)
                yield number, line.decode("utf-8", "replace")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        expected = "a result file packed by gzip"
        raise _no_results(file, expected, str(error), do="pack it again") from error
    if number == 0 and not unfinished:
        raise _no_results(file, _FIRST_LINE, "an empty file")


def _parsed(where: str, line: str) -> JSON:
    got = repr(line[:40])
    try:
        entry = json.loads(line, parse_constant=_refuse_constant)
        if isinstance(entry, dict):
            return entry
    except ValueError:
        pass
    except RecursionError:
        got = "brackets nested too deeply"
    raise not_an_entry(where, got)


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
