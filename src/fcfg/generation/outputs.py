"""The folder of a run: what its files are called, and that nothing is lost in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from fcfg.support.errors import InputError, quoted
from fcfg.support.files import write_atomically
from fcfg.support.images import to_png
from fcfg.support.outputs import check_folder


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


def check_inputs_are_kept(
    folder: Path, names: Sequence[str], record: str, inputs: Sequence[Path]
) -> None:
    """Refuse a folder where outputs would replace the pictures they are made from.

    Args:
        folder: Folder of the outputs.
        names: Names of the outputs.
        record: Name of the record.
        inputs: The pictures.
    """
    check_folder(folder)
    files = [file for name in names for file in output_files(name).values()]
    planned = [folder / file for file in (*files, record)]
    read = {path.resolve() for path in inputs}
    eaten = [str(path) for path in planned if path.resolve() in read]
    if eaten:
        raise InputError(
            f"out {folder}",
            expected="a folder other than that of the pictures",
            got=f"one where {quoted(eaten[:3])} would be replaced",
            do="choose another with --out",
        )


def save(path: Path, picture: Image.Image) -> None:
    """Write a picture as PNG, whole or not at all."""
    write_atomically(path, to_png(picture))
