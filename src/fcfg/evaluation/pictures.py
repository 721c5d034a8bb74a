"""Pictures of the first images of a run: files, and an index of them for reports.

The name of a file follows from what it shows, so that missing ones are known by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from jaxtyping import Float
from PIL import Image
from pydantic import BaseModel, Field
from torch import Tensor

from fcfg.support.config_files import parse_json, read_text, validate
from fcfg.support.errors import InputError
from fcfg.support.files import file_name, remove_files, write_atomically
from fcfg.support.images import read_images, to_pictures

PICTURES = "pictures"
INDEX = f"{PICTURES}/index.json"
_OURS = re.compile(r"(index\.json)|(factual|(truth|answer|reversed)-.*-[0-9a-f]{12})-\d+\.png")


class Shown(BaseModel):
    """Paths of the answers to a question, or of the truth."""

    do: str
    guidance: str = ""
    counterfactual: list[str]
    reversed: list[str] | None = None


class Index(BaseModel):
    """Paths of the pictures that an evaluation kept in its folder."""

    folder: Path = Field(exclude=True)
    images: list[str]
    factual: list[str]
    truth: list[Shown]
    rows: list[Shown]

    def read(self, paths: Sequence[str], names: Sequence[str]) -> Tensor:
        """Read the pictures of some images, which must lie in the folder."""
        known, folder = dict(zip(self.images, paths, strict=False)), self.folder.resolve()
        pictures: list[Image.Image] = []
        for path in (known.get(name, "") for name in names):
            file = (folder / path).resolve()
            if folder not in file.parents:
                raise _refusal(folder, f"a picture elsewhere, '{path}'")
            try:
                with Image.open(file) as picture:
                    pictures.append(picture.convert("RGB"))  # beside coloured maps
            except OSError as error:
                raise _refusal(folder, f"a picture that cannot be read, '{path}'") from error
        return read_images(pictures, channels=3)


def read_index(folder: Path | None) -> Index | None:
    """Read the index of the pictures in the folder of a run; None if it kept none."""
    if folder is None or not (folder / INDEX).exists():
        return None
    subject, do = f"pictures {folder / INDEX}", "remove the folder of pictures"
    text = read_text(folder / INDEX, subject, expected="the index of pictures")
    return validate(Index, parse_json(text, subject, do=do) | {"folder": folder}, subject)


def _refusal(folder: Path, got: str) -> InputError:
    return InputError(
        f"pictures {folder / INDEX}",
        expected="the index that 'fcfg evaluate' wrote",
        got=got,
        do="remove the folder of pictures to have a report without them",
    )


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
        rows = [
            Shown(
                do=do,
                guidance=guidance,
                counterfactual=self._paths("answer", do, guidance),
                reversed=self._paths("reversed", do, guidance) if reversed_too else None,
            )
            for do, guidance in questions
        ]
        drawn = dict.fromkeys(row.do for row in rows) if truth else ()
        true = [Shown(do=do, counterfactual=self._paths("truth", do)) for do in drawn]
        index = Index(
            folder=self.folder,
            images=list(self.names),
            factual=self._paths("factual"),
            truth=true,
            rows=rows,
        )
        write_atomically(self.folder / INDEX, index.model_dump_json(indent=1).encode())

    def _paths(self, *shown: str) -> list[str]:
        name = file_name(*shown)
        return [f"{PICTURES}/{name}-{number}.png" for number in range(len(self.names))]
