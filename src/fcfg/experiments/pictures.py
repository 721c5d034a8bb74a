"""Pictures of the first images of a run, for the eye: files, and an index of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from fcfg.files import file_name, write_atomically
from fcfg.images import to_pictures

PICTURES, _INDEX = "pictures", "index.json"


class PictureFiles:
    """Writes pictures and keeps the index, which a report reads.

    Args:
        folder: Of the run.
        names: Of the images that are shown.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder, self.names = folder / PICTURES, names
        path = self.folder / _INDEX
        empty: dict[str, Any] = {"images": list(names), "factual": [], "rows": [], "truth": []}
        self._index = json.loads(path.read_text("utf-8")) if path.exists() else empty

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
        write_atomically(self.folder / _INDEX, json.dumps(self._index, indent=1).encode())
