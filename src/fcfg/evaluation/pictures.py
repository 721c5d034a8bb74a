"""Pictures of the first images of a run: files, and an index of them for reports.

The name of a file follows from what it shows, so that missing ones are known by their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from fcfg.support.files import file_name, remove_files, write_atomically
from fcfg.support.images import to_pictures

PICTURES = "pictures"
INDEX = f"{PICTURES}/index.json"
_OURS = re.compile(r"(index\.json)|(factual|(truth|answer|reversed)-.*-[0-9a-f]{12})-\d+\.png")


def remove_pictures(folder: Path) -> None:
    """Remove the pictures and the index that an evaluation wrote."""
    remove_files(path for path in (folder / PICTURES).glob("*") if _OURS.fullmatch(path.name))


class PictureFiles:
    """The pictures of some images in the folder of a run.

    What they show is 'factual'; 'truth' and an intervention; or 'answer' or 'reversed', with
    intervention and guidance.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder, self.names = folder, names

    def lack(self, *shown: str) -> bool:
        """Return whether some pictures are missing."""
        return not all((self.folder / path).is_file() for path in self._paths(*shown))

    def write(self, images: Float[Tensor, "image channel *size"], *shown: str) -> None:
        """Keep pictures of the first images, as many as have names."""
        (self.folder / PICTURES).mkdir(exist_ok=True)
        pictures = to_pictures(images[: len(self.names)])
        for path, picture in zip(self._paths(*shown), pictures, strict=True):
            write_atomically(self.folder / path, partial(picture.save, format="PNG"))

    def write_index(
        self, questions: Iterable[tuple[str, str]], *, reversed_too: bool, truth: bool
    ) -> None:
        """Write the paths of all pictures, for reports."""
        asked = list(questions)
        rows = [
            {
                "do": do,
                "guidance": guidance,
                "counterfactual": self._paths("answer", do, guidance),
                "reversed": self._paths("reversed", do, guidance) if reversed_too else None,
            }
            for do, guidance in asked
        ]
        dos = dict.fromkeys(do for do, _ in asked) if truth else ()
        index = {
            "images": list(self.names),
            "factual": self._paths("factual"),
            "rows": rows,
            "truth": [{"do": do, "counterfactual": self._paths("truth", do)} for do in dos],
        }
        write_atomically(self.folder / INDEX, json.dumps(index, indent=1).encode())

    def _paths(self, *shown: str) -> list[str]:
        name = file_name(*shown)
        return [f"{PICTURES}/{name}-{number}.png" for number in range(len(self.names))]
