"""Atomic writes, locks, file names and seeds."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcfg.support.files import file_name, remove_unfinished, write_atomically
from fcfg.support.hashing import stream_seed


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_bytes_or_what_a_function_writes_replace_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for before in (None, b"an older and longer one"):
        for data in (b"new", lambda file: file.write(b"new")):
            path.unlink(missing_ok=True) if before is None else path.write_bytes(before)
            write_atomically(path, data)
            assert path.read_bytes() == b"new"
            assert names(tmp_path) == ["file"]
            assert stat.S_IMODE(path.stat().st_mode) == 0o644  # others may read it, as any file


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
@pytest.mark.promise("A file is written whole or not at all")
def test_a_writer_that_fails_leaves_the_old_file_whole_and_nothing_else(tmp_path, error) -> None:
    (tmp_path / "file").write_bytes(b"old")
    seen: list[str] = []

    def write(file: BinaryIO) -> None:
        file.write(b"half of what")
        file.flush()
        seen.extend(names(tmp_path))
        assert (tmp_path / "file").read_bytes() == b"old"
        raise error

    with pytest.raises(type(error)):
        write_atomically(tmp_path / "file", write)
    assert len(seen) == 2  # it was written beside the old one
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]
    (tmp_path / "file").unlink()
    (tmp_path / "file" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "file", b"new")
    assert names(tmp_path) == ["file"]


def test_a_disk_without_room_names_the_file(tmp_path: Path) -> None:
    def write(file: BinaryIO) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as the system does: nameless

    for path in (tmp_path / "file", tmp_path / "missing" / "file"):
        with pytest.raises(OSError, match=f"'{path}'$") as caught:
            write_atomically(path, write)
        assert caught.value.filename == str(path)


def test_what_a_killed_process_had_begun_is_removed_and_nothing_else(tmp_path: Path) -> None:
    """A process that dies while it writes cannot tidy up; the next writer does."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from fcfg.support.files import write_atomically\n"
        "write_atomically(Path(sys.argv[1]), lambda file: os.kill(os.getpid(), 9))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "step-1.safetensors")]
    assert subprocess.run(command).returncode == -9
    assert len(names(tmp_path)) == 1
    kept = {"step-1.safetensors", ".lock", ".gitignore"}
    for name in kept:
        (tmp_path / name).write_bytes(b"whole")
    (tmp_path / ".cache-abcdefgh").mkdir()
    remove_unfinished(tmp_path)
    assert {*names(tmp_path)} == {*kept, ".cache-abcdefgh"}


TEXTS = st.text("aAäÄßıİſ1:/\\.-_= \n\0日😀")  # all of Unicode would be looked up for seconds


@given(st.sets(st.lists(TEXTS, min_size=1, max_size=3).map(tuple), min_size=2, max_size=9))
def test_other_words_are_another_file_and_a_legal_one(words: set[tuple[str, ...]]) -> None:
    """Also where large and small letters are the same, and where names are short and ASCII."""
    names = {file_name(*some) for some in words}
    assert len({name.lower() for name in names}) == len(words)
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9.+-]{1,80}", name), name
        assert not name.startswith(".")
    long = ",".join(f"finding of the lung, number {number}=1.0" for number in range(14))
    assert file_name("reversed", f"fcfg:{long}").startswith("reversed-fcfg-finding-of-the-lu")


def test_streams_are_the_same_everywhere_and_differ_by_every_part() -> None:
    assert stream_seed(0, "age") == 3986087213095925274  # or no run could go on
    parts = [(0, "a"), (0, "b"), (1, "a"), (0, "a", 0), (0, "a", 1), ("0a",), (0,)]
    assert len({stream_seed(*part) for part in parts}) == len(parts)
    assert all(0 <= stream_seed(seed) < 2**63 for seed in range(100))
