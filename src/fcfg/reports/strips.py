"""Strips of pictures: images line by line, what was made of them from left to right."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from fcfg.evaluation.pictures import read_index
from fcfg.evaluation.result_files import Result
from fcfg.evaluation.summary import Summary
from fcfg.reports.rule_styles import Setting, setting, strongest
from fcfg.sheet import difference_map, difference_scale, sheet
from fcfg.support.errors import InputError
from fcfg.support.images import images_from_bytes, read_images

_MANY, _FEW = 6, 3  # images in a strip of answers, and in one with maps
_INDEX = "pictures/index.json"


@dataclass(frozen=True, eq=False)
class Pictures:
    """The pictures of a run: every tensor holds the same images, in [-1, 1]."""

    names: tuple[str, ...]  #: of the images
    factual: Tensor = field(repr=False)
    answers: dict[tuple[str, str], Tensor] = field(repr=False)  #: by intervention and guidance
    reversed: dict[tuple[str, str], Tensor] = field(repr=False)
    truth: dict[str, Tensor] = field(repr=False)  #: by intervention


@dataclass(frozen=True, eq=False)
class Group:
    """Columns that belong together, such as all that one setting gave."""

    title: str
    columns: dict[str, Tensor] = field(repr=False)  #: images by heading
    setting: Setting | None = None


@dataclass(frozen=True, eq=False)
class Strip:
    """Groups of columns, one line an image."""

    name: str  #: of the file
    do: str
    groups: tuple[Group, ...]
    scale: float | None = None  #: where the colours of its maps end

    @property
    def png(self) -> bytes:
        """The strip as one picture; there every column of the page is a row."""
        rows = {
            f"{group.title}: {heading}" if heading else group.title: images
            for group in self.groups
            for heading, images in group.columns.items()
        }
        side = next(iter(rows.values())).shape[-1]
        return encoded(sheet(rows, scale=max(1, 64 // side)))


def encoded(picture: Image.Image) -> bytes:
    """A picture as a PNG file."""
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return file.getvalue()


def read_pictures(result: Result) -> Pictures | None:
    """Read what an evaluation left for the eye; None where it left nothing.

    Args:
        result: Of a run that was read from its folder.
    """
    if result.folder is None or not (result.folder / _INDEX).exists():
        return None
    try:
        index = read_index(result.folder)
    except (OSError, ValueError) as error:
        raise _refusal(result.folder, f"something else ({error})") from error
    read = _Reader(result.folder)
    try:
        answers = {(row["do"], row["guidance"]): row for row in index["rows"]}
        return Pictures(
            tuple(index["images"]),
            read(index["factual"]),
            {key: read(row["counterfactual"]) for key, row in answers.items()},
            {key: read(row["reversed"]) for key, row in answers.items() if row["reversed"]},
            {row["do"]: read(row["counterfactual"]) for row in index["truth"]},
        )
    except (KeyError, TypeError) as error:
        raise _refusal(result.folder, f"no {error}") from error


def _refusal(folder: Path, got: str) -> InputError:
    return InputError(
        f"pictures {folder / _INDEX}",
        expected="the index that 'fcfg evaluate' wrote",
        got=got,
        do="remove the folder of pictures to have a report without them",
    )


class _Reader:
    """Reads pictures of one folder, and of no other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def __call__(self, paths: Sequence[str]) -> Tensor:
        pictures = [self._open(path) for path in paths]
        mode = "L" if all(picture.mode == "L" for picture in pictures) else "RGB"
        converted = [picture.convert(mode) for picture in pictures]
        images = read_images(converted, channels=1 if mode == "L" else 3)
        return images.expand(-1, 3, -1, -1)  # beside coloured maps

    def _open(self, path: str) -> Image.Image:
        file = (self.folder / path).resolve()
        if self.folder not in file.parents:
            raise _refusal(self.folder, f"a picture elsewhere, '{path}'")
        try:
            with Image.open(file) as picture:
                picture.load()
                return picture
        except (OSError, UnidentifiedImageError) as error:
            raise _refusal(self.folder, f"a picture that cannot be read, '{path}'") from error


