"""Pictures of the first images of a run, for the eye: files, and an index of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from fcfg.files import remove_files, write_atomically
from fcfg.images import to_pictures

PICTURES = "pictures"
INDEX = f"{PICTURES}/index.json"  # which file shows what, for reports


def remove_pictures(folder: Path) -> None:
    """Remove the pictures that an evaluation wrote to its folder, as its index names them.

    Args:
        folder: Folder of the run.
    """
    place = folder / INDEX
    try:
        index = json.loads(place.read_text("utf-8"))
        named = [index["factual"], *(row["counterfactual"] for row in index["truth"])]
        named += [
            row[kind] or [] for row in index["rows"] for kind in ("counterfactual", "reversed")
        ]
        names = [Path(path).name for paths in named for path in paths]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # not an index that an evaluation wrote
    remove_files([*(place.with_name(name) for name in names), place])


class PictureFiles:
    """Writes pictures and keeps the index, which a report reads.

    Args:
        folder: Of the run.
        names: Of the images that are shown.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder, self.names = folder / PICTURES, names
        path = folder / INDEX
        empty: dict[str, Any] = {"images": list(names), "factual": [], "rows": [], "truth": []}
        self._index = json.loads(path.read_text("utf-8")) if path.exists() else empty

    def factual(self, images: Float[Tensor, "image channel height width"]) -> None:
        """Show the images themselves."""
        self._index["factual"] = self._write("factual", images)
        self._save()

    def truth(self, do: str, images: Float[Tensor, "image channel height width"]) -> None:
        """Show the true counterfactuals of an intervention."""
        entry = {"do": do, "counterfactual": self._write(f"truth {do}", images)}
        self._put("truth", entry)

    def answer(
        self,
        do: str,
        guidance: str,
        images: Float[Tensor, "image channel height width"],
        back: Float[Tensor, "image channel height width"] | None,
    ) -> None:
        """Show counterfactuals, and the way back where it was gone."""
        name = f"{do} {guidance}"
        entry = {
            "do": do,
            "guidance": guidance,
            "counterfactual": self._write(name, images),
            "reversed": None if back is None else self._write(f"{name} reversed", back),
        }
        self._put("rows", entry)

    def _write(self, name: str, images: Float[Tensor, "image channel height width"]) -> list[str]:
        self.folder.mkdir(exist_ok=True)
        slug = re.sub(r"[^A-Za-z0-9.=+-]+", "-", name)
        paths = [f"{PICTURES}/{slug}-{number}.png" for number in range(len(self.names))]
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
