"""The folder of a run: what its files are called, and that nothing is lost in it."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile

from PIL import Image

from fcfg.errors import InputError, quoted
from fcfg.files import write_atomically


def output_names(paths: Sequence[Path]) -> list[str]:
    """A name for the outputs of each file: its stem, after its folder where stems are equal."""
    stems = [path.stem.casefold() for path in paths]
    names = [
        path.stem
        if stems.count(path.stem.casefold()) == 1
        else f"{path.resolve().parent.name}-{path.stem}"
        for path in paths
    ]
    written = [file.casefold() for name in names for file in output_files(name).values()]
    doubled = [
        str(path)
        for path, name in zip(paths, names, strict=True)
        if any(written.count(file.casefold()) > 1 for file in output_files(name).values())
    ]
    if doubled:
        raise InputError(
            "images",
            expected="files whose outputs have different names",
            got=quoted(doubled),
            do="rename them, or run them one after another into different folders",
        )
    return names


def output_files(name: str) -> dict[str, str]:
    """What is written of one picture.

    >>> output_files("anna")
    {'comparison': 'anna.png', 'counterfactual': 'anna-counterfactual.png'}
    """
    return {"comparison": f"{name}.png", "counterfactual": f"{name}-counterfactual.png"}


def record_file(shard: tuple[int, int]) -> str:
    """Where a run, or one of several processes that share it, says what it did.

    >>> record_file((0, 1)), record_file((1, 4))
    ('record.json', 'record-1-of-4.json')
    """
    number, count = shard
    return "record.json" if count == 1 else f"record-{number}-of-{count}.json"


def check_outputs(
    folder: Path, names: Sequence[str], record: str, inputs: Sequence[Path], *, overwrite: bool
) -> None:
    """Refuse to replace what exists, and inputs in any case.

    Args:
        folder: Where the outputs go.
        names: Of the outputs.
        record: The name of the record.
        inputs: The pictures, which nothing may replace.
        overwrite: Whether older outputs may be replaced.
    """
    files = [file for name in names for file in output_files(name).values()]
    planned = [folder / file for file in (*files, record)]
    existing = [path for path in planned if path.exists()]
    read = {path.resolve() for path in inputs}
    eaten = [str(path) for path in existing if path.resolve() in read]
    if eaten:
        raise InputError(
            f"out {folder}",
            expected="a folder other than that of the pictures",
            got=f"one where {quoted(eaten[:3])} would be replaced",
            do="choose another with --out",
        )
    if existing and not overwrite:
        more = f" and {len(existing) - 3} more" if len(existing) > 3 else ""
        raise InputError(
            f"out {folder}",
            expected="a folder without these outputs",
            got=f"{quoted(path.name for path in existing[:3])}{more}",
            do="choose another with --out, or replace them with --overwrite",
        )


def make_folder(folder: Path) -> None:
    """Make the folder, and see whether it can be written, before hours of work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"out {folder}",
            expected="a folder that can be written",
            got=error.strerror,
            do="choose another with --out",
        ) from error


def save(path: Path, picture: Image.Image) -> None:
    """Write a picture as PNG, whole or not at all."""
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    write_atomically(path, buffer.getvalue())