def answer_strips(summary: Summary, pictures: Pictures) -> list[Strip]:
    """For each intervention: the images, the truth where it is known, and every setting."""
    strips: list[Strip] = []
    for do in summary.dos:
        groups = [
            Group(chosen.label, {"": pictures.answers[(do, chosen.text)][:_MANY]}, chosen)
            for chosen in map(setting, summary.settings)
            if (do, chosen.text) in pictures.answers
        ]
        if groups:
            known = _known(pictures, do, _MANY)
            strips.append(Strip(f"counterfactuals-{do}", do, (*known, *groups)))
    return strips


def truth_strips(summary: Summary, pictures: Pictures) -> list[Strip]:
    """For each intervention whose truth is known: answers, and where they differ from it."""
    strips: list[Strip] = []
    for do in summary.dos:
        chosen = [s for s in _chosen(summary) if (do, s.text) in pictures.answers]
        if do not in pictures.truth or not chosen:
            continue
        truth = pictures.truth[do][:_FEW]
        answers = {s: pictures.answers[(do, s.text)][:_FEW] for s in chosen}
        scale = _scale([(truth, answer) for answer in answers.values()])
        groups = [
            Group(s.label, {"answer": a, "error": _maps(truth, a, scale)}, s)
            for s, a in answers.items()
        ]
        known = _known(pictures, do, _FEW)
        strips.append(Strip(f"truth-{do}", do, (*known, *groups), scale))
    return strips


def reversal_strips(summary: Summary, pictures: Pictures) -> list[Strip]:
    """For each intervention: there, what changed, back again, and what was lost on the way."""
    strips: list[Strip] = []
    for do in summary.dos:
        chosen = [s for s in _chosen(summary) if (do, s.text) in pictures.reversed]
        if not chosen:
            continue
        factual = pictures.factual[:_FEW]
        there = {s: pictures.answers[(do, s.text)][:_FEW] for s in chosen}
        back = {s: pictures.reversed[(do, s.text)][:_FEW] for s in chosen}
        ends = [*there.values(), *back.values()]
        scale = _scale([(factual, images) for images in ends])
        nothing = torch.zeros_like(factual)
        groups = [
            Group(
                s.label,
                {
                    "there": there[s],
                    "change": _maps(factual, there[s], scale),
                    "back": back[s],
                    "loss": _maps(nothing, (back[s] - factual).abs(), scale),
                },
                s,
            )
            for s in chosen
        ]
        whole = Group("factual", {"": factual})
        strips.append(Strip(f"reversal-{do}", do, (whole, *groups), scale))
    return strips


def _known(pictures: Pictures, do: str, count: int) -> list[Group]:
    groups = [Group("factual", {"": pictures.factual[:count]})]
    if do in pictures.truth:
        groups.append(Group("truth", {"": pictures.truth[do][:count]}))
    return groups


def _chosen(summary: Summary) -> list[Setting]:
    """The settings that a strip with maps has room for: none, global, factored."""
    every = [setting(text) for text in summary.settings]
    plain = next((s for s in every if s.family == "none"), None)
    return [s for s in (plain, *strongest(every)) if s is not None]


def _scale(pairs: Sequence[tuple[Tensor, Tensor]]) -> float:
    """One that holds every pair of images, so that maps of a strip can be compared."""
    return max(
        difference_scale(a, b) for some, others in pairs for a, b in zip(some, others, strict=True)
    )


def _maps(images: Tensor, others: Tensor, scale: float) -> Tensor:
    maps = [difference_map(a, b, scale) for a, b in zip(images, others, strict=True)]
    return _to_images(np.stack(maps))


def _to_images(
    maps: UInt8[np.ndarray, "batch height width 3"],
) -> Float[Tensor, "batch 3 height width"]:
    return images_from_bytes(torch.from_numpy(maps).permute(0, 3, 1, 2))


def ramp(width: int = 128) -> bytes:
    """The colours of a map, from darkest to brightest, as a PNG one pixel high."""
    share = torch.linspace(-1, 1, width).reshape(1, 1, width)
    return encoded(Image.fromarray(difference_map(torch.zeros_like(share), share, 1.0)))
