"""Pictures of the first images of a run: files, and an index of them for reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from fcfg.support.files import file_name, remove_files, write_atomically
from fcfg.support.images import to_pictures

PICTURES = "pictures"
INDEX = f"{PICTURES}/index.json"
_LONGEST = 2**25  # bytes of an index
_NO_INDEX = (OSError, ValueError, KeyError, TypeError)


def remove_pictures(folder: Path) -> None:
    """Remove the pictures that an evaluation wrote, as its index names them."""
    try:
        names = {Path(path).name for path in _all_paths(read_index(folder))}
    except _NO_INDEX:
        return  # not an index that an evaluation wrote
    index = folder / INDEX
    remove_files([*(index.with_name(name) for name in names), index])


class PictureFiles:
    """Writes pictures and keeps their index."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder, self.names = folder / PICTURES, names
        empty: dict[str, Any] = {"images": list(names), "factual": [], "rows": [], "truth": []}
        try:
            index = read_index(folder)
            _all_paths(index)
        except _NO_INDEX:  # all pictures are made again
            index = empty
        self._index = index if index.get("images") == list(names) or not names else empty

    def lack(self, part: str, **question: str) -> bool:
        """Return whether pictures of a part, or of a question in it, are missing."""
        if part == "factual":
            paths = self._index[part]
        else:
            entries = [e for e in self._index[part] if question.items() <= e.items()]
            paths = [path for entry in entries for path in _paths(entry)]
        return not paths or not all((self.folder / Path(path).name).is_file() for path in paths)

    def factual(self, images: Float[Tensor, "image channel height width"]) -> None:
        """Keep the factual images."""
        self._index["factual"] = self._write(images, "factual")
        self._save()

    def truth(self, do: str, images: Float[Tensor, "image channel height width"]) -> None:
        """Keep the true counterfactuals of an intervention."""
        self._replace("truth", {"do": do}, counterfactual=self._write(images, "truth", do))

    def answer(
        self,
        do: str,
        guidance: str,
        images: Float[Tensor, "image channel height width"],
        reversed_images: Float[Tensor, "image channel height width"] | None,
    ) -> None:
        """Keep counterfactuals, and their reversals if there are any."""
        self._replace(
            "rows",
            {"do": do, "guidance": guidance},
            counterfactual=self._write(images, "answer", do, guidance),
            reversed=None
            if reversed_images is None
            else self._write(reversed_images, "reversed", do, guidance),
        )

    def _write(
        self, images: Float[Tensor, "image channel height width"], *words: str
    ) -> list[str]:
        self.folder.mkdir(exist_ok=True)
        name = file_name(*words)
        paths = [f"{PICTURES}/{name}-{number}.png" for number in range(len(self.names))]
        for path, picture in zip(paths, to_pictures(images[: len(self.names)]), strict=True):
            target = self.folder.parent / path
            write_atomically(target, lambda file, picture=picture: picture.save(file, "PNG"))
        return paths

    def _replace(self, part: str, question: dict[str, str], **paths: list[str] | None) -> None:
        others = [e for e in self._index[part] if not question.items() <= e.items()]
        self._index[part] = [*others, question | paths]
        self._save()

    def _save(self) -> None:
        write_atomically(self.folder.parent / INDEX, json.dumps(self._index, indent=1).encode())


def read_index(folder: Path) -> dict[str, Any]:
    """Read the index of the pictures of a run.

    Raises:
        OSError: The index is missing or cannot be read.
        ValueError: The file is not an index.
    """
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(path)
    with path.open("rb") as file:
        data = file.read(_LONGEST + 1)
    try:
        index = json.loads(data) if len(data) <= _LONGEST else None
    except RecursionError as error:
        raise ValueError("brackets nested too deeply") from error
    if not isinstance(index, dict):
        raise ValueError("no object" if len(data) <= _LONGEST else "too long")
    return index


def _all_paths(index: dict[str, Any]) -> list[str]:
    entries = (*index["rows"], *index["truth"])
    return [*index["factual"], *(path for entry in entries for path in _paths(entry))]


def _paths(entry: dict[str, Any]) -> list[str]:
    return [*entry["counterfactual"], *(entry.get("reversed") or ())]
