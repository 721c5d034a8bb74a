"""Output files of commands, which never replace files of others by accident.

A command replaces a file only if it wrote that file itself, for the same subject, and the file has
not changed since. A hidden list in the folder records this. ``--overwrite`` replaces any file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from pydantic import BaseModel, TypeAdapter

from fcfg.support.errors import InputError, listed
from fcfg.support.files import write_atomically
from fcfg.support.hashing import hex_digest

LIST = ".fcfg-outputs.json"  # records the writer of each file


class _Entry(BaseModel, frozen=True):
    """Who wrote a file, and what: both contents, if it was killed while it replaced one."""

    command: str
    subject: str
    digests: tuple[str, ...]


_FILES = TypeAdapter(dict[str, _Entry])


@dataclass(frozen=True)
class Outputs:
    """The files that one command writes to a folder."""

    folder: Path  #: made if it is missing
    command: str  #: name of the command, such as 'report'
    subject: str  #: identity of the subject of the files, such as a digest of a run
    overwrite: bool = False  #: whether to replace files of others

    def check(self, names: Iterable[str]) -> None:
        """Refuse to replace files of others."""
        check_folder(self.folder)
        known = self._read_list()
        foreign = [name for name in names if self._is_foreign(name, known.get(name))]
        if foreign and not self.overwrite:
            raise already_there(self.folder, foreign)

    def write(self, files: Mapping[str, bytes]) -> list[Path]:
        """Write files atomically, after :meth:`check`, and return their paths."""
        self.check(files)
        make_folder(self.folder)
        known = self._read_list()
        new = {name: self._entry(hex_digest(data)) for name, data in files.items()}
        # If this process is killed, both the old and the new contents count as ours.
        old = {name: known[name].digests if name in known else () for name in new}
        both = {name: self._entry(*entry.digests, *old[name]) for name, entry in new.items()}
        self._write_list(known | both)
        for name, data in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, data)
        self._write_list(known | new)
        return [self.folder / name for name in files]

    def _is_foreign(self, name: str, entry: _Entry | None) -> bool:
        path = self.folder / name
        if entry is None or path.is_symlink() or not path.is_file():
            return os.path.lexists(path)
        is_ours = entry == self._entry(*entry.digests)
        return not is_ours or hex_digest(path.read_bytes()) not in entry.digests

    def _entry(self, *digests: str) -> _Entry:
        return _Entry(command=self.command, subject=self.subject, digests=digests)

    def _read_list(self) -> dict[str, _Entry]:
        """Return entries by file name; none if the list is missing or not one of ours."""
        try:
            return _FILES.validate_json((self.folder / LIST).read_bytes())
        except (OSError, ValueError):
            return {}

    def _write_list(self, entries: dict[str, _Entry]) -> None:
        write_atomically(self.folder / LIST, _FILES.dump_json(entries, indent=1))


def already_there(folder: Path, names: list[str]) -> InputError:
    """Return the error for a folder with files that would be replaced."""
    expected, got = "a folder without these files", listed(names, shown=3)
    do = "choose another folder, or replace them with --overwrite"
    return InputError(f"out {folder}", expected=expected, got=got, do=do)


def others_in(folder: Path, own: Collection[str], *beginnings: str) -> str:
    """Say what a folder holds beside files of one's own, which stay; nothing if that is none."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    others = [n for n in names if n not in own and not n.startswith((".", *beginnings))]
    said = f"{folder} holds files of others, which stay as they are: {listed(others, shown=3)}"
    return said if others else ""


def check_same(
    subject: str, there: Mapping[str, Any], asked: Mapping[str, Any], *, do: str
) -> None:
    """Refuse what differs from the JSON values of a run that is there, naming the first part."""
    for key in {**there, **asked}:
        if there.get(key) != asked.get(key):
            name, old, new = _difference(key, there.get(key), asked.get(key))
            expected, got = f"one run ({name}: {old})", f"another one ({name}: {new})"
            raise InputError(subject, expected=expected, got=got, do=do)


def _difference(name: str, one: Any, other: Any) -> tuple[str, str, str]:
    """Return the first part in which two JSON values differ: its name, and both as short texts."""
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


def check_folder(folder: Path) -> None:
    """Refuse a path that no folder has, or that leads through something other than a folder."""
    try:
        os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # too long a name, or a NUL
        raise _unusable(folder, getattr(error, "strerror", None) or error) from error
    paths = (folder, *folder.absolute().parents)
    existing = next(path for path in paths if os.path.lexists(path))
    if not existing.is_dir():
        raise _unusable(folder, f"the file {existing}")


def check_file(path: Path, *, overwrite: bool) -> None:
    """Refuse to replace a file, unless that is wanted, and a path that is or leads elsewhere."""
    check_folder(path.parent)
    if path.is_dir() or (os.path.lexists(path) and not overwrite):
        raise already_there(path.parent, [path.name])


def make_folder(folder: Path) -> None:
    """Make a folder, and check that it can be written to."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unusable(folder, error.strerror) from error


def _unusable(folder: Path, got: object) -> InputError:
    expected, do = "a folder that can be written", "choose another folder"
    return InputError(f"out {folder}", expected=expected, got=got, do=do)
