"""Hostile inputs, and the law that they must meet.

An input is a valid one with mutations: of its structure (keys, cells, words), and of its bytes. It
is accepted or refused by a line; it never raises another error, hangs, takes much memory, or
changes a file that was there.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hypothesis import strategies as st

from fcfg.support.errors import InputError

Outcome = Literal["accepted", "refused", "stopped"]
SECONDS = 60.0  #: of one input
MEGABYTES = 512  #: that the memory of the process may grow for one input
LONGEST = 5000  #: characters of a refusal

TEXTS = (
    *("", " ", "\0", "\n", "\r\n", "\x1b]0;x\x07", "\u202eabc", "\u2028", "\ud800", "\ufeff"),
    *("é" * 300, "x" * 70_000, "9" * 5000, "-1", "0", "1", "1e999", "nan", "-inf", "0x10", "1_0"),
    *(
        "../../x",
        "/dev/zero",
        "/dev/full",
        "/dev/stdin",
        "/nonexistent/x",
        ".",
        "~",
        "~nobody/x",
        "con",
        "*",
    ),
    *("con", "*", "=", ";", ",", ":", "+", "%", "{}", "[" * 3000, "&a [*a]", "'", '"', "\\", "--"),
    *("hf://a/b", "hf://me/tiny@../x", "!!python/object/apply:os.system [ls]", "true", "null"),
    *(
        "portraits",
        "smiling",
        "flip",
        "cfg:1e308",
        "ddim uniform 1",
        "<script>",
        "\N{ARABIC LETTER ALEF}",
    ),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.5, -0.0, 2**31, 2**63, 10**30, -(10**18), 1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), [], {}, [[]], {"": ""}, [None], {"kind": "x"}),
    *TEXTS,
)
BYTES = (
    *(b"\0", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xff" * 4, b"\0" * 64, b"\x7f\xff\xff\xff"),
    *(
        b"\xed\xa0\x80",
        b"\r",
        b"\n\n",
        b'"',
        b"\x1b[2J",
        b"{" * 3000,
        b"[" * 100_000,
        b"- " * 3000,
    ),
    *(b"\x1f\x8b\x08\x00", b"9" * 5000, b"NaN", b"1e999", b"&a *a", b"\t", b"x" * 2**21),
)


@dataclass(frozen=True)
class Mutation:
    """One change, at some place of whatever is changed."""

    where: int
    how: int
    what: int


@dataclass(frozen=True)
class Given:
    """A hostile input of any door."""

    base: int  #: number of the valid input
    parts: tuple[Mutation, ...]  #: of its structure
    raw: tuple[Mutation, ...]  #: of its bytes


_ANY = st.integers(0, 2**16)
_MUTATION = st.builds(Mutation, _ANY, _ANY, _ANY)


def _some(most: int) -> st.SearchStrategy[tuple[Mutation, ...]]:
    return st.lists(_MUTATION, max_size=most).map(tuple)


#: Half of the inputs have whole bytes, and a structure that is wrong in up to three places.
GIVEN = st.builds(Given, _ANY, _some(3), st.one_of(st.just(()), _some(2)))


def mutated_text(text: str, mutation: Mutation) -> str:
    place, other = mutation.where % (len(text) + 1), TEXTS[mutation.what % len(TEXTS)]
    ways: tuple[Callable[[], str], ...] = (
        lambda: other,
        lambda: text[:place] + other + text[place:],
        lambda: text[:place] + text[place + 1 :],
        lambda: text[:place] + text[place : place + 1] * 2 + text[place + 1 :],
        lambda: text[:place],
        text.swapcase,
        lambda: text * min(1 + mutation.what % 500, 1 + 20_000 // (len(text) + 1)),
    )
    return ways[mutation.how % len(ways)]()


def mutated_bytes(data: bytes, mutations: Iterable[Mutation]) -> bytes:
    for each in mutations:
        place, other = each.where * len(data) // 2**16, BYTES[each.what % len(BYTES)]
        length = 1 + each.what % 64
        ways = (
            data[:place],
            data[:place]
            + bytes([data[place] ^ 1 << each.what % 8] if data[place:] else [0])
            + data[place + 1 :],
            data[:place] + other + data[place:],
            data[:place] + other + data[place + len(other) :],
            data[:place] + data[place + length :],
            data[:place] + data[place : place + length] * 2 + data[place + length :],
            data[:place] + each.what.to_bytes(4, "little") * 2 + data[place + 8 :],
        )
        data = ways[each.how % len(ways)]
    return data


def mutated_tree(tree: Any, mutations: Iterable[Mutation]) -> Any:
    """A copy of nested mappings and lists with other keys and values."""
    root = [deepcopy(tree)]
    for each in mutations:
        spots = [*_spots(root)]
        parent, key = spots[each.where % len(spots)]
        value, other = parent[key], deepcopy(VALUES[each.what % len(VALUES)])
        away, name = spots[each.what % len(spots)]
        way = each.how % 8
        if way == 0 and parent is not root:
            del parent[key]
        elif way == 1 and isinstance(parent, list):
            parent.insert(key, deepcopy(value))
        elif way in (1, 2) and isinstance(parent, dict):
            kept = value if way == 1 else parent.pop(key)
            parent[mutated_text(key, each)] = deepcopy(kept)
        elif way == 3:
            parent[key] = _blown_up(value)
        elif way == 4:
            for _ in range(60):
                value = [value]
            parent[key] = value
        elif way == 5 and isinstance(value, str):
            parent[key] = mutated_text(value, each)
        elif way == 6:
            parent[key] = deepcopy(away[name])
        else:
            parent[key] = other
    return root[0]


def _spots(parent: Any) -> Generator[tuple[Any, Any]]:
    keys = parent if isinstance(parent, dict) else range(len(parent))
    for key in keys:
        yield parent, key
        if isinstance(parent[key], dict | list):
            yield from _spots(parent[key])


def _blown_up(value: Any) -> Any:
    if isinstance(value, str):
        return value * (20_000 // (len(value) + 1) + 1)
    if isinstance(value, list):
        return value * (300 // (len(value) + 1) + 1)
    if isinstance(value, dict):
        return value | {f"key {number}": 1 for number in range(300)}
    return value if value is None else value * 10**9 + 1


def mutated_rows(rows: list[list[str]], mutations: Iterable[Mutation]) -> list[list[str]]:
    """A copy of a table with other rows, columns and cells."""
    rows = [list(row) for row in rows]
    for each in mutations:
        if not rows or not rows[0]:
            break
        row, column = each.where % len(rows), each.where // 64 % len(rows[0])
        way = each.how % 7
        if way == 0:
            del rows[row]
        elif way == 1:
            rows.insert(row, list(rows[row]))
        elif way == 2:
            for one in rows:
                del one[column : column + 1]
        elif way == 3:
            for one in rows:
                one[column:column] = one[column : column + 1]
        elif way == 4:
            rows[row] = (rows[row] * (1 + each.what % 300))[:5000]
        else:  # most of all one cell, often of the header
            row = 0 if way == 5 else row
            cell = rows[row][column : column + 1] or [""]
            rows[row][column : column + 1] = [mutated_text(cell[0], each)]
    return rows


def mutated_words(words: list[str], mutations: Iterable[Mutation]) -> list[str]:
    """A copy of the words of a command with others; none leads out of the folder by its root."""
    words = list(words)
    for each in mutations:
        place = each.where % len(words) if words else 0
        way, part = each.how % 8, each.how // 8
        if way == 0:
            del words[place : place + 1]
        elif way == 1:
            words[place:place] = words[place : place + 1]
        elif way == 2:
            words.insert(place, TEXTS[each.what % len(TEXTS)])
        elif way == 3 and words:
            other = each.what % len(words)
            words[place], words[other] = words[other], words[place]
        elif words:
            words[place] = mutated_text(words[place], Mutation(each.where // 64, part, each.what))
    return [
        word for word in words if word in TEXTS or not word.lstrip("-").startswith(("/", "out=/"))
    ]


def as_json(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")


# The law -----------------------------------------------------------------------------------------


class Broken(AssertionError):
    """The law, broken by an input."""


def outcome(enter: Callable[[], Outcome | None]) -> Outcome:
    """What becomes of an input; raises whatever is neither accepted nor refused."""
    with limited(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return enter() or "accepted"
        except InputError as error:
            check_line(str(error))
            return "refused"


def check_line(line: str) -> None:
    """One line, which no terminal takes for a command."""
    if not line.isprintable() or not 0 < len(line) <= LONGEST:
        raise Broken(f"a refusal of {len(line)} characters: {ascii(line)[:300]}")


@contextmanager
def limited(seconds: float = SECONDS) -> Generator[None]:
    """An end after some time, by Ctrl-C, and of memory."""
    before = _PEAK[0] = _PEAK[0] or _peak()
    is_timed = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    if is_timed:
        old = signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        if is_timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
    _PEAK[0] = _peak()
    if _PEAK[0] - before > MEGABYTES:
        raise Broken(f"{_PEAK[0] - before} MB of memory")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("too long")


_PEAK = [0]  # after the input before


def _peak() -> int:
    """Most megabytes that this process ever had."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@dataclass(frozen=True)
class Treasure:
    """Files that nothing may change or remove."""

    folder: Path
    stamps: dict[str, tuple[int, int, int]]

    @classmethod
    def of(cls, folder: Path) -> Treasure:
        return cls(folder, dict(_stamps(folder)))

    def check(self) -> None:
        """Refuse losses, and remove what is new."""
        now = dict(_stamps(self.folder))
        lost = {name for name, stamp in self.stamps.items() if now.get(name) != stamp}
        for name in sorted(now.keys() - self.stamps.keys(), reverse=True):
            path = self.folder / name
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        if lost:
            raise Broken(f"lost or changed: {sorted(lost)}")


def _stamps(folder: Path) -> Generator[tuple[str, tuple[int, int, int]]]:
    for root, folders, files in os.walk(folder):
        for name in folders:
            yield os.path.relpath(os.path.join(root, name), folder), (0, 0, 0)
        for name in files:
            path = os.path.join(root, name)
            found = os.lstat(path)
            stamp = found.st_size, found.st_mtime_ns, found.st_ino
            yield os.path.relpath(path, folder), stamp
