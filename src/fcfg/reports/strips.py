"""Strips of pictures: one line for each image, one column for each setting."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from fcfg.evaluation.pictures import read_index
from fcfg.evaluation.result_files import BASELINE, Result
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.numbers import listed, named
from fcfg.reports.rule_styles import Setting
from fcfg.reports.wording import in_words
from fcfg.sheet import difference_map, difference_scale, sheet
from fcfg.support.errors import InputError
from fcfg.support.images import images_from_bytes, read_images

_MANY, _FEW = 6, 3  # images in a strip of counterfactuals, and in one with difference maps
_INDEX = "pictures/index.json"


@dataclass(frozen=True, eq=False)
class Pictures:
    """The pictures of a run: every tensor holds the same images, in [-1, 1]."""

    names: tuple[str, ...]  #: of the images
    factual: Tensor = field(repr=False)
    answers: dict[tuple[str, str], Tensor] = field(repr=False)  #: by intervention and guidance
    reversed: dict[tuple[str, str], Tensor] = field(repr=False)
    truth: dict[str, Tensor] = field(repr=False)  #: by intervention

    def of(self, names: Sequence[str]) -> Pictures:
        """The pictures of some images, in their order."""
        rows = [self.names.index(name) for name in names]
        return Pictures(
            tuple(names),
            self.factual[rows],
            {key: images[rows] for key, images in self.answers.items()},
            {key: images[rows] for key, images in self.reversed.items()},
            {do: images[rows] for do, images in self.truth.items()},
        )


@dataclass(frozen=True, eq=False)
class Group:
    """Columns under one title, such as the images of one setting."""

    title: str
    columns: dict[str, Tensor] = field(repr=False)  #: images by heading
    setting: Setting | None = None


@dataclass(frozen=True, eq=False)
class Strip:
    """Groups of columns, with one line for each image."""

    name: str  #: of the file
    do: str
    groups: tuple[Group, ...]
    scale: float | None = None  #: difference at the ends of the colours of its maps
    words: str = ""  #: what it shows

    @property
    def png(self) -> bytes:
        """The strip as one picture, transposed: every column becomes a row."""
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
    """Read the pictures that an evaluation kept; None if it kept none.

    Args:
        result: Result that was read from its folder.
    """
    if result.folder is None or not (result.folder / _INDEX).exists():
        return None
    try:
        index = read_index(result.folder)
    except (OSError, ValueError) as error:
        raise _refusal(result.folder, f"something else ({error})") from error
    folder = result.folder.resolve()
    try:
        answers = {(row["do"], row["guidance"]): row for row in index["rows"]}
        return Pictures(
            tuple(index["images"]),
            _read(folder, index["factual"]),
            {key: _read(folder, row["counterfactual"]) for key, row in answers.items()},
            {
                key: _read(folder, row["reversed"])
                for key, row in answers.items()
                if row["reversed"]
            },
            {row["do"]: _read(folder, row["counterfactual"]) for row in index["truth"]},
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


def _read(folder: Path, paths: Sequence[str]) -> Tensor:
    pictures = [_open(folder, path) for path in paths]
    mode = "L" if all(picture.mode == "L" for picture in pictures) else "RGB"
    converted = [picture.convert(mode) for picture in pictures]
    images = read_images(converted, channels=1 if mode == "L" else 3)
    return images.expand(-1, 3, -1, -1)  # beside coloured maps


def _open(folder: Path, path: str) -> Image.Image:
    """Open a picture, which must lie in the folder."""
    file = (folder / path).resolve()
    if folder not in file.parents:
        raise _refusal(folder, f"a picture elsewhere, '{path}'")
    try:
        with Image.open(file) as picture:
            picture.load()
            return picture
    except (OSError, UnidentifiedImageError) as error:
        raise _refusal(folder, f"a picture that cannot be read, '{path}'") from error


@dataclass(frozen=True, eq=False)
class Album:
    """Pictures of the same images, from all runs that kept some."""

    comparison: Comparison
    pictures: dict[str, Pictures] = field(repr=False)  #: by name of the run

    @property
    def first(self) -> Pictures:
        """Those of the first run."""
        return next(iter(self.pictures.values()))

    def answer(self, row: Row) -> Tensor | None:
        """Counterfactuals of a row, if there are some."""
        own = self.pictures.get(row.run.name)
        return own and own.answers.get((row.cell.do, row.cell.guidance))

    def back(self, row: Row) -> Tensor | None:
        """Reversals of a row, if there are some."""
        own = self.pictures.get(row.run.name)
        return own and own.reversed.get((row.cell.do, row.cell.guidance))

    def truth(self, do: str) -> Tensor | None:
        """True counterfactuals, if a run kept them."""
        return next((own.truth[do] for own in self.pictures.values() if do in own.truth), None)

    def known(self, do: str, rows: slice) -> list[Group]:
        """The factual images, and the truth."""
        truth = self.truth(do)
        groups = [Group("factual", {"": self.first.factual[rows]})]
        return groups if truth is None else [*groups, Group("truth", {"": truth[rows]})]


def read_album(comparison: Comparison) -> Album | None:
    """Read the pictures of the images that all runs with pictures have; None if there are none."""
    found = {run.name: own for run in comparison.runs if (own := read_pictures(run.result))}
    every = [own.names for own in found.values()]
    shown = [name for own in every[:1] for name in own if all(name in other for other in every)]
    return Album(comparison, {run: own.of(shown) for run, own in found.items()}) if shown else None


def make_strips(album: Album) -> dict[str, list[Strip]]:
    """Strips of each kind, with one strip for each intervention that has pictures of it.

    ``counterfactuals`` have every setting of one run, or the one that represents each of several
    models. ``truth`` and ``reversal`` have the settings that are picked, and of one run the
    unguided one, with maps of differences.
    """
    strips: dict[str, list[Strip]] = {"counterfactuals": [], "truth": [], "reversal": []}
    alone = album.comparison.is_alone
    for do in album.comparison.dos:
        picked = album.comparison.picked(do)
        every = {
            row: answer
            for row in (album.comparison.rows[do] if alone else picked)
            if (answer := album.answer(row)) is not None
        }
        plain = [row for row in every if alone and row.cell.guidance == BASELINE]
        few = [row for row in dict.fromkeys([*plain, *picked]) if row in every]
        if every:
            groups = [
                Group(row.setting.title, {"": answer[:_MANY]}, row.setting)
                for row, answer in every.items()
            ]
            known = album.known(do, slice(_MANY))
            strips["counterfactuals"].append(Strip(f"counterfactuals-{do}", do, (*known, *groups)))
        truth = album.truth(do)
        if few and truth is not None:
            own = {row: every[row][:_FEW] for row in few}
            strips["truth"].append(_truth_strip(album, do, truth[:_FEW], own))
        ways = {row: (every[row], back) for row in few if (back := album.back(row)) is not None}
        if ways:
            strips["reversal"].append(_reversal_strip(album, do, ways))
    return strips


def _truth_strip(album: Album, do: str, truth: Tensor, answers: Mapping[Row, Tensor]) -> Strip:
    """Counterfactuals, and their differences from the truth."""
    scale = _scale(truth, *answers.values())
    groups = [
        Group(
            row.setting.title,
            {"answer": answer, "error": _maps(truth, answer, scale)},
            row.setting,
        )
        for row, answer in answers.items()
    ]
    return Strip(f"truth-{do}", do, (*album.known(do, slice(_FEW)), *groups), scale)


def _reversal_strip(album: Album, do: str, ways: Mapping[Row, tuple[Tensor, Tensor]]) -> Strip:
    """Counterfactuals and their changes, reversals and their losses."""
    factual = album.first.factual[:_FEW]
    both = {row: (there[:_FEW], back[:_FEW]) for row, (there, back) in ways.items()}
    scale = _scale(factual, *(images for way in both.values() for images in way))
    nothing = torch.zeros_like(factual)
    groups = [
        Group(
            row.setting.title,
            {
                "there": there,
                "change": _maps(factual, there, scale),
                "back": back,
                "loss": _maps(nothing, (back - factual).abs(), scale),
            },
            row.setting,
        )
        for row, (there, back) in both.items()
    ]
    return Strip(f"reversal-{do}", do, (Group("factual", {"": factual}), *groups), scale)


def opening_strip(album: Album) -> Strip | None:
    """The first intervention that has pictures, on the image that it changes most.

    The change is measured on the truth; if that is not known, on the unguided counterfactual, or
    else on the first one there is. The settings that are shown do not take part in the choice.
    """
    factual, names = album.first.factual, album.first.names
    for do in album.comparison.dos:
        picked = {
            row: answer
            for row in album.comparison.picked(do)
            if (answer := album.answer(row)) is not None
        }
        if not picked:
            continue
        source, changed = next((row.setting.title, answer) for row, answer in picked.items())
        plain = [
            album.answer(row) for row in album.comparison.rows[do] if row.cell.guidance == BASELINE
        ]
        for name, images in (
            ("the unguided counterfactual", plain[0] if plain else None),
            ("the truth", album.truth(do)),
        ):
            source, changed = (source, changed) if images is None else (name, images)
        place = int((changed - factual).abs().flatten(1).mean(dim=1).argmax())
        only = slice(place, place + 1)
        groups = [Group(r.setting.title, {"": own[only]}, r.setting) for r, own in picked.items()]
        first = next(iter(picked))
        words = (
            f"{named(do)}: {in_words(first.run.summary, do)}.{_values(first, names[place])} Of "
            f"the {len(names)} images with pictures, this is the one that {source} changes most."
        )
        return Strip(f"opening-{do}", do, (*album.known(do, only), *groups), words=words)
    return None


def _values(row: Row, image: str) -> str:
    """A sentence on how the attributes of one image change."""
    result, key = row.run.result, (row.cell.do, row.cell.guidance, image)
    rows = (one for one in result.rows if (one["do"], one["guidance"], one["image"]) == key)
    target = next((one["target"] for one in rows), {})
    own = result.real[image]["attributes"] if target else {}
    changes = [
        f"{name} changes from {_short(own[name])} to {_short(value)}"
        for name, value in target.items()
        if value != own[name]
    ]
    return f" Here {listed(changes)}." if changes else ""


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _scale(images: Tensor, *others: Tensor) -> float:
    """One scale for all maps of a strip, so that they can be compared."""
    return max(
        difference_scale(a, b) for some in others for a, b in zip(images, some, strict=True)
    )


def _maps(images: Tensor, others: Tensor, scale: float) -> Tensor:
    maps = [difference_map(a, b, scale) for a, b in zip(images, others, strict=True)]
    return images_from_bytes(torch.from_numpy(np.stack(maps)).permute(0, 3, 1, 2))


def ramp(width: int = 128) -> bytes:
    """The colours of a difference map, from darker to brighter, as a PNG one pixel high."""
    share = torch.linspace(-1, 1, width).reshape(1, 1, width)
    return encoded(Image.fromarray(difference_map(torch.zeros_like(share), share, 1.0)))
