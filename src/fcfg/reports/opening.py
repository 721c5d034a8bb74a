"""What the page opens with: one image, large, with the truth and what two rules made of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fcfg.evaluation.result_files import BASELINE, JSON, Result
from fcfg.evaluation.summary import Summary
from fcfg.reports.html import Markup, picture, tag
from fcfg.reports.numbers import listed, named
from fcfg.reports.rule_styles import Setting, setting, strongest
from fcfg.reports.strips import Group, Pictures, Strip, encoded
from fcfg.reports.texts import in_words
from fcfg.support.images import to_pictures

_SIDE = 300  # of a picture on a wide page


@dataclass(frozen=True, eq=False)
class Opening:
    """One row of pictures, and what is to be seen."""

    strip: Strip
    words: str


def find_opening(summary: Summary, result: Result, pictures: Pictures) -> Opening | None:
    """The first intervention that has pictures, on the image that it changes most.

    The change is that of the truth; where that is not known, of the answer without guidance, or
    else of the first answer there is. Neither of the two rules that are shown has a say.

    Args:
        summary: Of the result.
        result: Of a whole run.
        pictures: Of the same run.
    """
    every = [setting(text) for text in summary.settings]
    chosen = [s for s in strongest(every) if s is not None] or every[:1]
    for do in summary.dos:
        shown = [s for s in chosen if (do, s.text) in pictures.answers]
        if shown:
            return _opening(summary, result, pictures, do, shown)
    return None


def _opening(
    summary: Summary, result: Result, pictures: Pictures, do: str, shown: list[Setting]
) -> Opening:
    whose, after = _changed(pictures, do, shown[0])
    change = (after - pictures.factual).abs().flatten(1).mean(dim=1)
    row = int(torch.argmax(change))
    columns = [Group("factual", {"": pictures.factual[row : row + 1]})]
    if do in pictures.truth:
        columns.append(Group("truth", {"": pictures.truth[do][row : row + 1]}))
    columns += [
        Group(s.label, {"": pictures.answers[(do, s.text)][row : row + 1]}, s) for s in shown
    ]
    image = pictures.names[row]
    words = (
        f"{named(do)}: {in_words(summary, do)}.{_values(result, do, shown[0].text, image)} Of the "
        f"{len(pictures.names)} images with pictures, this is the one that {whose} changes most."
    )
    return Opening(Strip(f"opening-{do}", do, tuple(columns)), words)


def _changed(pictures: Pictures, do: str, first: Setting) -> tuple[str, Tensor]:
    """What tells how much an intervention changes, and the images after it."""
    if do in pictures.truth:
        return "the truth", pictures.truth[do]
    if (do, BASELINE) in pictures.answers:
        return "the answer without guidance", pictures.answers[(do, BASELINE)]
    return first.label, pictures.answers[(do, first.text)]


def _values(result: Result, do: str, guidance: str, image: str) -> str:
    """What changes in the attributes of one image, in a sentence."""
    rows = (
        r for r in result.rows if (r["do"], r["guidance"], r["image"]) == (do, guidance, image)
    )
    row: JSON | None = next(rows, None)
    if row is None or image not in result.real:
        return ""
    own, wanted = result.real[image]["attributes"], row["target"]
    different = [name for name, value in wanted.items() if value != own[name]]
    changes = [
        f"{name} {'from' if number else 'goes from'} {_short(own[name])} to {_short(wanted[name])}"
        for number, name in enumerate(different)
    ]
    return f" Here {listed(changes)}." if changes else ""


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def opening_row(opening: Opening) -> Markup:
    """The pictures beside each other; on a phone, two in a line.

    Args:
        opening: What to show.
    """
    boxes: list[Markup] = []
    for group in opening.strip.groups:
        (images,) = group.columns.values()
        height, width = images.shape[-2:]
        shown = picture(
            encoded(to_pictures(images)[0]), group.title, (_SIDE, round(_SIDE * height / width))
        )
        style = f"color:{group.setting.colour}" if group.setting is not None else None
        boxes.append(tag("div", shown, tag("span", group.title, style=style)))
    return tag(
        "figure",
        tag("div", *boxes, class_="row"),
        tag("figcaption", opening.words),
        class_="opening",
    )
