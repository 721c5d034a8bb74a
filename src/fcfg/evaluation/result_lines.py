"""Lines of a result file: whole, of a bounded length, and as they were written.

Files are read line by line, so that a file that is no result file, or one that unpacks to more
than any run writes, is refused before it fills the memory. Each line ends with a ``check``, a
digest of the rest, by which a line that was changed later is noticed; older files have none.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from fcfg.support.errors import InputError, quoted
from fcfg.support.hashing import hex_digest

JSON: TypeAlias = dict[str, Any]
#: Bytes of one line, and of a file: a header of a million images, and two million rows.
LONGEST, MOST = 2**25, 2**31
_CHECK = "check"
#: What every line has, by its kind; a header is checked once its schema is known.
FIELDS = {
    "run": (),
    "real": ("image", "attributes", "scores", "factors"),
    "row": (
        *("do", "guidance", "image", "target", "scores", "factors"),
        *("change", "reversal", "truth", "evaluations", "seconds"),
    ),
    "distance": ("do", "guidance", "metric", "value", "n"),
}


def opened(file: Path) -> IO[bytes]:
    """A result file, unpacked as it is read where ``gzip`` made it small.

    Args:
        file: A regular file; a device or a pipe may have no end, and is refused.
    """
    if not file.is_file():
        raise InputError(
            f"result file {file}",
            expected="a regular file",
            got="a folder" if file.is_dir() else "a device or a pipe",
            do="give a file that 'fcfg evaluate' wrote",
        )
    return cast("IO[bytes]", gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def read_lines(file: Path, *, unfinished: bool = False) -> Iterator[tuple[str, JSON]]:
    """Every line as an object, with the words by which a refusal names it.

    Args:
        file: The file.
        unfinished: Leave out what is behind the last whole line; then there may be none.
    """
    is_sealed = False
    for number, line in _whole_lines(file, unfinished):
        where = f"result file {file}, line {number}"
        entry = _parsed(where, line)
        is_run = entry.get("kind") == "run"
        if number == 1 and not is_run:
            raise _no_header(file, repr(line[:40]))
        is_sealed = _CHECK in entry if is_run else is_sealed
        if _CHECK in entry or is_sealed:
            found = entry.pop(_CHECK, None)
            if found != _digest(json.dumps(entry)):
                raise InputError(
                    where,
                    expected="what was written here, of which it has a digest",
                    got="something else" if found else "a line without one",
                    do="take it from a copy; or remove the line, and run the same 'fcfg evaluate' "
                    "again, which computes it anew",
                )
        yield where, entry


def _whole_lines(file: Path, unfinished: bool) -> Iterator[tuple[int, str]]:
    number = total = 0
    try:
        with opened(file) as stream:
            while line := stream.readline(LONGEST + 1):
                number, total = number + 1, total + len(line)
                if len(line) > LONGEST or total > MOST:
                    raise InputError(
                        f"result file {file}",
                        expected=f"lines of at most {LONGEST >> 20} MiB, and {MOST >> 30} GiB in "
                        "all",
                        got="more",
                        do="give a file that 'fcfg evaluate' wrote",
                    )
                if not line.endswith(b"\n"):
                    if unfinished:
                        return
                    raise InputError(
                        f"result file {file}",
                        expected="whole lines",
                        got="a last line that is half written",
                        do="run the same 'fcfg evaluate' again: it goes on where it was stopped",
                    )
                yield number, line.decode("utf-8", "replace")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"result file {file}",
            expected="what gzip makes of a result file",
            got=str(error),
            do="pack it again",
        ) from error
    if number == 0 and not unfinished:
        raise _no_header(file, "an empty file")


def _no_header(file: Path, got: str) -> InputError:
    return InputError(
        f"result file {file}",
        expected="a header in its first line",
        got=got,
        do="give a file that 'fcfg evaluate' wrote",
    )


def _parsed(where: str, line: str) -> JSON:
    try:
        entry = json.loads(line, parse_constant=_no_number)
        if isinstance(entry, dict):
            return entry
        got = repr(line[:40])
    except ValueError:
        got = repr(line[:40])
    except RecursionError:
        got = "brackets within brackets, too many of them"
    raise no_entry(where, got)


def _no_number(name: str) -> float:
    raise ValueError(name)


def no_entry(where: str, got: str) -> InputError:
    """What is said of a line that is none.

    Args:
        where: The line.
        got: What came instead.
    """
    return InputError(
        where,
        expected=f"a JSON object of kind {', '.join(FIELDS)}, with all its fields",
        got=got,
        do="remove this line, and run the same 'fcfg evaluate' again",
    )


def check_fields(where: str, entry: Mapping[str, Any]) -> None:
    """Refuse a line of an unknown kind, or without all its fields.

    Args:
        where: The line.
        entry: What it says.
    """
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise no_entry(where, f"the kind {kind!r}" if kind else "an object without a kind")
    lacking = [name for name in FIELDS[kind] if name not in entry]
    if lacking:
        raise no_entry(where, f"a {kind} without {quoted(lacking)}")


def sealed(entry: Mapping[str, Any]) -> str:
    r"""A line for a file, with its digest.

    >>> sealed({"kind": "real"})
    '{"kind": "real", "check": "16839f3a84c1"}\n'

    Args:
        entry: What it says: finite numbers, texts, lists and mappings of them.
    """
    text = json.dumps(entry, allow_nan=False)
    return json.dumps({**entry, _CHECK: _digest(text)}) + "\n"


def _digest(text: str) -> str:
    return hex_digest(text, size=6)
