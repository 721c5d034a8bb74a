"""Atomic writes, and locks for one writer at a time."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from fcfg.support.errors import InputError
from fcfg.support.hashing import hex_digest
from fcfg.support.names import is_portable


def write_atomically(path: Path, data: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file completely or not at all, even if the power fails."""
    with naming(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                data(file) if callable(data) else file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
            if sys.platform != "win32":  # where folders cannot be opened
                folder = os.open(path.parent, os.O_RDONLY)  # makes the rename durable
                os.fsync(folder)
                os.close(folder)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Add the path to system errors, since that of a full disk does not name a file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not from the system
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files, which may be missing, and their folders if these become empty."""
    found = list(paths)
    for path in found:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in found}:
        if not any(folder.iterdir()):
            folder.rmdir()


def file_name(*words: str) -> str:
    """Return a short, legal and unique file name for some words, without a suffix.

    A plain word is its own name; other words are shortened and followed by a digest.

    >>> file_name("truth-male")
    'truth-male'
    >>> file_name("smiling", "cfg:3.0"), file_name("smiling cfg", "3.0")
    ('smiling-cfg-3.0-699e2665bc4d', 'smiling-cfg-3.0-f0fd255f2b76')
    """
    plain = len(words) == 1 and re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,79}", words[0])
    if plain and is_portable(words[0]):
        return words[0]  # lower case only, since some file systems ignore case
    readable = re.sub(r"[^A-Za-z0-9.+-]+", "-", " ".join(words))[:40].strip("-.")
    return f"{readable}-{hex_digest(json.dumps(words), size=6)}"


def remove_unfinished(folder: Path) -> None:
    """Remove temporary files of :func:`write_atomically` that a killed process left behind."""
    for path in folder.glob(".*"):
        if re.fullmatch(r"\..+-[a-z0-9_]{8}", path.name) and path.is_file():
            path.unlink()


@contextmanager
def single_writer(folder: Path, name: str = "lock", *, wait: bool = False) -> Generator[None]:
    """Lock a folder for this process; the system releases the lock when the process ends."""
    path, holder = folder / name, folder / f"{name}.holder"
    try:
        held = FileLock(path, timeout=-1 if wait else 0).acquire()
    except Timeout as error:
        by = holder.read_text("utf-8").strip() if holder.exists() else "another process"
        expected, got = "a folder that no other process is writing to", f"one held by {by}"
        do = "wait for it, stop it, or choose another --out"
        raise InputError(f"run {folder}", expected=expected, got=got, do=do) from error
    with held:
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", "utf-8")
        try:
            yield
        finally:
            holder.unlink(missing_ok=True)
