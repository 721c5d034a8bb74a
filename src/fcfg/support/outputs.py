"""Output files of commands, which never replace files of others by accident.

A command replaces a file only if it wrote that file itself, for the same subject, and the file has
not changed since. A hidden list in the folder records this. ``--overwrite`` replaces any file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from fcfg.support.errors import InputError, quoted
from fcfg.support.files import write_atomically
from fcfg.support.hashing import hex_digest

LIST = ".fcfg-outputs.json"  # records the writer of each file
_SHOWN = 3  # names in one message


@dataclass(frozen=True)
class Outputs:
    """The files that one command writes to a folder.

    Args:
        folder: Folder to write to; it is made if it is missing.
        command: Name of the command, such as 'report'.
        subject: Identity of the subject of the files, such as a digest of a run.
        overwrite: Whether to replace files of others.
    """

    folder: Path
    command: str
    subject: str
    overwrite: bool = False

    def check(self, names: Iterable[str]) -> None:
        """Refuse to replace files of others."""
        check_folder(self.folder)
        if self.overwrite:
            return
        known = self._read_list()
        foreign = [name for name in names if self._is_foreign(name, known)]
        if foreign:
            raise already_there(self.folder, foreign)

    def write(self, files: Mapping[str, bytes]) -> list[Path]:
        """Write files atomically, after :meth:`check`.

        Returns:
            Paths of the files.
        """
        self.check(files)
        make_folder(self.folder)
        known = self._read_list()
        new = {name: self._entry([hex_digest(data)]) for name, data in files.items()}
        # If this process is killed, both the old and the new contents count as ours.
        both = {
            name: self._entry([*entry["digests"], *known.get(name, {}).get("digests", [])])
            for name, entry in new.items()
        }
        self._write_list(known | both)
        for name, data in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, data)
        self._write_list(known | new)
        return [self.folder / name for name in files]

    def _is_foreign(self, name: str, known: Mapping[str, Mapping[str, Any]]) -> bool:
        path = self.folder / name
        if not os.path.lexists(path):
            return False
        if not path.is_file() or path.is_symlink():
            return True
        entry = known.get(name, {})
        ours = (entry.get("command"), entry.get("subject")) == (self.command, self.subject)
        return not ours or hex_digest(path.read_bytes()) not in entry["digests"]

    def _entry(self, digests: list[str]) -> dict[str, Any]:
        return {"command": self.command, "subject": self.subject, "digests": digests}

    def _read_list(self) -> dict[str, dict[str, Any]]:
        """Return entries by file name; none if the list is missing or not one of ours."""
        try:
            entries = json.loads((self.folder / LIST).read_bytes())["files"]
            return {
                name: {
                    "command": entry["command"],
                    "subject": entry["subject"],
                    "digests": list(entry["digests"]),
                }
                for name, entry in entries.items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def _write_list(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        write_atomically(self.folder / LIST, json.dumps({"files": entries}, indent=1).encode())


def already_there(folder: Path, names: list[str]) -> InputError:
    """Return the error for a folder with files that would be replaced."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return InputError(
        f"out {folder}",
        expected="a folder without these files",
        got=f"{quoted(names[:_SHOWN])}{more}",
        do="choose another folder, or replace them with --overwrite",
    )


def check_folder(folder: Path) -> None:
    """Refuse a path that is, or leads through, something other than a folder."""
    paths = (folder, *folder.absolute().parents)
    existing = next(path for path in paths if os.path.lexists(path))
    if not existing.is_dir():
        raise _unusable(folder, f"the file {existing}")


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
    return InputError(
        f"out {folder}",
        expected="a folder that can be written",
        got=got,
        do="choose another folder",
    )
