"""Strips of pictures: one line for each image, one column for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fcfg.evaluation.pictures import read_index
from fcfg.evaluation.result_files import BASELINE
from fcfg.reports.comparison import Comparison
from fcfg.reports.measures import Row
from fcfg.reports.rule_styles import Setting
from fcfg.reports.wording import in_words, listed, named
from fcfg.sheet import difference_map, difference_scale, sheet
from fcfg.support.images import images_from_bytes, to_png

_MANY, _FEW = 6, 3  # images in a strip of counterfactuals, and in one with difference maps


@dataclass(frozen=True, eq=False)
class Group:
    """Columns under one title, such as the images of one setting."""

    title: str
    columns: dict[str, Tensor] = field(repr=False)  #: images by heading
    setting: Setting | None = None

    @classmethod
    def of(cls, row: Row, columns: dict[str, Tensor]) -> Group:
        """The pictures of a row, by heading."""
        return cls(row.setting.title, columns, row.setting)


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
        return to_png(sheet(rows, scale=max(1, 64 // side)))


@dataclass(frozen=True, eq=False)
class Album:
    """Pictures of the images that all runs with pictures have, in [-1, 1]."""

    names: tuple[str, ...]  #: of the images
    factual: Tensor = field(repr=False)
    truth: dict[str, Tensor] = field(repr=False)  #: by intervention
    answers: dict[Row, Tensor] = field(repr=False)
    reversed: dict[Row, Tensor] = field(repr=False)

    def known(self, do: str, rows: slice) -> list[Group]:
        """The factual images, and the truth."""
        shown = {"factual": self.factual} | ({"truth": self.truth[do]} if do in self.truth else {})
        return [Group(title, {"": images[rows]}) for title, images in shown.items()]


def read_album(comparison: Comparison) -> Album | None:
    """Read the pictures of the images that all runs with pictures have; None if there are none."""
    found = {run: own for run in comparison.runs if (own := read_index(run.result.folder))}
    every = [own.images for own in found.values()]
    names = [name for own in every[:1] for name in own if all(name in other for other in every)]
    if not names:
        return None
    first, truth = next(iter(found.values())), dict[str, Tensor]()
    answers, back = dict[Row, Tensor](), dict[Row, Tensor]()
    for own in found.values():
        truth = {one.do: own.read(one.counterfactual, names) for one in own.truth} | truth
    kept = {(run, one.do, one.guidance): one for run, own in found.items() for one in own.rows}
    for row in (row for measured in comparison.measured.values() for row in measured.rows):
        if one := kept.get((row.run, row.cell.do, row.cell.guidance)):
            answers[row] = found[row.run].read(one.counterfactual, names)
            if one.reversed:
                back[row] = found[row.run].read(one.reversed, names)
    return Album(tuple(names), first.read(first.factual, names), truth, answers, back)


def make_strips(comparison: Comparison, album: Album) -> dict[str, list[Strip]]:
    """The opening, and strips of each kind: of every setting of one run, and of those picked."""
    opening = opening_strip(comparison, album)
    strips: dict[str, list[Strip]] = {"opening": [] if opening is None else [opening]}
    strips |= {"counterfactuals": [], "truth": [], "reversal": []}
    for do in comparison.dos:
        picked = comparison.picked(do)
        rows = comparison.measured[do].drawn if comparison.is_alone else picked
        rows = [row for row in rows if row in album.answers]
        plain = [row for row in rows if comparison.is_alone and row.cell.guidance == BASELINE]
        few = [row for row in dict.fromkeys([*plain, *picked]) if row in rows]
        if rows:
            groups = [Group.of(row, {"": album.answers[row][:_MANY]}) for row in rows]
            known = album.known(do, slice(_MANY))
            strips["counterfactuals"].append(Strip(f"counterfactuals-{do}", do, (*known, *groups)))
        if few and do in album.truth:
            strips["truth"].append(_truth_strip(album, do, few))
        if few := [row for row in few if row in album.reversed]:
            strips["reversal"].append(_reversal_strip(album, do, few))
    return strips


def _truth_strip(album: Album, do: str, rows: Sequence[Row]) -> Strip:
    """Counterfactuals, and their differences from the truth."""
    truth, answers = album.truth[do][:_FEW], {row: album.answers[row][:_FEW] for row in rows}
    scale = _scale(truth, *answers.values())
    groups = [
        Group.of(row, {"answer": answer, "error": _maps(truth, answer, scale)})
        for row, answer in answers.items()
    ]
    return Strip(f"truth-{do}", do, (*album.known(do, slice(_FEW)), *groups), scale)


def _reversal_strip(album: Album, do: str, rows: Sequence[Row]) -> Strip:
    """Counterfactuals and their changes, reversals and their losses."""
    factual = album.factual[:_FEW]
    ways = {row: (album.answers[row][:_FEW], album.reversed[row][:_FEW]) for row in rows}
    scale = _scale(factual, *(images for way in ways.values() for images in way))
    groups = [Group("factual", {"": factual})]
    for row, (there, back) in ways.items():
        change, lost = _maps(factual, there, scale), (back - factual).abs()
        loss = _maps(torch.zeros_like(factual), lost, scale)
        columns = {"there": there, "change": change, "back": back, "loss": loss}
        groups.append(Group.of(row, columns))
    return Strip(f"reversal-{do}", do, tuple(groups), scale)


def opening_strip(comparison: Comparison, album: Album) -> Strip | None:
    """The first intervention that has pictures, on the image that it changes most.

    The truth says which, else the unguided answer, else the first there is.
    """
    for do in comparison.dos:
        picked = [row for row in comparison.picked(do) if row in album.answers]
        if not picked:
            continue
        changed = {picked[0].setting.title: album.answers[picked[0]]}
        for row in comparison.measured[do].rows:
            if row.cell.guidance == BASELINE and row in album.answers:
                changed["the unguided counterfactual"] = album.answers[row]
        if do in album.truth:
            changed["the truth"] = album.truth[do]
        source, images = list(changed.items())[-1]
        place = int((images - album.factual).abs().flatten(1).mean(dim=1).argmax())
        only = slice(place, place + 1)
        words = (
            f"{named(do)}: {in_words(picked[0].run.summary, do)}."
            f"{_values(picked[0], album.names[place])} Of the {len(album.names)} images with "
            f"pictures, this is the one that {source} changes most."
        )
        groups = [Group.of(row, {"": album.answers[row][only]}) for row in picked]
        return Strip(f"opening-{do}", do, (*album.known(do, only), *groups), words=words)
    return None


def _values(row: Row, image: str) -> str:
    """A sentence on how the attributes of one image change."""
    result = row.run.result
    asked = result.rows.get((row.cell.do, row.cell.guidance, image), {"target": {}})
    changes = [
        f"{name} changes from {_short(own)} to {_short(value)}"
        for name, value in asked["target"].items()
        if value != (own := result.real[image]["attributes"][name])
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
