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
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from fcfg.evaluation.result_schema import (
    JSON,
    KEYS,
    OLDER,
    RECOMPUTE,
    Schema,
    checked_header,
    not_an_entry,
)
from fcfg.support.errors import InputError, quoted
from fcfg.support.hashing import hex_digest
from fcfg.support.outputs import check_same

BASELINE = "none"  # the guidance that others are compared with: the paper's ω = 1
#: Fields of a header that may differ between the shards of a run. Those of older ones lack groups.
PER_SHARD = ("shard", "block", "groups", "command", "commit", "version", "environment")
#: Largest line and largest file, in bytes: a header of a million images, and two million rows.
LONGEST, MOST = 2**25, 2**31
Entries: TypeAlias = dict[tuple[str, ...], JSON]
_CHECK = "check"
_FIRST_LINE, _ELSEWHERE = "a header in its first line", "choose another --out for it"


@dataclass(frozen=True, eq=False)
class Result:
    """All entries of a run."""

    header: JSON = field(repr=False)
    rows: Entries = field(repr=False)  #: by intervention, guidance and image
    real: dict[str, JSON] = field(repr=False)  #: by image
    distances: Entries = field(repr=False)  #: by intervention, guidance and metric
    minimality: Entries = field(repr=False)  #: by intervention and guidance
    folder: Path | None  #: folder of the run, which may hold pictures

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
    entries: dict[str, Entries] = {kind: {} for kind in KEYS}
    for file in files:
        for where, entry in read_lines(file, unfinished=unfinished):
            if entry.get("kind") == "run":
                space, entry = checked_header(where, entry), OLDER | entry
                if schema is None:
                    header, schema = entry, Schema(space, entry)
                check_same_run(file, entry, header)
                continue
            assert schema is not None, "the first line is a header"
            key = schema.key_of(where, entry)
            known = entries[entry["kind"]]
            if key in known and "image" in KEYS[entry["kind"]]:
                raise InputError(
                    where,
                    expected="every row once",
                    got=f"a second one for {quoted(key)}",
                    do="remove the file that repeats another",
                )
            known[key] = entry
    if schema is None:
        raise InputError(
            f"results {path}",
            expected="a folder with result files (*.jsonl, *.jsonl.gz), or such a file",
            got="none",
            do="make them with 'fcfg evaluate MODEL EXPERIMENT'",
        )
    return Result(
        header,
        entries["row"],
        {image: entry for (image,), entry in entries["real"].items()},
        entries["distance"],
        entries["minimality"],
        path if path.is_dir() else None,
    )


def check_same_run(where: Path, header: JSON, other: JSON) -> None:
    """Refuse two headers that differ in images, model or questions."""
    check_same_experiment(where, header, other)
    check_same(f"results {where}", _shared(other), _shared(header), do=_ELSEWHERE)


def check_same_experiment(where: Path, header: JSON, other: JSON) -> None:
    """Refuse two headers of different experiments, or of models with different names."""
    new, present = (
        f"an evaluation of '{h['experiment']}' by the model '{h.get('model', {}).get('name')}'"
        for h in (header, other)
    )
    if new != present:
        expected = f"{present}, which is there already"
        raise InputError(f"results {where}", expected=expected, got=new, do=_ELSEWHERE)


def identity(header: JSON) -> str:
    """Return a digest of a run's images, model and questions, the same for all its shards."""
    return hex_digest(json.dumps(_shared(header), sort_keys=True))


def _shared(header: JSON) -> JSON:
    return {key: value for key, value in header.items() if key not in PER_SHARD}


def begin_file(path: Path, header: JSON) -> list[JSON]:
    """Write the header of a result file, or check that it belongs to this run; return all lines.

    An incomplete last line, left by an interrupted run, is removed; its row is computed again.
    """
    whole = 0
    if path.exists():
        with open_file(path) as file:
            whole = sum(len(line) for line in file if line.endswith(b"\n"))
        os.truncate(path, whole)
    if not whole:
        _append(path, [header])
    (where, first), *lines = read_lines(path)
    checked_header(where, first)
    check_same_run(path, header, first)
    return [first, *(entry for _, entry in lines)]


def append_entries(path: Path, entries: Iterable[JSON]) -> None:
    """Write entries to a result file, with six digits of every number."""
    _append(path, (map_leaves(_rounded, entry) for entry in entries))


def _append(path: Path, lines: Iterable[JSON]) -> None:
    text = "".join(map(sealed, lines))
    with path.open("ab") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to every value of nested JSON that is no object and no list."""
    if isinstance(value, dict):
        return {key: map_leaves(function, part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [map_leaves(function, part) for part in value]
    return function(value)


def sealed(entry: Mapping[str, Any]) -> str:
    """Return a line for a file, with its digest."""
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
        try:
            entry = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise not_an_entry(where, repr(line[:40]))
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


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
