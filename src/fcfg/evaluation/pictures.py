"""Pictures of the first images of a run, for the eye: files, and an index of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from fcfg.support.files import file_name, remove_files, write_atomically
from fcfg.support.images import to_pictures

PICTURES = "pictures"
INDEX = f"{PICTURES}/index.json"  # which file shows what, for reports
_LONGEST = 2**25  # bytes of an index


def remove_pictures(folder: Path) -> None:
    """Remove the pictures that an evaluation wrote to its folder, as its index names them.

    Args:
        folder: Folder of the run.
    """
    try:
        index = read_index(folder)
        answers = [path for entry in (*index["rows"], *index["truth"]) for path in _paths(entry)]
        names = {Path(path).name for path in (*index["factual"], *answers)}
    except (OSError, ValueError, KeyError, TypeError):
        return  # not an index that an evaluation wrote
    place = folder / INDEX
    remove_files([*(place.with_name(name) for name in names), place])


class PictureFiles:
    """Writes pictures and keeps the index, which a report reads.

    Args:
        folder: Of the run.
        names: Of the images that are shown.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder, self.names = folder / PICTURES, names
        empty: dict[str, Any] = {"images": list(names), "factual": [], "rows": [], "truth": []}
        try:
            index = read_index(folder)
            answers = [path for e in (*index["rows"], *index["truth"]) for path in _paths(e)]
            uses = Counter([*index["factual"], *answers])
        except (OSError, ValueError, KeyError, TypeError):  # none, or no index: all is made again
            index, uses = empty, Counter[str]()
        self._index = index if index.get("images") == list(names) or not names else empty
        self._shared = {path for path, count in uses.items() if count > 1}

    def lack(self, part: str, **asked: str) -> bool:
        """Whether pictures are to be made: they are not there, or others bear their name.

        Args:
            part: 'factual', 'rows' or 'truth'.
            asked: Intervention and guidance, as far as they are of one.
        """
        if part == "factual":
            paths = self._index[part]
        else:
            entries = [e for e in self._index[part] if asked.items() <= e.items()]
            paths = [path for entry in entries for path in _paths(entry)]
        there = [(self.folder / Path(path).name).is_file() for path in paths]
        return not paths or not all(there) or not self._shared.isdisjoint(paths)

    def factual(self, images: Float[Tensor, "image channel height width"]) -> None:
        """Show the images themselves."""
        self._index["factual"] = self._write(images, "factual")
        self._save()

    def truth(self, do: str, images: Float[Tensor, "image channel height width"]) -> None:
        """Show the true counterfactuals of an intervention."""
        entry = {"do": do, "counterfactual": self._write(images, "truth", do)}
        self._put("truth", entry)

    def answer(
        self,
        do: str,
        guidance: str,
        images: Float[Tensor, "image channel height width"],
        back: Float[Tensor, "image channel height width"] | None,
    ) -> None:
        """Show counterfactuals, and the way back where it was gone."""
        entry = {
            "do": do,
            "guidance": guidance,
            "counterfactual": self._write(images, "answer", do, guidance),
            "reversed": None if back is None else self._write(back, "reversed", do, guidance),
        }
        self._put("rows", entry)

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

    def _put(self, part: str, entry: dict[str, Any]) -> None:
        asked = {key: entry[key] for key in ("do", "guidance") if key in entry}
        others = [e for e in self._index[part] if not asked.items() <= e.items()]
        self._index[part] = [*others, entry]
        self._save()

    def _save(self) -> None:
        write_atomically(self.folder.parent / INDEX, json.dumps(self._index, indent=1).encode())


def read_index(folder: Path) -> dict[str, Any]:
    """The index of the pictures of a run.

    Args:
        folder: Of the run.

    Raises:
        OSError: There is none that can be read.
        ValueError: It is none.
    """
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(path)
    with path.open("rb") as file:
        data = file.read(_LONGEST + 1)
    try:
        index = json.loads(data) if len(data) <= _LONGEST else None
    except RecursionError as error:
        raise ValueError("brackets within brackets, too many of them") from error
    if not isinstance(index, dict):
        raise ValueError("no object" if len(data) <= _LONGEST else "too long")
    return index


def _paths(entry: dict[str, Any]) -> list[str]:
    return [*entry["counterfactual"], *(entry.get("reversed") or ())]
