"""Files written whole or not at all, and by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fcfg.support.errors import InputError
from fcfg.support.hashing import hex_digest


def write_atomically(path: Path, data: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file so that its name never stands for a part of it, whenever the power fails.

    Args:
        path: In a folder that exists.
        data: The contents, or a function that writes them.
    """
    with naming(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                if callable(data):
                    data(file)
                else:
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
            folder = os.open(path.parent, os.O_RDONLY)  # the rename itself must last, too
            os.fsync(folder)
            os.close(folder)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Let an error of the system name the file: that of a full disk says nothing of it.

    Args:
        path: File that is written.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:  # no system's
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files, and their folders where nothing else lies in them.

    Args:
        paths: The files; one that is missing is no cause for alarm.
    """
    folders: set[Path] = set()
    for path in paths:
        path.unlink(missing_ok=True)
        folders.add(path.parent)
    for folder in folders:
        if not any(folder.iterdir()):
            folder.rmdir()


def file_name(*words: str) -> str:
    """A short and legal name for a file, another one for other words; without a suffix.

    Plain words are the name themselves; others are cut short to be read, and told apart by a
    digest of all of them.

    >>> file_name("truth-male")
    'truth-male'
    >>> file_name("smiling", "cfg:3.0"), file_name("smiling cfg", "3.0")
    ('smiling-cfg-3.0-699e2665bc4d', 'smiling-cfg-3.0-f0fd255f2b76')

    Args:
        words: Whatever texts, such as names of attributes.
    """
    if len(words) == 1 and re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,79}", words[0]):
        return words[0]  # in small letters, since some systems do not tell them from large ones
    readable = re.sub(r"[^A-Za-z0-9.+-]+", "-", " ".join(words))[:40].strip("-.")
    return f"{readable}-{hex_digest(json.dumps(words), size=6)}"


def remove_unfinished(folder: Path) -> None:
    """Remove what :func:`write_atomically` had begun in a folder when its process was killed.

    Args:
        folder: That nobody else writes to now.
    """
    for path in folder.glob(".*"):
        if re.fullmatch(r"\..+-[a-z0-9_]{8}", path.name) and path.is_file():
            path.unlink()


@contextmanager
def single_writer(folder: Path, name: str = "lock", *, wait: bool = False) -> Generator[None]:
    """Hold a run's folder for this process alone; the system lets go of it at any death.

    Args:
        folder: Of the run; it exists.
        name: Of the file that says who holds it.
        wait: For whoever holds it, instead of refusing.
    """
    path = folder / name
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            holder = path.read_text("utf-8").strip() or "another process"
            raise InputError(
                f"run {folder}",
                expected="a folder that no other process is writing to",
                got=f"one held by {holder}",
                do="wait for it, stop it, or choose another --out",
            ) from error
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        os.close(handle)
