"""Strips of pictures: one line for each image, one column for each setting."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from fcfg.evaluation.pictures import read_index
from fcfg.evaluation.result_files import BASELINE, Result
from fcfg.evaluation.summary import Summary
from fcfg.reports.numbers import listed, named
from fcfg.reports.rule_styles import Setting, setting, strongest
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


def make_strips(summary: Summary, pictures: Pictures) -> dict[str, list[Strip]]:
    """Strips of each kind, with one strip for each intervention that has pictures of it.

    ``counterfactuals`` have every setting. ``truth`` and ``reversal`` have the unguided, the
    strongest global, a factored and the first anchored setting, with maps of differences.

    Args:
        summary: Summary of a run.
        pictures: Pictures of the same run.
    """
    every = [setting(text) for text in summary.settings]
    few = [*(s for s in every if s.text == BASELINE), *_compared(every)]
    strips: dict[str, list[Strip]] = {"counterfactuals": [], "truth": [], "reversal": []}
    for do in summary.dos:
        answers = {
            s: pictures.answers[do, s.text] for s in every if (do, s.text) in pictures.answers
        }
        known = _known(pictures, do, slice(_MANY))
        if answers:
            groups = [Group(s.label, {"": answer[:_MANY]}, s) for s, answer in answers.items()]
            strips["counterfactuals"].append(Strip(f"counterfactuals-{do}", do, (*known, *groups)))
        answered = [s for s in few if s in answers]
        if answered and do in pictures.truth:
            strips["truth"].append(_truth_strip(pictures, do, answered))
        returned = [s for s in answered if (do, s.text) in pictures.reversed]
        if returned:
            strips["reversal"].append(_reversal_strip(pictures, do, returned))
    return strips


def _truth_strip(pictures: Pictures, do: str, settings: Sequence[Setting]) -> Strip:
    """Counterfactuals, and their differences from the truth."""
    truth = pictures.truth[do][:_FEW]
    answers = {s: pictures.answers[do, s.text][:_FEW] for s in settings}
    scale = _scale(truth, *answers.values())
    groups = [
        Group(s.label, {"answer": answer, "error": _maps(truth, answer, scale)}, s)
        for s, answer in answers.items()
    ]
    return Strip(f"truth-{do}", do, (*_known(pictures, do, slice(_FEW)), *groups), scale)


def _reversal_strip(pictures: Pictures, do: str, settings: Sequence[Setting]) -> Strip:
    """Counterfactuals and their changes, reversals and their losses."""
    factual = pictures.factual[:_FEW]
    there = {s: pictures.answers[do, s.text][:_FEW] for s in settings}
    back = {s: pictures.reversed[do, s.text][:_FEW] for s in settings}
    scale = _scale(factual, *there.values(), *back.values())
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
        for s in settings
    ]
    return Strip(f"reversal-{do}", do, (Group("factual", {"": factual}), *groups), scale)


def _compared(every: Sequence[Setting]) -> list[Setting]:
    """Return the strongest global setting, a factored one, and the first anchored one."""
    anchored = [s for s in every if s.anchored and s.weights]
    return [s for s in dict.fromkeys([*strongest(every), *anchored[:1]]) if s]


def opening_strip(summary: Summary, result: Result, pictures: Pictures) -> Strip | None:
    """The first intervention that has pictures, on the image that it changes most.

    The change is measured on the truth; if that is not known, on the unguided counterfactual, or
    else on the first one there is. The rules that are shown do not take part in the choice: the
    strongest global one, a factored one, and the first anchored one.

    Args:
        summary: Summary of the result.
        result: A whole run.
        pictures: Pictures of the same run.
    """
    every = [setting(text) for text in summary.settings]
    chosen = _compared(every) or every[:1]
    for do in summary.dos:
        shown = [s for s in chosen if (do, s.text) in pictures.answers]
        if not shown:
            continue
        source, changed = shown[0].label, pictures.answers[(do, shown[0].text)]
        if do in pictures.truth:
            source, changed = "the truth", pictures.truth[do]
        elif (do, BASELINE) in pictures.answers:
            source = "the unguided counterfactual"
            changed = pictures.answers[(do, BASELINE)]
        row = int((changed - pictures.factual).abs().flatten(1).mean(dim=1).argmax())
        only = slice(row, row + 1)
        groups = [Group(s.label, {"": pictures.answers[(do, s.text)][only]}, s) for s in shown]
        values = _values(result, do, shown[0].text, pictures.names[row])
        words = (
            f"{named(do)}: {in_words(summary, do)}.{values} Of the {len(pictures.names)} images "
            f"with pictures, this is the one that {source} changes most."
        )
        known = _known(pictures, do, only)
        return Strip(f"opening-{do}", do, (*known, *groups), words=words)
    return None


def _values(result: Result, do: str, guidance: str, image: str) -> str:
    """A sentence on how the attributes of one image change."""
    key = (do, guidance, image)
    rows = (row for row in result.rows if (row["do"], row["guidance"], row["image"]) == key)
    target = next((row["target"] for row in rows), {})
    own = result.real[image]["attributes"] if target else {}
    changes = [
        f"{name} changes from {_short(own[name])} to {_short(value)}"
        for name, value in target.items()
        if value != own[name]
    ]
    return f" Here {listed(changes)}." if changes else ""


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _known(pictures: Pictures, do: str, rows: slice) -> list[Group]:
    groups = [Group("factual", {"": pictures.factual[rows]})]
    if do in pictures.truth:
        groups.append(Group("truth", {"": pictures.truth[do][rows]}))
    return groups


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
